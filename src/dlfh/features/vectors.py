"""Precomputed vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._validation import check_features, non_finite_rows, raise_if_not_finite
from dlfh.features.base import Featurizer, PartialFeatures


class Vectors(Featurizer):
    """Passes dense or sparse vectors through without copying them.

    Parameters
    ----------
    verbose : bool, default False
        Has no effect here.

    Attributes
    ----------
    n_features_ : int
        Length of the vectors, which all later vectors must have.

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

    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        matrix = check_features(items, "vectors", self.n_features_)
        bad = non_finite_rows(matrix)
        if strict and len(bad):
            raise_if_not_finite(matrix, "vectors")
        if not len(bad):
            return PartialFeatures(matrix, np.arange(matrix.shape[0]), {})
        rows = np.setdiff1d(np.arange(matrix.shape[0]), bad)
        return PartialFeatures(matrix[rows], rows, {int(row): f"vector {row} contains NaN or infinity" for row in bad})
