"""Calibration error and Brier score of search probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dlfh._arrays import Floats, Mask
from dlfh._labels import LabelSets
from dlfh._probabilities.scores import Match
from dlfh.collection.calibration.model import probability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.collection.item_codes import ItemVectors
    from dlfh.collection.searcher import Searcher
    from dlfh.datasets.items import Items


#: Maximum number of queries per modality, and number of items that people read.
_MAX_QUERIES, _FIRST = 500, 10


@dataclass(frozen=True)
class CalibrationReport:
    """Agreement of predicted probabilities with the observed share of relevant items.

    query: Modality of the queries.
    codes: Kind of the items' codes.
    n_pairs: Number of pairs of a query and an item.
    calibration_error: Expected calibration error: mean absolute difference between the predicted probability and the
        share of relevant pairs, over bins of equal width.
    first_ten: The same for the first ten items of each query alone, which people read.
    brier: Brier score: mean squared difference between probability and relevance.
    share: Share of relevant pairs. Predicting it for every pair has a Brier score of ``share * (1 - share)``.
    """

    query: str
    codes: str
    n_pairs: int
    calibration_error: float
    first_ten: float
    brier: float
    share: float

    @classmethod
    def from_results(
        cls, query: str, codes: str, log_odds: Sequence[Floats], relevant: Sequence[Mask]
    ) -> CalibrationReport:
        """Compare predicted log-odds of the items of each query, minus infinity for those to ignore, with relevance."""
        found = [np.flatnonzero(np.isfinite(values)) for values in log_odds]
        ranked = [rows[np.argsort(-log_odds[q][rows], kind="stable")] for q, rows in enumerate(found)]
        predicted, true = (
            np.concatenate([np.empty(0), *(values[q][rows] for q, rows in enumerate(ranked))])
            for values in (log_odds, relevant)
        )
        first = np.concatenate([np.empty(0, bool), *(np.arange(len(rows)) < _FIRST for rows in ranked)])
        probabilities, mask = probability(predicted), true.astype(bool)
        brier = float(np.mean((probabilities - mask) ** 2)) if len(mask) else 0.0
        share = float(mask.mean()) if len(mask) else 0.0
        error = expected_calibration_error(probabilities, mask)
        first_ten = expected_calibration_error(probabilities[first], mask[first])
        return cls(query, codes, len(mask), error, first_ten, brier, share)


def expected_calibration_error(probabilities: Floats, relevant: Mask, n_bins: int = 15) -> float:
    """Return the expected calibration error over bins of equal width."""
    if not len(relevant):
        return 0.0
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, probabilities, n_bins) - np.bincount(bins, relevant, n_bins)
    return round(float(np.abs(gaps).sum() / len(relevant)), 12)


def relevance(queries: Sequence[Sequence[str]], items: Sequence[Sequence[str]], match: Match) -> Mask:
    """Return whether each item has any label, or all labels, of each query, shape (queries, items)."""
    sets = LabelSets.from_labels([*queries, *items])
    rows = sets.rows()[sets.set_of_point]
    shared = (rows[: len(queries)] @ rows[len(queries) :].T).toarray()
    n_labels = np.asarray(rows[: len(queries)].sum(axis=1)).reshape(-1, 1)
    relevant: Mask = (shared > 0) & (shared >= (n_labels if match == "all" else 1))
    return relevant


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
        relevant = relevance(queries.take(rows).labels or [], stored, "all" if is_text else "any")
        for kind, mask in (("learned", learned), ("hashed", ~learned)):
            counted = np.where(mask & labelled, log_odds, -np.inf)
            if np.isfinite(counted).any():
                reports.append(CalibrationReport.from_results(name, kind, [*counted], [*relevant]))
    return reports
