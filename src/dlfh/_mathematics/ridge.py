"""Ridge regression of codes on features: W = (X'X + gamma I)^-1 X'U for centred X (the paper's section 3.3).

Only X'X, X'U and the means are needed, so data is read in chunks and sparse data is centred algebraically, never
densified. Where there are more features than points, the same W comes from the smaller matrix XX'. Where both are too
many for a matrix, sparse data is multiplied with instead (`dlfh._mathematics.conjugate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._mathematics.conjugate import solve_by_conjugate_gradients
from dlfh._mathematics.moments import Moments, compute_dtype, is_constant, moments, rounding_of, row_chunks
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import Features, check_positive, column_means, raise_if_not_finite
from dlfh.errors import InputError

Floats = npt.NDArray[np.float64]

#: Sides of the largest matrix that sparse features and points are multiplied to: 512 MB, and some seconds to factor.
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
    """How large the ridge is to be: a number, or "auto", which follows the data.

    "auto" takes ``shrinkage`` times the mean of the features' variances, but none for more than 100 x their median: a
    few features of another order of magnitude must not decide how much the others are shrunk.
    """

    ridge: float | str
    shrinkage: float

    def resolve(self, variances: Floats, floor: float) -> float:
        """Return the ridge, at least ``floor`` and positive."""
        wanted = self.ridge
        if isinstance(wanted, str):
            varying = variances[variances > 0]
            wanted = self.shrinkage * np.minimum(varying, 100 * np.median(varying)).mean() if len(varying) else 0.0
        return float(max(wanted, floor, np.finfo(np.float64).tiny))

    def for_features(self, variances: Floats, features: Features, mean: Floats) -> float:
        """Return the ridge for raw features.

        Constant or repeated features leave X'X singular: the ridge never falls below its rounding error. Dense data is
        centred before it is multiplied, sparse data after.
        """
        trace = float(variances.sum())
        if sp.issparse(features):
            floor = 16 * float(np.finfo(np.float64).eps) * (trace + features.shape[0] * float(mean @ mean))
        else:
            floor = float(np.finfo(compute_dtype(features.dtype)).eps) * trace
        return self.resolve(variances, floor)


def ridge_regression(
    features: Features, targets: Targets, ridge: Ridge, modality: str, workers: Workers
) -> tuple[Floats, npt.NDArray[Any], float]:
    """Return the features' mean, W of shape (features, n_bits), and the ridge that was used."""
    if is_wide(features):
        return _solve_by_products(features, targets, ridge, modality, workers)
    if features.shape[1] > features.shape[0]:
        return _solve_by_points(features, targets, ridge, modality)
    data = moments(features, targets, modality, workers)
    return data.mean, *ridge_of_moments(data, ridge, keep=False)


def ridge_of_moments(data: Moments, ridge: Ridge, *, keep: bool = True) -> tuple[Floats, float]:
    """Return W of shape (features, n_bits), and the ridge that was used; the moments are kept as they are, or used up.

    Constant or repeated features leave X'X singular: the ridge never falls below its rounding error.
    """
    own = data.without_constants()
    gamma = ridge.resolve(own.variances, own.floor)
    return solve_ridge(own.gram.copy() if keep else own.gram, gamma, own.cross), gamma


def is_wide(features: Features) -> bool:
    """Tell sparse data that has more features, and more points, than a matrix of them may have."""
    return bool(sp.issparse(features)) and min(features.shape) > _LARGEST_MATRIX


def _solve_by_products(
    features: Features, targets: Targets, ridge: Ridge, modality: str, workers: Workers
) -> tuple[Floats, npt.NDArray[np.float32], float]:
    """Return mean, W and the ridge, from products with the features."""
    raise_if_not_finite(features, modality)
    mean = column_means(features)
    squares = _centred_squares(features, mean)
    gamma = ridge.for_features(squares, features, mean)
    return mean, solve_by_conjugate_gradients(features, mean, squares, targets, gamma, workers), gamma


def _solve_by_points(features: Features, targets: Targets, ridge: Ridge, modality: str) -> tuple[Floats, Floats, float]:
    """Return mean, W and the ridge, from the (points x points) matrix: W = X'(XX' + gamma I)^-1 U."""
    raise_if_not_finite(features, modality)
    n, n_features = features.shape
    dtype = compute_dtype(features.dtype)
    codes = targets.points(0, n).astype(np.float64)
    codes -= codes.mean(axis=0)
    mean = column_means(features)

    def centred_columns() -> Iterator[tuple[slice, npt.NDArray[Any]]]:
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
    dual -= dual.mean(axis=0)  # its exact value: (1, ..., 1) is in the kernel of the centred XX'
    if sp.issparse(features):
        return mean, features.T @ dual, gamma
    weights = np.empty((n_features, targets.n_bits))
    for columns, block in centred_columns():
        weights[columns] = block.T @ dual.astype(dtype)
    return mean, weights, gamma


def typical_variance(features: Features) -> float:
    """Return what "auto" shrinks relative to: the mean of the features' sums of centred squares, none too large."""
    mean = column_means(features)
    return Ridge("auto", 1.0).for_features(_centred_squares(features, mean), features, mean)


def _centred_squares(features: Features, mean: Floats) -> Floats:
    """Return the sum of squares of each centred feature, 0 for constant ones."""
    n = features.shape[0]
    if sp.issparse(features):
        squares = np.asarray(features.astype(np.float64).power(2).sum(axis=0)).ravel()
        centred = squares - n * mean**2
        return np.where(centred <= 1e-12 * squares, 0, centred)
    total = np.zeros_like(mean)
    for start, stop in row_chunks(features):
        total += ((features[start:stop] - mean) ** 2).sum(axis=0)
    return np.where(is_constant(total, n, mean, rounding_of(compute_dtype(features.dtype))), 0, total)


def solve_ridge(matrix: Floats, ridge: float, right: Floats) -> Floats:
    """Return (matrix + ridge I)^-1 right for a positive semi-definite matrix, which is changed."""
    import scipy.linalg  # here, since encoding imports this module and solves nothing

    matrix.flat[:: len(matrix) + 1] += ridge
    try:
        factor = scipy.linalg.cho_factor(matrix, check_finite=False)
        return scipy.linalg.cho_solve(factor, right, check_finite=False)
    except np.linalg.LinAlgError:  # rounding made it indefinite: leave out the directions it drowned
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False)
        keep = values > np.finfo(np.float64).eps * len(values) * values[-1]
        vectors = vectors[:, keep]
        return vectors @ ((vectors.T @ right) / values[keep, None])
