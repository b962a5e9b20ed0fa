"""Ridge regression of codes on features: W = (X'X + gamma I)^-1 X'U for centred X (the paper's section 3.3).

It needs only X'X, X'U and the means, so data is read in chunks, and sparse data is centred algebraically and never
densified. With more features than points, the same W comes from the smaller matrix XX'. With too many of both for a
matrix, W comes from products with the sparse data (`dlfh._mathematics.conjugate`).

Leave-one-out predictions are exact, from one factorisation: for a point with residual e and leverage h, the regression
without it predicts y - e / (1 - h). The ridge and the means of the features still come from all points; they do not
depend on the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._mathematics.conjugate import solve_by_conjugate_gradients
from dlfh._mathematics.moments import Moments, compute_dtype, is_constant, rounding_error, rounding_of
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers, row_chunks
from dlfh._validation import Features, check_positive, column_means, raise_if_not_finite
from dlfh.errors import InputError

#: Largest side of a Gram matrix of sparse data: 512 MB, and some seconds to factor.
_LARGEST_MATRIX = 8192
#: Points whose leave-one-out predictions are computed at once: few, so that they stay in the processor's cache.
_CHUNK_ROWS = 512
#: Maximum rounding error of leave-one-out predictions in single precision.
_MAX_ROUNDING = 1e-3
#: Lower bound of 1 - h, which is 0 for a point that determines its own prediction.
_MIN_FREEDOM = 1e-9

#: Returns the dense features of some points.
Rows = Callable[[slice], Array]


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
        """Return the ridge, at least ``floor`` and positive.

        Constant or repeated features make X'X singular, so the floor is its rounding error.
        """
        ridge = self.ridge
        if isinstance(ridge, str):
            varying = variances[variances > 0]
            ridge = self.shrinkage * np.minimum(varying, 100 * np.median(varying)).mean() if len(varying) else 0.0
        return float(max(ridge, floor, np.finfo(np.float64).tiny))

    def for_features(self, variances: Floats, features: Features, mean: Floats) -> float:
        sparse = bool(sp.issparse(features))
        rounding = rounding_of(np.float64 if sparse else compute_dtype(features.dtype))
        return self.resolve(variances, rounding_error(variances, features.shape[0], mean, rounding, sparse))


def is_wide(features: Features) -> bool:
    """Return whether sparse data has too many features and too many points for either Gram matrix."""
    return bool(sp.issparse(features)) and min(features.shape) > _LARGEST_MATRIX


def solves_without_gram(features: Features) -> bool:
    """Return whether the (features x features) matrix is too large, or larger than the (points x points) matrix."""
    return is_wide(features) or features.shape[1] > features.shape[0]


def solve_without_gram(
    features: Features, targets: Targets, ridge: Ridge, modality: str, workers: Workers
) -> tuple[Floats, Array, float]:
    """Return the features' mean, W of shape (features, n_bits), and the ridge."""
    raise_if_not_finite(features, modality)
    mean = column_means(features)
    squares = _centred_squares(features, mean)
    if not is_wide(features) and not squares.any():
        return mean, np.zeros((features.shape[1], targets.n_bits)), 0.0
    gamma = ridge.for_features(squares, features, mean)
    if is_wide(features):
        return mean, solve_by_conjugate_gradients(features, mean, squares, targets, gamma, workers), gamma
    return mean, _solve_by_points(features, mean, targets, gamma), gamma


def _solve_by_points(features: Features, mean: Floats, targets: Targets, gamma: float) -> Floats:
    """Return W from the (points x points) matrix: W = X'(XX' + gamma I)^-1 U."""
    n, n_features = features.shape
    codes = targets.points(0, n).astype(np.float64)
    codes -= codes.mean(axis=0)
    dtype = compute_dtype(features.dtype)

    def centred_columns() -> Iterator[tuple[slice, Array]]:
        for start in range(0, n_features, 4096):
            columns = slice(start, start + 4096)
            block = np.subtract(features[:, columns], mean[columns], dtype=dtype)
            block[:, is_constant(np.sum(block**2, axis=0), n, mean[columns], rounding_of(dtype))] = 0
            yield columns, block

    if sp.issparse(features):
        products = _sparse_products(features)
    else:
        products = np.zeros((n, n))
        for _, block in centred_columns():
            products += block @ block.T
    dual = solve_ridge(products, gamma, codes)
    dual -= dual.mean(axis=0)  # exact: (1, ..., 1) is in the null space of the centred XX'
    if sp.issparse(features):
        return features.T @ dual
    weights = np.empty((n_features, targets.n_bits))
    for columns, block in centred_columns():
        weights[columns] = block.T @ dual.astype(dtype)
    return weights


def _sparse_products(features: sp.csr_array) -> Floats:
    wide = features.astype(np.float64)  # small integers would wrap around
    products: Floats = (wide @ wide.T).toarray()
    products -= products.mean(axis=0)
    products -= products.mean(axis=1)[:, None]
    return products


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


def ridge_of_moments(data: Moments, ridge: Ridge, *, keep: bool = True) -> tuple[Floats, float, Floats]:
    """Return W of shape (features, n_bits), the ridge gamma, and the Cholesky factor of X'X + gamma I.

    Without ``keep``, the moments may be overwritten.
    """
    varying = data.without_constants()
    gamma = ridge.resolve(varying.variances, varying.floor)
    matrix = varying.gram.copy() if keep else varying.gram
    return solve_ridge(matrix, gamma, varying.cross), gamma, matrix


def solve_ridge(matrix: Floats, ridge: float | Floats, right: Floats) -> Floats:
    """Return (matrix + ridge)^-1 right for a positive semi-definite matrix, whose lower triangle becomes L.

    ridge: A matrix, or a number times the identity. L is the Cholesky factor of the sum.
    """
    import scipy.linalg  # here, because encoding imports this module but does not need SciPy

    if isinstance(ridge, np.ndarray):
        matrix += ridge
    else:
        matrix.flat[:: len(matrix) + 1] += ridge
    diagonal = np.diag(matrix).copy()
    try:
        factor = scipy.linalg.cho_factor(matrix.T, overwrite_a=True, check_finite=False)  # in place: L' as columns
        if not np.may_share_memory(factor[0], matrix):
            matrix[:] = factor[0].T
        return scipy.linalg.cho_solve(factor, right, check_finite=False)
    except np.linalg.LinAlgError:  # indefinite by rounding: drop the directions below the rounding error
        whole = np.triu(matrix, 1)
        whole += whole.T + np.diag(diagonal)
        values, vectors = scipy.linalg.eigh(whole, check_finite=False)
        whole.flat[:: len(whole) + 1] += 1e-10 * diagonal.mean() + 2 * max(0.0, -values[0])
        matrix[:] = np.linalg.cholesky(whole)
        keep = values > np.finfo(np.float64).eps * len(values) * values[-1]
        vectors = vectors[:, keep]
        return vectors @ ((vectors.T @ right) / values[keep, None])


@dataclass(frozen=True)
class RidgeSolution:
    """A solved ridge regression, with the Cholesky factor of X'X + ridge I, for its leave-one-out predictions.

    factor: Its lower triangle is the factor, and the rest is ignored.

    The prediction for x is ``(x - mean) @ weights + offset``; ``intercept`` says whether the offset was fitted.
    """

    n_points: int
    mean: Floats
    factor: Floats
    weights: Floats
    offset: Floats
    intercept: bool = True

    @classmethod
    def of_rows(
        cls, rows: Rows, targets: Targets, ridge: Callable[[Floats], float | Floats], *, intercept: bool = True
    ) -> RidgeSolution:
        """Solve the regression of all points.

        ridge: Function from the sums of squares of the centred features to the ridge, a number or a matrix.
        """
        n = len(targets.row_of_point)
        mean = sum(rows(chunk).sum(axis=0, dtype=np.float64) for chunk in _chunks(n)) / n
        offset = targets.mean() if intercept else np.zeros(targets.n_bits)
        gram, cross = np.zeros((len(mean), len(mean))), np.zeros((len(mean), targets.n_bits))
        for chunk in _chunks(n):
            centred = rows(chunk) - mean
            gram += centred.T @ centred
            cross += centred.T @ (targets.points(chunk.start, chunk.stop) - offset)
        weights = solve_ridge(gram, ridge(np.diag(gram).copy()), cross)
        return cls(n, mean, gram, weights, offset, intercept)

    def columns(self, columns: slice) -> RidgeSolution:
        return replace(self, weights=self.weights[:, columns], offset=self.offset[columns])

    def leave_one_out(
        self, rows: Rows, targets: Targets, own_feature: Callable[[Array], Integers] | None = None
    ) -> Singles:
        """Return leave-one-out predictions, of all points or of a sample of them.

        own_feature: Returns, for the features of some points, the number of the feature that derives from the point
            itself (a kernel base at the point) and is left out with it; -1 for points without one.
        """
        import scipy.linalg

        # Single precision is enough for leverages, which lie between 0 and 1, unless a pivot vanishes in it.
        is_safe = np.diag(self.factor).min() > np.finfo(np.float32).tiny
        dtype = np.dtype(np.float32 if is_safe else np.float64)
        factor = self.factor.astype(dtype, copy=False)
        # Nor do predictions need more, unless large weights cancel each other.
        weights, longest = self.weights.astype(dtype), np.linalg.norm(self.weights, axis=0).max(initial=0.0)
        inverse = None if own_feature is None else _inverse(factor)
        values = np.empty((len(targets.row_of_point), self.weights.shape[1]), np.float32)
        for chunk in _chunks(len(values)):
            features = rows(chunk)
            centred = features - self.mean
            single = centred.astype(dtype)
            half = scipy.linalg.solve_triangular(factor, single.T, lower=True, check_finite=False).T
            leverages = np.einsum("id,id->i", half, half, dtype=np.float64)
            freedom = np.maximum(1 - leverages - self.intercept / self.n_points, _MIN_FREEDOM)
            actual = targets.points(chunk.start, chunk.stop)
            length = np.sqrt(np.einsum("nd,nd->n", centred, centred).max(initial=0.0))
            rounding = longest * length * np.finfo(np.float32).eps / freedom.min(initial=1.0)
            left: Array = single if is_safe and rounding < _MAX_ROUNDING else centred
            right: Array = weights if left is single else self.weights
            products = left @ right
            products += self.offset.astype(products.dtype)
            actual = actual.astype(products.dtype, copy=False)
            errors = np.subtract(actual, products, out=products)
            errors /= freedom[:, None].astype(errors.dtype)
            if inverse is not None and own_feature is not None:
                _add_own_features(errors, own_feature(features), half, right, inverse, freedom)
            values[chunk] = np.subtract(actual, errors, out=errors)
        return values


def _chunks(n: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK_ROWS, n)) for start in range(0, n, _CHUNK_ROWS)]


def _inverse(factor: Array) -> Array:
    """Return the columns of L^-1 as rows."""
    from scipy.linalg import get_lapack_funcs

    (invert,) = get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = invert(np.tril(factor).T)  # (of the transpose, which is stored by columns)
    rows = np.empty_like(factor, order="C")
    for start in range(0, len(rows), 64):  # NumPy would read a cache line for each value
        rows[start : start + 64] = inverse[start : start + 64]
    return rows


def leave_one_out_by_points(features: Features, targets: Targets, ridge: float, *, intercept: bool = True) -> Singles:
    """Return leave-one-out predictions from the (points x points) matrix, for more features than points."""
    n = len(targets.row_of_point)
    codes = targets.points(0, n).astype(np.float64)
    offset = codes.mean(axis=0) if intercept else np.zeros(targets.n_bits)
    if sp.issparse(features):
        products = _sparse_products(features)
    else:
        centred = features - features.mean(axis=0, dtype=np.float64)
        products = centred @ centred.T
    ridge = max(ridge, np.finfo(np.float64).tiny)  # 0 if all features are constant
    hat = np.linalg.solve(products + ridge * np.eye(n), products)  # the two matrices commute
    freedom = np.maximum(1 - np.diag(hat) - intercept / n, _MIN_FREEDOM)
    values: Singles = (codes - (codes - hat @ (codes - offset) - offset) / freedom[:, None]).astype(np.float32)
    return values


def _add_own_features(
    errors: Array, columns: Integers, half: Array, weights: Array, inverse: Array, freedom: Floats
) -> None:
    """Add the additional error of each point when its own feature is left out too, by fixing its weight at 0.

    Without the point, the inverse B becomes B + uu'/(1 - h) with u = Bz, and the weights w become w - u e/(1 - h).
    Fixing weight c at 0 then subtracts B_c w_c / B_cc from them. With the Cholesky factor L, u_c is the product of
    column c of L^-1, a row of ``inverse``, and of ``half``, L^-1 z.
    """
    having = np.flatnonzero(columns >= 0)
    own = columns[having]
    roots = inverse[own]
    u = np.einsum("id,id->i", half[having], roots)
    weight = weights[own] - u[:, None].astype(errors.dtype) * errors[having]
    share = u / freedom[having] / (np.einsum("id,id->i", roots, roots) + u**2 / freedom[having])
    errors[having] += share[:, None].astype(errors.dtype) * weight
