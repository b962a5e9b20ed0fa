"""Features less their mean, as an operator: products with X - 1 m' that leave sparse X sparse.

What linear methods are made of: Gram matrices, cross products and projections, in double precision,
dense data in chunks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._mathematics.moments import dense_gram, is_constant, rounding_of, row_chunks, sparse_gram
from dlfh._validation import Features, column_means, raise_for_overflow, raise_if_not_finite

__all__ = ["Centred", "CentredRows"]

Floats = npt.NDArray[np.float64]


class CentredRows:
    """One modality's features less a mean that is known: of these points, or of others too.

    Parameters
    ----------
    features : ndarray or CSR matrix (n, d)
    modality : str
        Its name, for errors.
    mean : ndarray of float64 (d,)
    is_constant : ndarray of bool (d,)
        Which features count as exactly 0.
    """

    def __init__(self, features: Features, modality: str, mean: Floats, is_constant: npt.NDArray[np.bool_]) -> None:
        self.features, self.modality = features, modality
        self.mean, self.is_constant = mean, is_constant
        self.n_points, self.n_features = features.shape

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.features))

    def times(self, weights: npt.NDArray[Any]) -> Floats:
        """Return (X - 1 m') W, shape (n, k)."""
        W = np.where(self.is_constant[:, None], 0.0, weights)
        if self.is_sparse:
            return self.features @ W - self.mean @ W
        products = np.empty((self.n_points, W.shape[1]))
        for start, stop in row_chunks(self.features):
            np.matmul(self._rows(slice(start, stop)), W, out=products[start:stop])
        return products

    def transposed_times(self, values: npt.NDArray[Any]) -> Floats:
        """Return (X - 1 m')'Z for Z (n, k), dense or sparse; shape (d, k)."""
        if self.is_sparse:
            products = self.features.T @ values
            if sp.issparse(products):
                products = products.toarray()
            products = products - np.outer(self.mean, np.asarray(values.sum(axis=0)).ravel())
        else:
            products = np.zeros((self.n_features, values.shape[1]))
            for start, stop in row_chunks(self.features):
                products += self._rows(slice(start, stop)).T @ values[start:stop]
        products[self.is_constant] = 0
        return products

    def products_with_signs(self, weights: Floats) -> Floats:
        """Return (X - 1 m')'sign((X - 1 m') W), shape (d, k): dense rows are centred once for both products."""
        if self.is_sparse:
            return self.transposed_times(np.sign(self.times(weights)))
        W = np.where(self.is_constant[:, None], 0.0, weights)
        products = np.zeros((self.n_features, W.shape[1]))
        for start, stop in row_chunks(self.features):
            rows = self._rows(slice(start, stop))
            products += rows.T @ np.sign(rows @ W)
        products[self.is_constant] = 0
        return products

    def weighted_gram(self, weights: Floats) -> Floats:
        """Return (X - 1 m')'D(X - 1 m') for weights D of the points, shape (d, d)."""
        gram = np.zeros((self.n_features, self.n_features))
        for start, rows in self.chunks():
            gram += rows.T @ (weights[start : start + len(rows), None] * rows)
        return gram

    def chunks(self) -> Iterator[tuple[int, Floats]]:
        """Yield chunks of centred rows, each with the number of its first row."""
        width = self.n_features if self.is_sparse else 0
        for start, stop in row_chunks(self.features, width):
            yield start, self._rows(slice(start, stop))

    def dense(self) -> Floats:
        """Return the centred features, shape (n, d)."""
        return self._rows(slice(None))

    def take(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return the centred features of some points, shape (k, d)."""
        return self._rows(rows)

    def raise_for_overflow(self) -> NoReturn:
        """Say why results are not finite."""
        raise_for_overflow(self.features, self.modality)

    def _rows(self, which: slice | npt.NDArray[np.int64]) -> Floats:
        rows = self.features[which]
        rows = np.subtract(rows.toarray() if self.is_sparse else rows, self.mean, dtype=np.float64)
        rows[:, self.is_constant] = 0
        return rows


class Centred(CentredRows):
    """One modality's features, centred by their own mean.

    Features that are constant, up to rounding, count as exactly 0.

    Parameters
    ----------
    features : ndarray or CSR matrix (n, d)
    modality : str
        Its name, for errors.

    Attributes
    ----------
    mean : ndarray of float64 (d,)
    gram : ndarray of float64 (d, d)
        X'X of the centred X.
    is_constant : ndarray of bool (d,)

    Examples
    --------
    >>> X = Centred(np.array([[1.0, 5.0], [3.0, 5.0]]), "image")
    >>> X.mean, X.gram
    (array([2., 5.]), array([[2., 0.], [0., 0.]]))
    """

    def __init__(self, features: Features, modality: str) -> None:
        raise_if_not_finite(features, modality)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = column_means(features)
            if sp.issparse(features):
                self.gram, constant = sparse_gram(features, mean)
            else:
                self.gram = dense_gram(features, mean, np.float64)
                constant = is_constant(np.diag(self.gram), len(features), mean, rounding_of(np.float64))
        super().__init__(features, modality, mean, constant)
        self.gram[self.is_constant] = self.gram[:, self.is_constant] = 0
        if not np.isfinite(self.gram).all():
            self.raise_for_overflow()

    @property
    def total_variance(self) -> float:
        """The mean of |x - m|^2."""
        return float(np.trace(self.gram)) / self.n_points

    def cross(self, other: Centred) -> Floats:
        """Return X'Y of this modality and another, both centred; shape (d, d of the other)."""
        if other.is_sparse:
            # X is centred, so Y need not be: 1'X = 0.
            products = self.transposed_times(other.features.astype(np.float64))  # small integers would wrap
            products[:, other.is_constant] = 0
            return products
        if self.is_sparse:
            return np.ascontiguousarray(other.cross(self).T)
        products = np.zeros((self.n_features, other.n_features))
        for start, stop in row_chunks(self.features, other.n_features):
            products += self._rows(slice(start, stop)).T @ other._rows(slice(start, stop))
        products[self.is_constant] = 0
        products[:, other.is_constant] = 0
        return products
