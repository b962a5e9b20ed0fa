"""How far probabilities can be trusted: the expected calibration error, and the Brier score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dlfh.collection.item_vectors import ItemVectors
    from dlfh.collection.searcher import Searcher
    from dlfh.datasets.items import Items

__all__ = ["CalibrationReport", "expected_error", "report_calibration"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: So many queries tell how far probabilities can be trusted.
_MOST_QUERIES = 500


@dataclass(frozen=True)
class CalibrationReport:
    """How far probabilities can be trusted, in one direction of search.

    Attributes
    ----------
    query : str
        The modality that asks.
    codes : {"learned", "hashed"}
        What codes the items have that are asked for.
    n_pairs : int
        Pairs of a query and an item.
    calibration_error : float
        Expected calibration error: by how much probabilities differ from the share of right answers among those of
        about that probability, on average.
    brier : float
        The mean squared difference of probabilities and truth.
    share : float
        The share of right pairs; always saying this would have the Brier score ``share * (1 - share)``.
    """

    query: str
    codes: str
    n_pairs: int
    calibration_error: float
    brier: float
    share: float

    @classmethod
    def of(cls, query: str, codes: str, probabilities: Floats, right: Mask) -> CalibrationReport:
        """Compare probabilities with the truth."""
        brier = float(np.mean((probabilities - right) ** 2)) if len(right) else 0.0
        share = float(right.mean()) if len(right) else 0.0
        return cls(query, codes, len(right), expected_error(probabilities, right), brier, share)


def expected_error(probabilities: Floats, right: Mask, n_bins: int = 15) -> float:
    """Return the expected calibration error, over bins of equal width.

    Examples
    --------
    >>> expected_error(np.array([0.1, 0.1, 0.9, 0.9]), np.array([False, False, True, True]))
    0.1
    """
    if not len(right):
        return 0.0
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, probabilities, n_bins) - np.bincount(bins, right, n_bins)
    return round(float(np.abs(gaps).sum() / len(right)), 12)


def report_calibration(searcher: Searcher, queries: Items, vectors: ItemVectors) -> list[CalibrationReport]:
    """Ask with labelled items as a user would, and compare the probabilities of all answers with the truth.

    Returns
    -------
    list of CalibrationReport
        For each modality that asks and each kind of codes that labelled items have; empty without a calibration.
    """
    from dlfh._labels import LabelSets

    stored = [(item.metadata or {}).get("labels") or [] for item in searcher.index.items()]
    labelled = np.array([bool(own) for own in stored], bool)
    calibration_reports = []
    for name in vectors.matrices:
        rows = np.intersect1d(vectors.positions[name], np.flatnonzero(queries.labelled()))[:_MOST_QUERIES]
        values = None if isinstance(queries.modalities[name], np.ndarray) else queries.modalities[name]
        texts = [values[row] for row in rows] if name in searcher.encoder.text_modalities() and values else None
        answered = searcher.log_odds_of_all(name, vectors.take(name, rows), texts) if len(rows) else None
        if answered is None:
            continue
        log_odds, learned = answered
        labels = LabelSets.from_labels([*(queries.take(rows).labels or []), *stored]).unit_rows_of_points()
        right = (labels[: len(rows)] @ labels[len(rows) :].T).toarray() > 0
        for kind, mask in (("learned", learned), ("hashed", ~learned)):
            counted = np.isfinite(log_odds) & (mask & labelled)
            if counted.any():
                calibration_reports.append(
                    CalibrationReport.of(name, kind, 1 / (1 + np.exp(-log_odds[counted])), right[counted])
                )
    return calibration_reports
