"""Calibration error and Brier score of search probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh.collection.calibration.model import probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.collection.item_vectors import ItemVectors
    from dlfh.collection.searcher import Searcher
    from dlfh.datasets.items import Items

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Maximum number of queries per modality.
_MAX_QUERIES = 500


@dataclass(frozen=True)
class CalibrationReport:
    """Agreement of predicted probabilities with the observed share of relevant items.

    query: Modality of the queries.
    codes: Kind of the items' codes.
    n_pairs: Number of pairs of a query and an item.
    calibration_error: Expected calibration error: mean absolute difference between the predicted probability and the
        share of relevant pairs, over bins of equal width.
    brier: Brier score: mean squared difference between probability and relevance.
    share: Share of relevant pairs. Predicting it for every pair has a Brier score of ``share * (1 - share)``.
    """

    query: str
    codes: str
    n_pairs: int
    calibration_error: float
    brier: float
    share: float

    @classmethod
    def from_pairs(cls, query: str, codes: str, probabilities: Floats, relevant: Mask) -> CalibrationReport:
        """Compare predicted probabilities with relevance."""
        brier = float(np.mean((probabilities - relevant) ** 2)) if len(relevant) else 0.0
        share = float(relevant.mean()) if len(relevant) else 0.0
        error = expected_calibration_error(probabilities, relevant)
        return cls(query, codes, len(relevant), error, brier, share)


def expected_calibration_error(probabilities: Floats, relevant: Mask, n_bins: int = 15) -> float:
    """Return the expected calibration error over bins of equal width."""
    if not len(relevant):
        return 0.0
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, probabilities, n_bins) - np.bincount(bins, relevant, n_bins)
    return round(float(np.abs(gaps).sum() / len(relevant)), 12)


def relevance(queries: Sequence[Sequence[str]], items: Sequence[Sequence[str]]) -> Mask:
    """Return whether each query shares a label with each item, shape (queries, items)."""
    rows = LabelSets.from_labels([*queries, *items]).unit_rows_of_points()
    shared: Mask = (rows[: len(queries)] @ rows[len(queries) :].T).toarray() > 0
    return shared


def report_calibration(searcher: Searcher, queries: Items, vectors: ItemVectors) -> list[CalibrationReport]:
    """Search with labelled items and compare the probabilities of all labelled items with their relevance.

    Returns: One for each query modality and kind of codes; empty if the collection is not calibrated.
    """
    stored = [(item.metadata or {}).get("labels") or [] for item in searcher.index.items()]
    labelled = np.array([bool(labels) for labels in stored], bool)
    reports = []
    for name in vectors.matrices:
        rows = np.intersect1d(vectors.positions[name], np.flatnonzero(queries.labelled()))[:_MAX_QUERIES]
        values = queries.modalities[name]
        is_text = name in searcher.encoder.text_modalities() and not isinstance(values, np.ndarray)
        texts = [values[row] for row in rows] if is_text else None
        found = searcher.log_odds(name, vectors.take(name, rows), texts) if len(rows) else None
        if found is None:
            continue
        log_odds, learned = found
        relevant = relevance(queries.take(rows).labels or [], stored)
        for kind, mask in (("learned", learned), ("hashed", ~learned)):
            counted = np.isfinite(log_odds) & (mask & labelled)
            if counted.any():
                probabilities = probability(log_odds[counted])
                reports.append(CalibrationReport.from_pairs(name, kind, probabilities, relevant[counted]))
    return reports
