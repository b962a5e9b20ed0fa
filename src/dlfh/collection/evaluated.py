"""How good the answers of a collection are, by items that it does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dlfh.codes import Codes
from dlfh.collection.calibration_report import CalibrationReport, report_calibration
from dlfh.collection.evaluation import Database, RetrievalQuality, evaluate_queries
from dlfh.datasets.items import Items
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["EvaluationReport", "evaluate_collection"]


@dataclass(frozen=True)
class EvaluationReport:
    """What `Collection.evaluate` measured.

    Attributes
    ----------
    qualities : list of RetrievalQuality
        How well queries find items, by direction.
    calibration_reports : list of CalibrationReport
        How far the probabilities of answers can be trusted; empty if the collection has none.
    problems : list of Problem
        Queries that are not asked with: those that are in the collection themselves, or cannot be read.
    """

    qualities: list[RetrievalQuality]
    calibration_reports: list[CalibrationReport]
    problems: list[Problem]


def evaluate_collection(collection: Collection, queries: Items) -> EvaluationReport:
    """Ask with labelled items for those of a collection, and measure the answers."""
    seen = collection.index.contains(queries.ids) if queries.named else np.zeros(len(queries), bool)
    if seen.all():
        raise InputError("every query is in the collection itself: evaluate with items that it does not have")
    problems = [
        Problem(queries.places[row], "item", f"{queries.ids[row]!r} is in the collection itself")
        for row in np.flatnonzero(seen)
    ]
    unseen = queries.take(np.flatnonzero(~seen))
    vectors = collection.encoder.describe(unseen)
    qualities = evaluate_queries(collection.encoder, unseen, vectors, _databases(collection))
    calibration_reports = report_calibration(collection._searcher.exact(), unseen, vectors)
    return EvaluationReport(qualities, calibration_reports, [*queries.problems, *problems, *vectors.problems])


def _databases(collection: Collection) -> dict[str, Database]:
    """Return the labelled items of each modality."""
    by_modality: dict[str, tuple[list[Codes], list[list[str]], list[bool]]]
    by_modality = {name: ([], [], []) for name in collection.encoder.modalities_}
    for item in collection:
        labels = (item.metadata or {}).get("labels")
        if labels:
            for name, code in item.codes.items():
                codes, own, learned = by_modality[name]
                codes.append(code)
                own.append(labels)
                learned.append(item.states[name] == "learned")
    return {
        name: Database(np.stack(codes), labels, np.array(learned, bool))
        for name, (codes, labels, learned) in by_modality.items()
        if codes
    }
