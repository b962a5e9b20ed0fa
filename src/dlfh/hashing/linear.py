"""Linear hash functions: ridge regression of the codes on the features (the paper's section 3.3).

W = (X'X + alpha I)^-1 X'U for centred X. Only X'X, X'U and the means are needed, so data is read in
chunks and sparse data is centred algebraically, never densified. Where there are more features than
points, the same W comes from the smaller matrix XX'. Unlike the paper's, the regression has an
intercept by default: features are centred but codes are not, and a bit that is +1 for 80 % of the
points would otherwise get its threshold in the wrong place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._parallel import Workers
from dlfh.codes import Codes, n_bytes
from dlfh.errors import InputError
from dlfh.hashing.base import FitContext, HashFunction, HashLearner, Targets, check_array
from dlfh.hashing.moments import compute_dtype, is_constant, moments, row_chunks
from dlfh.validation import Features, check_flag, check_positive, column_means, raise_for_overflow, raise_if_not_finite

__all__ = ["LinearHash", "LinearRidge"]

Floats = npt.NDArray[np.float64]

#: Values of a chunk, what finishes a block of its rows (and tells whether they are finite), and the cost of a row.
_Kernel: TypeAlias = tuple[npt.NDArray[Any], Callable[[int, int], bool], float]

#: Bytes of a chunk of rows to encode: large, since BLAS and the kernels take turns once per chunk.
_ENCODE_BYTES = 64 << 20


class LinearHash(HashFunction):
    """``code(x) = sign((x - mean) @ weights + intercept)``.

    Attributes
    ----------
    mean : ndarray of float64 (n_features,)
    weights : ndarray of float32 (n_features, n_bits)
    intercept : ndarray of float64 (n_bits,)
    alpha : float
        The ridge that was used.
    offset : ndarray of float64 (n_bits,)
        ``intercept - mean @ weights``, so that ``code(x) = sign(x @ weights + offset)``.
    """

    kind = "linear"

    def __init__(
        self,
        mean: Floats,
        weights: npt.NDArray[np.float32],
        intercept: Floats,
        alpha: float,
        offset: Floats | None = None,
    ) -> None:
        self.mean = mean
        self.weights = weights
        self.intercept = intercept
        self.alpha = alpha
        # Added to x @ weights. Taken from the rounded weights, so that a large mean cancels exactly.
        self.offset = intercept - mean @ weights.astype(np.float64) if offset is None else offset

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.weights.shape[0]

    @property
    def n_bits(self) -> int:  # type: ignore[override]
        return self.weights.shape[1]

    def project(self, features: Features, modality: str, workers: Workers) -> npt.NDArray[np.float32]:
        """Return the values whose signs are the code, shape (n, n_bits)."""
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        for start, stop, values, _ in self._values(features, modality, workers):
            projections[start:stop] = values
        return projections

    def encode(self, features: Features, modality: str, workers: Workers) -> Codes:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        codes = np.empty((features.shape[0], n_bytes(self.n_bits)), np.uint8)
        for start, stop, _, packed in self._values(features, modality, workers):
            codes[start:stop] = packed
        return codes

    def _values(
        self, features: Features, modality: str, workers: Workers
    ) -> Iterator[tuple[int, int, npt.NDArray[Any], Codes]]:
        """Yield bounds, ``x @ weights + offset`` and codes for chunks of rows, with signs free of rounding."""
        compute = self._sparse_kernel if sp.issparse(features) else self._dense_kernel
        for start, stop in row_chunks(features, self.n_bits, _ENCODE_BYTES):
            codes = np.empty((stop - start, n_bytes(self.n_bits)), np.uint8)
            values, kernel, row_cost = compute(features, start, stop, codes)
            finite = workers.map_blocks(kernel, stop - start, workers.even_block(stop - start, row_cost))
            # NaN or infinity in a row makes each of its values NaN or infinite: no pass over x.
            if not all(finite):
                raise_for_overflow(features, modality)
            yield start, stop, values, codes

    def _dense_kernel(self, features: Features, start: int, stop: int, codes: Codes) -> _Kernel:
        dtype = compute_dtype(features.dtype)
        rounding = (self.n_features + 8) * float(np.finfo(dtype).eps)
        rows = np.ascontiguousarray(features[start:stop], dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows @ self.weights.astype(dtype)
        terms = self._bit_terms(rounding, dtype)
        # (The rounding as a scalar of the same type, or everything would be computed in double precision.)
        scalar = terms.dtype.type(rounding)
        arguments = (rows, np.ascontiguousarray(self.weights.T), self.offset, terms, scalar, values, codes)
        return values, functools.partial(_kernels.finish_products, *arguments), self.n_features + 4 * self.n_bits

    def _sparse_kernel(self, features: Features, start: int, stop: int, codes: Codes) -> _Kernel:
        values = np.empty((stop - start, self.n_bits), np.float32)
        starts = features.indptr[start : stop + 1]
        terms = self._bit_terms(8 * float(np.finfo(np.float32).eps), np.float32)
        arguments = (starts, features.indices, features.data, self.weights, self.offset, terms, values, codes)
        row_cost = self.n_bits * (2 + (starts[-1] - starts[0]) / max(stop - start, 1))
        return values, functools.partial(_kernels.sparse_products, *arguments), row_cost

    def _bit_terms(self, rounding: float, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return, for each bit, the offset, |w| and the rounding of the offset."""
        weight_norms = np.linalg.norm(self.weights.astype(np.float64), axis=0)
        return np.array([self.offset, weight_norms, rounding * np.abs(self.offset)]).astype(dtype)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this hash function again."""
        return {
            "mean": self.mean,
            "weights": self.weights,
            "intercept": self.intercept,
            "offset": self.offset,
            "alpha": np.array([self.alpha]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> LinearHash:
        """Make a hash function from the arrays of another."""
        n_features, n_bits = check_array(arrays, "weights", np.float32, (None, None)).shape
        check_array(arrays, "mean", np.float64, (n_features,))
        check_array(arrays, "intercept", np.float64, (n_bits,))
        check_array(arrays, "offset", np.float64, (n_bits,))
        check_array(arrays, "alpha", np.float64, (1,))
        return cls(arrays["mean"], arrays["weights"], arrays["intercept"], float(arrays["alpha"][0]), arrays["offset"])


class LinearRidge(HashLearner):
    """Linear hash functions by ridge regression.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        The ridge, the paper's gamma; "auto" is 0.01 x the mean of the features' variances (times the number
        of points), none counted for more than 100 x their median. Never less than the rounding error of the
        Gram matrix, which for float32 data is 1e-7 x its trace.
    fit_intercept : bool, default True
    """

    #: ``alpha="auto"`` is this times the mean eigenvalue of X'X (docs/defaults.md says why).
    auto_alpha = 0.01

    def __init__(self, alpha: float | str = "auto", *, fit_intercept: bool = True) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        check_alpha(self.alpha)
        check_flag(self.fit_intercept, "fit_intercept")

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> LinearHash:
        """Return the linear hash function that predicts the target codes from the features."""
        solve = self._solve_by_features if features.shape[1] <= features.shape[0] else self._solve_by_points
        with np.errstate(over="ignore", invalid="ignore"):
            mean, weights, ridge = solve(features, targets, modality, context.workers)
            single = weights.astype(np.float32)
        if not (np.isfinite(single).all() and np.isfinite(mean).all() and np.isfinite(ridge)):
            raise_for_overflow(features, modality)
        target_mean = targets.mean()
        intercept = target_mean if self.fit_intercept else np.zeros_like(target_mean)
        return LinearHash(mean, single, intercept, ridge)

    def _ridge(self, variances: Floats, features: Features, mean: Floats) -> float:
        # Constant or repeated features leave X'X singular: the ridge never falls below its rounding error.
        # Dense data is centred before it is multiplied, sparse data after.
        trace = float(variances.sum())
        if sp.issparse(features):
            floor = 16 * float(np.finfo(np.float64).eps) * (trace + features.shape[0] * float(mean @ mean))
        else:
            floor = float(np.finfo(compute_dtype(features.dtype)).eps) * trace
        return ridge_of(self.alpha, variances, self.auto_alpha, floor)

    def _solve_by_features(
        self, features: Features, targets: Targets, modality: str, workers: Workers
    ) -> tuple[Floats, Floats, float]:
        """Return mean, W and the ridge, from the (features x features) Gram matrix."""
        data = moments(features, targets, modality, workers)
        ridge = self._ridge(np.diag(data.gram), features, data.mean)
        return data.mean, solve_ridge(data.gram, ridge, data.cross), ridge

    def _solve_by_points(
        self, features: Features, targets: Targets, modality: str, workers: Workers
    ) -> tuple[Floats, Floats, float]:
        """Return mean, W and the ridge, from the (points x points) matrix: W = X'(XX' + alpha I)^-1 U."""
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
                block[:, is_constant(np.sum(block**2, axis=0), n, mean[columns], dtype)] = 0
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
        ridge = self._ridge(variances, features, mean)
        dual = solve_ridge(products, ridge, codes)
        dual -= dual.mean(axis=0)  # its exact value: (1, ..., 1) is in the kernel of the centred XX'
        if sp.issparse(features):
            return mean, features.T @ dual, ridge
        weights = np.empty((n_features, targets.n_bits))
        for columns, block in centred_columns():
            weights[columns] = block.T @ dual.astype(dtype)
        return mean, weights, ridge


def check_alpha(alpha: Any) -> float | str:
    """Return a checked ``alpha``."""
    if isinstance(alpha, str):
        if alpha != "auto":
            raise InputError(f'alpha must be "auto" or a number of at least 0, got {alpha!r}')
        return alpha
    return check_positive(alpha, "alpha", allow_zero=True)


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
    return np.where(is_constant(total, n, mean, compute_dtype(features.dtype)), 0, total)


def ridge_of(alpha: float | str, variances: Floats, auto_alpha: float, floor: float) -> float:
    """Return the ridge that ``alpha`` asks for, at least ``floor`` and positive.

    "auto" takes the mean of the features' variances, but none for more than 100 x their median: a few
    features of another order of magnitude must not decide how much the others are shrunk.
    """
    wanted = alpha
    if isinstance(alpha, str):
        varying = variances[variances > 0]
        wanted = auto_alpha * np.minimum(varying, 100 * np.median(varying)).mean() if len(varying) else 0.0
    return float(max(wanted, floor, np.finfo(np.float64).tiny))


def solve_ridge(matrix: Floats, ridge: float, right: Floats) -> Floats:
    """Return (matrix + ridge I)^-1 right for a positive semi-definite matrix, which is changed."""
    matrix.flat[:: len(matrix) + 1] += ridge
    try:
        factor = scipy.linalg.cho_factor(matrix, check_finite=False)
        return scipy.linalg.cho_solve(factor, right, check_finite=False)
    except np.linalg.LinAlgError:  # rounding made it indefinite: leave out the directions it drowned
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False)
        keep = values > np.finfo(np.float64).eps * len(values) * values[-1]
        vectors = vectors[:, keep]
        return vectors @ ((vectors.T @ right) / values[keep, None])
