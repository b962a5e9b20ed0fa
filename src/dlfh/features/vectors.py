"""Vectors that are ready: passed through, and held to one width."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._validation import Features, check_features, raise_if_not_finite
from dlfh.features.base import Featurizer, Readable

__all__ = ["Vectors"]


class Vectors(Featurizer):
    """Passes vectors through as they are, dense or sparse, without copying them.

    Parameters
    ----------
    verbose : bool, default False
        As everywhere; there is nothing to show here.

    Attributes
    ----------
    n_features_ : int
        Their length, which all later vectors must have.

    Examples
    --------
    >>> vectors = Vectors().fit([[1.0, 2.0], [3.0, 4.0]])
    >>> vectors.transform([[5.0, 6.0]])
    array([[5., 6.]])
    """

    kind = "vectors"
    takes = "vectors"

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose

    def _collect(self, items: Any) -> Any:
        return items if sp.issparse(items) or isinstance(items, np.ndarray) else super()._collect(items)

    def _fit(self, items: Any, strict: bool) -> int:
        return int(check_features(items, "vectors").shape[1])

    def _transform(self, items: Any, strict: bool) -> Readable:
        matrix = check_features(items, "vectors", self.n_features_)
        bad = _rows_with_holes(matrix)
        if strict and len(bad):
            raise_if_not_finite(matrix, "vectors")
        if not len(bad):
            return Readable(matrix, np.arange(matrix.shape[0]), {})
        rows = np.setdiff1d(np.arange(matrix.shape[0]), bad)
        return Readable(matrix[rows], rows, {int(row): f"vector {row} has NaN or infinity" for row in bad})


def _rows_with_holes(matrix: Features) -> Any:
    if sp.issparse(matrix):
        places = np.flatnonzero(~np.isfinite(matrix.data))
        return np.unique(np.searchsorted(matrix.indptr, places, side="right") - 1)
    return np.flatnonzero(~np.isfinite(matrix).all(axis=1))
