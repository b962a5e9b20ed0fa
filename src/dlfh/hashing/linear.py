"""Linear hash functions: ridge regression of the codes on the features (the paper's section 3.3).

W = (X'X + alpha I)^-1 X'U for centred X. Only X'X, X'U and the means are needed, so data is read in
chunks and sparse data is centred algebraically, never densified. Where there are more features than
points, the same W comes from the smaller matrix XX'. Unlike the paper's, the regression has an
intercept by default: features are centred but codes are not, and a bit that is +1 for 80 % of the
points would otherwise get its threshold in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._parallel import Workers
from dlfh.codes import Codes, n_bytes
from dlfh.errors import InputError
from dlfh.hashing.moments import Targets, compute_dtype, moments, row_chunks, row_products
from dlfh.validation import Features, check_positive, raise_if_not_finite

__all__ = ["AUTO_ALPHA", "LinearHash"]

Floats = npt.NDArray[np.float64]

#: ``alpha="auto"`` is this times the mean eigenvalue of X'X (docs/defaults.md says why).
AUTO_ALPHA = 0.01


class LinearHash:
    """``code(x) = sign((x - mean) @ weights + intercept)``.

    Attributes
    ----------
    mean : ndarray of float64 (n_features,)
    weights : ndarray of float32 (n_features, n_bits)
    intercept : ndarray of float64 (n_bits,)
    alpha : float
        The ridge that was used.
    """

    kind = "linear"

    def __init__(self, mean: Floats, weights: npt.NDArray[np.float32], intercept: Floats, alpha: float) -> None:
        self.mean = mean
        self.weights = weights
        self.intercept = intercept
        self.alpha = alpha
        # Added to x @ weights. Taken from the rounded weights, so that a large mean cancels exactly.
        self._offset = intercept - mean @ weights.astype(np.float64)

    @property
    def n_features(self) -> int:
        return self.weights.shape[0]

    @property
    def n_bits(self) -> int:
        return self.weights.shape[1]

    @classmethod
    def fit(
        cls,
        features: Features,
        targets: Targets,
        *,
        alpha: float | str,
        fit_intercept: bool,
        modality: str,
        workers: Workers,
    ) -> LinearHash:
        """Fit by ridge regression; see `dlfh.DLFH` for ``alpha`` and ``fit_intercept``."""
        solve = _solve_by_features if features.shape[1] <= features.shape[0] else _solve_by_points
        mean, weights, ridge = solve(features, targets, alpha, modality, workers)
        target_mean = targets.mean()
        intercept = target_mean if fit_intercept else np.zeros_like(target_mean)
        return cls(mean, weights.astype(np.float32), intercept, ridge)

    def project(self, features: Features, modality: str) -> npt.NDArray[np.float32]:
        """Return the values whose signs are the code, shape (n, n_bits)."""
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        for start, stop, products, offset in self._products(features, modality):
            np.add(products, offset, out=projections[start:stop], casting="same_kind")
        return projections

    def encode(self, features: Features, modality: str) -> Codes:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        codes = np.empty((features.shape[0], n_bytes(self.n_bits)), np.uint8)
        for start, stop, products, offset in self._products(features, modality):
            _kernels.pack_signs(products, offset, codes[start:stop])
        return codes

    def _products(
        self, features: Features, modality: str
    ) -> Iterator[tuple[int, int, npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield bounds, x @ weights and the offset for chunks of rows."""
        dtype = compute_dtype(features.dtype)
        weights, offset = self.weights.astype(dtype), self._offset.astype(dtype)
        for start, stop in row_chunks(features, self.n_bits):
            products = row_products(features[start:stop], weights)
            # NaN or infinity in a row makes each of its products NaN or infinite: no pass over x.
            if not np.isfinite(products).all():
                raise_if_not_finite(features, modality)
            yield start, stop, products, offset

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this hash function again."""
        return {
            "mean": self.mean,
            "weights": self.weights,
            "intercept": self.intercept,
            "alpha": np.array([self.alpha]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> LinearHash:
        """Make a hash function from the arrays of another."""
        return cls(arrays["mean"], arrays["weights"], arrays["intercept"], float(arrays["alpha"][0]))


def check_alpha(alpha: Any) -> float | str:
    """Return a checked ``alpha``."""
    if isinstance(alpha, str):
        if alpha != "auto":
            raise InputError(f'alpha must be "auto" or a number of at least 0, got {alpha!r}')
        return alpha
    return check_positive(alpha, "alpha", allow_zero=True)


def _ridge(alpha: float | str, trace: float, n_features: int, dtype: npt.DTypeLike) -> float:
    # Constant or repeated features leave X'X singular: the ridge never falls below its rounding error.
    floor = float(np.finfo(dtype).eps) * trace
    wanted = AUTO_ALPHA * trace / n_features if isinstance(alpha, str) else alpha
    return max(wanted, floor, np.finfo(np.float64).tiny)


def _solve_by_features(
    features: Features, targets: Targets, alpha: float | str, modality: str, workers: Workers
) -> tuple[Floats, Floats, float]:
    """Return mean, W and the ridge, from the (features x features) Gram matrix."""
    data = moments(features, targets, modality, workers)
    ridge = _ridge(alpha, float(np.trace(data.gram)), len(data.mean), compute_dtype(features.dtype))
    data.gram.flat[:: len(data.mean) + 1] += ridge
    weights = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(data.gram, overwrite_a=True, check_finite=False), data.cross, check_finite=False
    )
    return data.mean, weights, ridge


def _solve_by_points(
    features: Features, targets: Targets, alpha: float | str, modality: str, workers: Workers
) -> tuple[Floats, Floats, float]:
    """Return mean, W and the ridge, from the (points x points) matrix: W = X'(XX' + alpha I)^-1 U."""
    raise_if_not_finite(features, modality)
    n, n_features = features.shape
    dtype = compute_dtype(features.dtype)
    codes = targets.points(0, n, np.float64)
    mean = np.asarray(features.mean(axis=0, dtype=np.float64)).ravel()
    if sp.issparse(features):
        products = (features @ features.T).toarray().astype(np.float64)
        products -= products.mean(axis=0)
        products -= products.mean(axis=1)[:, None]
    else:
        products = np.zeros((n, n))
        for start in range(0, n_features, 4096):
            block = np.subtract(features[:, start : start + 4096], mean[start : start + 4096], dtype=dtype)
            products += block @ block.T
    ridge = _ridge(alpha, float(np.trace(products)), n_features, dtype)
    products.flat[:: n + 1] += ridge
    factor = scipy.linalg.cho_factor(products, overwrite_a=True, check_finite=False)
    dual = scipy.linalg.cho_solve(factor, codes - codes.mean(axis=0), check_finite=False)
    if sp.issparse(features):
        weights = features.T @ dual - np.outer(mean, dual.sum(axis=0))
    else:
        weights = np.empty((n_features, targets.n_bits))
        for start in range(0, n_features, 4096):
            block = np.subtract(features[:, start : start + 4096], mean[start : start + 4096], dtype=dtype)
            weights[start : start + 4096] = block.T @ dual.astype(dtype)
    return mean, weights, ridge
