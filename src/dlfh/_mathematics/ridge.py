"""Ridge regression of codes on features: W = (X'X + gamma I)^-1 X'U for centred X (the paper's section 3.3).

It needs only X'X, X'U and the means, so data is read in chunks, and sparse data is centred algebraically and never
densified. With more features than points, the same W comes from the smaller matrix XX'. With too many of both for a
matrix, W comes from products with the sparse data (`dlfh._mathematics.conjugate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Singles
from dlfh._mathematics.conjugate import solve_by_conjugate_gradients
from dlfh._mathematics.moments import Moments, compute_dtype, is_constant, rounding_of, row_chunks
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import Features, check_positive, column_means, raise_if_not_finite
from dlfh.errors import InputError

#: Largest side of a Gram matrix of sparse data: 512 MB, and some seconds to factor.
_LARGEST_MATRIX = 8192


def check_ridge(ridge: Any) -> float | str:
    """Return a checked ``ridge``: "auto", or a number of at least 0."""
    if isinstance(ridge, str):
        if ridge != "auto":
            raise InputError(f'ridge must be "auto" or a number of at least 0, got {ridge!r}')
        return ridge
    return check_positive(ridge, "ridge", allow_zero=True)


@dataclass(frozen=True)
class Ridge:
    """The ridge: a number, or "auto", which depends on the data.

    "auto" is ``shrinkage`` times the mean of the features' variances, each capped at 100 x their median, so that a few
    features of another order of magnitude do not determine how much the others are regularised.
    """

    ridge: float | str
    shrinkage: float

    def resolve(self, variances: Floats, floor: float) -> float:
        """Return the ridge, at least ``floor`` and positive."""
        ridge = self.ridge
        if isinstance(ridge, str):
            varying = variances[variances > 0]
            ridge = self.shrinkage * np.minimum(varying, 100 * np.median(varying)).mean() if len(varying) else 0.0
        return float(max(ridge, floor, np.finfo(np.float64).tiny))

    def for_features(self, variances: Floats, features: Features, mean: Floats) -> float:
        """Return the ridge for raw features.

        Constant or repeated features make X'X singular, so the ridge is at least its rounding error, which is larger
        for sparse data, centred after the multiplication.
        """
        trace = float(variances.sum())
        if sp.issparse(features):
            floor = 16 * float(np.finfo(np.float64).eps) * (trace + features.shape[0] * float(mean @ mean))
        else:
            floor = float(np.finfo(compute_dtype(features.dtype)).eps) * trace
        return self.resolve(variances, floor)


def solves_without_gram(features: Features) -> bool:
    """Return whether the (features x features) matrix is too large, or larger than the (points x points) matrix."""
    return is_wide(features) or features.shape[1] > features.shape[0]


def solve_without_gram(
    features: Features, targets: Targets, ridge: Ridge, modality: str, workers: Workers
) -> tuple[Floats, Array, float]:
    """Return the features' mean, W of shape (features, n_bits), and the ridge."""
    if is_wide(features):
        return _solve_by_products(features, targets, ridge, modality, workers)
    return _solve_by_points(features, targets, ridge, modality)


def ridge_of_moments(data: Moments, ridge: Ridge, *, keep: bool = True) -> tuple[Floats, float, Floats]:
    """Return W of shape (features, n_bits), the ridge gamma, and X'X + gamma I.

    Without ``keep``, the moments may be overwritten.
    """
    varying = data.without_constants()
    gamma = ridge.resolve(varying.variances, varying.floor)
    matrix = varying.gram.copy() if keep else varying.gram
    return solve_ridge(matrix, gamma, varying.cross), gamma, matrix


def is_wide(features: Features) -> bool:
    """Return whether sparse data has too many features and too many points for either Gram matrix."""
    return bool(sp.issparse(features)) and min(features.shape) > _LARGEST_MATRIX


def _solve_by_products(
    features: Features, targets: Targets, ridge: Ridge, modality: str, workers: Workers
) -> tuple[Floats, Singles, float]:
    """Return the mean, W and the ridge, from products with the features."""
    raise_if_not_finite(features, modality)
    mean = column_means(features)
    squares = _centred_squares(features, mean)
    gamma = ridge.for_features(squares, features, mean)
    return mean, solve_by_conjugate_gradients(features, mean, squares, targets, gamma, workers), gamma


def _solve_by_points(features: Features, targets: Targets, ridge: Ridge, modality: str) -> tuple[Floats, Floats, float]:
    """Return the mean, W and the ridge, from the (points x points) matrix: W = X'(XX' + gamma I)^-1 U."""
    raise_if_not_finite(features, modality)
    n, n_features = features.shape
    dtype = compute_dtype(features.dtype)
    codes = targets.points(0, n).astype(np.float64)
    codes -= codes.mean(axis=0)
    mean = column_means(features)

    def centred_columns() -> Iterator[tuple[slice, Array]]:
        for start in range(0, n_features, 4096):
            columns = slice(start, start + 4096)
            block = np.subtract(features[:, columns], mean[columns], dtype=dtype)
            block[:, is_constant(np.sum(block**2, axis=0), n, mean[columns], rounding_of(dtype))] = 0
            yield columns, block

    variances = _centred_squares(features, mean)
    if not variances.any():
        return mean, np.zeros((n_features, targets.n_bits)), 0.0
    if sp.issparse(features):
        wide = features.astype(np.float64)  # small integers would wrap around
        products = (wide @ wide.T).toarray()
        products -= products.mean(axis=0)
        products -= products.mean(axis=1)[:, None]
    else:
        products = np.zeros((n, n))
        for _, block in centred_columns():
            products += block @ block.T
    gamma = ridge.for_features(variances, features, mean)
    dual = solve_ridge(products, gamma, codes)
    dual -= dual.mean(axis=0)  # exact: (1, ..., 1) is in the null space of the centred XX'
    if sp.issparse(features):
        return mean, features.T @ dual, gamma
    weights = np.empty((n_features, targets.n_bits))
    for columns, block in centred_columns():
        weights[columns] = block.T @ dual.astype(dtype)
    return mean, weights, gamma


def typical_variance(features: Features) -> float:
    """Return the mean of the features' sums of centred squares, capped as for "auto"."""
    mean = column_means(features)
    return Ridge("auto", 1.0).for_features(_centred_squares(features, mean), features, mean)


def _centred_squares(features: Features, mean: Floats) -> Floats:
    """Return the sum of squares of each centred feature; 0 for constant ones."""
    n = features.shape[0]
    if sp.issparse(features):
        squares = np.asarray(features.astype(np.float64).power(2).sum(axis=0)).ravel()
        centred = squares - n * mean**2
        return np.where(centred <= 1e-12 * squares, 0, centred)
    total = np.zeros_like(mean)
    for start, stop in row_chunks(features):
        total += ((features[start:stop] - mean) ** 2).sum(axis=0)
    return np.where(is_constant(total, n, mean, rounding_of(compute_dtype(features.dtype))), 0, total)


def add_ridge(matrix: Floats, ridge: float | Floats) -> None:
    """Add a ridge in place: a matrix, or a number times the identity."""
    if isinstance(ridge, np.ndarray):
        matrix += ridge
    else:
        matrix.flat[:: len(matrix) + 1] += ridge


def solve_ridge(matrix: Floats, ridge: float | Floats, right: Floats) -> Floats:
    """Return (matrix + ridge)^-1 right for a positive semi-definite matrix, to which the ridge is added in place."""
    import scipy.linalg  # here, because encoding imports this module and solves nothing

    add_ridge(matrix, ridge)
    try:
        factor = scipy.linalg.cho_factor(matrix, check_finite=False)
        return scipy.linalg.cho_solve(factor, right, check_finite=False)
    except np.linalg.LinAlgError:  # indefinite by rounding: drop the directions below the rounding error
        values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        keep = values > np.finfo(np.float64).eps * len(values) * values[-1]
        vectors = vectors[:, keep]
        return vectors @ ((vectors.T @ right) / values[keep, None])
