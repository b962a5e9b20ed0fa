"""Kernel hash functions: linear ones of RBF kernel values k(x, z) at some hundred bases z.

The paper's KDLFH, as SePH, fits a kernel logistic regression per bit. Kernel ridge regression has a
closed form, from one pass over the data.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._mathematics.leave_one_out import left_out_by_features
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import Ridge, check_ridge, solve_ridge
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import (
    Features,
    check_choice,
    check_integer,
    check_positive,
    column_means,
    raise_for_overflow,
    raise_if_not_finite,
)
from dlfh.hashing.base import FitContext, HashFunction, HashLearner, SummedLearner, check_array, expected_bits
from dlfh.hashing.scaling import SCALINGS, UNSCALED, Scaling

Floats = npt.NDArray[np.float64]

#: Rows whose kernel values are computed at once.
CHUNK_ROWS = 4096

#: Maximum size of the dense rows that k-means clusters.
_CLUSTER_BYTES = 256 << 20

#: The kernel value of a point and a base at its place, less rounding.
_AT_A_BASE = 1 - 1e-6


class RBFMap:
    """Kernel values k(x, z) = exp(-|x - z|^2 / bandwidth) at the bases z, for x as ``scaling`` makes it.

    Attributes
    ----------
    bases : ndarray of float32 (n_bases, n_features)
        Relative to ``centre``: distances do not change, and rounding does not grow with the mean.
    centre : ndarray of float64 (n_features,)
    bandwidth : float
        The mean squared distance between two training points, or a multiple of it.
    scaling : Scaling
    """

    def __init__(
        self, bases: npt.NDArray[np.float32], centre: Floats, bandwidth: float, scaling: Scaling = UNSCALED
    ) -> None:
        self.bases = bases
        self.centre = centre
        self.bandwidth = bandwidth
        self.scaling = scaling

    @classmethod
    def fit(
        cls,
        features: Features,
        n_bases: int,
        kind: str,
        modality: str,
        context: FitContext,
        *,
        bandwidth_factor: float = 1.0,
        scaling_kind: str = "none",
    ) -> RBFMap:
        """Choose bases, and the bandwidth by mean |x - y|^2 = 2 (mean |x|^2 - |mean x|^2)."""
        raise_if_not_finite(features, modality)
        scaling = Scaling.fit(scaling_kind, features, modality)
        features = scaling(features)
        n = features.shape[0]
        centre = column_means(features)
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, n, CHUNK_ROWS):
                total += _squared_norms(features[start : start + CHUNK_ROWS], centre).sum()
        bandwidth = 2 * total / n * bandwidth_factor
        relative: npt.NDArray[np.float32] | None
        if kind == "random":
            points = features[random_bases(n, n_bases, context.seed)]
            bases = (points.toarray() if sp.issparse(points) else points).astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                relative = (bases - centre).astype(np.float32)
        else:
            relative = _cluster_centres(features, centre, min(n_bases, n), context.seed)
        if relative is None or not (np.isfinite(bandwidth) and np.isfinite(relative).all()):
            raise_for_overflow(features, modality)
        return cls(relative, centre, bandwidth if bandwidth > 0 else 1.0, scaling)

    def __call__(self, rows: Features, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """Return the kernel values of some rows, shape (n, n_bases)."""
        with np.errstate(over="ignore", invalid="ignore"):  # users of the values look whether they are finite
            return self._values(self.scaling(rows), dtype)

    def _values(self, rows: Features, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        bases = self.bases.astype(np.float64)
        if sp.issparse(rows):
            products = rows.astype(np.float64) @ bases.T - bases @ self.centre
            norms = _squared_norms(rows, self.centre)
        else:
            centred = np.subtract(rows, self.centre, dtype=np.float64).astype(dtype)
            products = centred @ bases.T.astype(dtype)
            norms = np.einsum("nd,nd->n", centred, centred)
        distances = norms[:, None] + np.einsum("kd,kd->k", bases, bases).astype(products.dtype) - 2 * products
        np.maximum(distances, 0, out=distances)
        distances *= -1 / self.bandwidth
        return np.exp(distances, out=distances).astype(dtype, copy=False)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this map again."""
        own: dict[str, npt.NDArray[Any]] = {
            "bases": self.bases,
            "centre": self.centre,
            "bandwidth": np.array([self.bandwidth]),
        }
        return own | self.scaling.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> RBFMap:
        """Make a map from the arrays of another."""
        _, n_features = check_array(arrays, "bases", np.float32, (None, None)).shape
        check_array(arrays, "centre", np.float64, (n_features,))
        bandwidth = check_array(arrays, "bandwidth", np.float64, (1,))
        if not bandwidth[0] > 0:
            raise ValueError(f"its bandwidth must be a number above 0, got {bandwidth[0]}")
        scaling = Scaling.from_arrays(arrays, n_features)
        return cls(arrays["bases"], arrays["centre"], float(bandwidth[0]), scaling)

    def between_bases(self) -> Floats:
        """Return K0, the kernel values of the bases themselves."""
        return self._values(self.bases.astype(np.float64) + self.centre, np.float64)


def _squared_norms(rows: Features, centre: Floats) -> Floats:
    """Return |x - centre|^2 of each row, sparse rows left sparse."""
    if sp.issparse(rows):
        squares = np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel()
        return squares - 2 * (rows @ centre) + centre @ centre
    centred = np.subtract(rows, centre, dtype=np.float64)
    return np.einsum("nd,nd->n", centred, centred)


def _cluster_centres(features: Features, centre: Floats, n_bases: int, seed: int) -> npt.NDArray[np.float32] | None:
    """Return k-means centres relative to ``centre``, or None if values overflow single precision.

    Large data is sampled: 64 points per cluster, less where dense rows would take more than 256 MB.
    """
    import faiss  # here, because encoding clusters nothing

    n, n_features = features.shape
    n_sampled = min(n, max(n_bases, min(64 * n_bases, _CLUSTER_BYTES // (4 * n_features))))
    rows = features[random_bases(n, n_sampled, seed)]
    with np.errstate(over="ignore", invalid="ignore"):
        points = ((rows.toarray() if sp.issparse(rows) else rows) - centre).astype(np.float32)
    if not np.isfinite(points).all():
        return None
    means = faiss.Kmeans(
        n_features,
        n_bases,
        niter=20,
        seed=seed % 2**31,
        min_points_per_centroid=1,
        max_points_per_centroid=n_sampled,
    )
    means.train(points)
    return np.asarray(means.centroids)


def random_bases(n_points: int, n_bases: int, seed: int) -> npt.NDArray[np.int64]:
    """Return which points are bases, in rising order: by one seed the same points in every modality."""
    return np.sort(np.random.default_rng(seed).choice(n_points, min(n_bases, n_points), replace=False))


class KernelHash(HashFunction):
    """``code(x) = sign(k(x, bases) @ weights + offset)``, in double precision.

    Attributes
    ----------
    kernel : RBFMap
    weights : ndarray of float64 (n_bases, n_bits)
    offset : ndarray of float64 (n_bits,)
    is_logistic : bool
        Whether the values are log-odds, of which `project` makes expected bits.
    """

    kind = "kernel"

    def __init__(self, kernel: RBFMap, weights: Floats, offset: Floats, *, is_logistic: bool) -> None:
        self.kernel = kernel
        self.weights = np.ascontiguousarray(weights)  # as a file has them: BLAS may round otherwise
        self.offset = offset
        self.is_logistic = is_logistic

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.kernel.bases.shape[1]

    @property
    def n_bits(self) -> int:  # type: ignore[override]
        return self.weights.shape[1]

    def project(self, features: Features, modality: str, workers: Workers) -> npt.NDArray[np.float32]:
        """Return the values whose signs are the code, shape (n, n_bits)."""
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        for start in range(0, features.shape[0], CHUNK_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):
                values = self.kernel(features[start : start + CHUNK_ROWS]) @ self.weights + self.offset
            if not (np.abs(values) <= np.finfo(np.float32).max).all():  # (false for NaN)
                raise_for_overflow(features, modality)
            projections[start : start + CHUNK_ROWS] = expected_bits(values) if self.is_logistic else values
        return projections

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this hash function again."""
        return self.kernel.to_arrays() | {
            "weights": self.weights,
            "offset": self.offset,
            "is_logistic": np.array([self.is_logistic]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> KernelHash:
        """Make a hash function from the arrays of another."""
        kernel = RBFMap.from_arrays(arrays)
        _, n_bits = check_array(arrays, "weights", np.float64, (len(kernel.bases), None)).shape
        check_array(arrays, "offset", np.float64, (n_bits,))
        check_array(arrays, "is_logistic", np.bool_, (1,))
        logistic = bool(arrays["is_logistic"][0])
        return cls(kernel, arrays["weights"], arrays["offset"], is_logistic=logistic)


def _check_bases(n_bases: Any, bases: Any) -> None:
    check_integer(n_bases, "n_bases", 1)
    check_choice(bases, "bases", ("random", "kmeans"))


class KernelLogistic(HashLearner):
    """Kernel logistic regression, one per bit, all bits solved together: the paper's KDLFH.

    Minimises, for each bit, sum_i log(1 + exp(-u_i k(x_i) w)) + penalty w'K0 w.

    Parameters
    ----------
    n_bases : int, default 500
        Number of bases; all points where there are fewer.
    bases : {"random", "kmeans"}
        Random training points, the same ones in each modality, or cluster centres of each modality.
    penalty : float, default 0.01
        The paper's eta.
    tol : float, default 1e-6
        Relative improvement of the objective below which a bit is done.
    max_iter : int, default 500
    memory : int, default 2 GiB
        Bytes of kernel values to keep between iterations; more are computed again each time. (A cluster's workers keep
        all.)
    """

    kind = "kernel-logistic"

    def __init__(
        self,
        n_bases: int = 500,
        *,
        bases: Literal["random", "kmeans"] = "random",
        penalty: float = 0.01,
        tol: float = 1e-6,
        max_iter: int = 500,
        memory: int = 2 << 30,
    ) -> None:
        self.n_bases = n_bases
        self.bases = bases
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter
        self.memory = memory

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        _check_bases(self.n_bases, self.bases)
        check_positive(self.penalty, "penalty")
        check_positive(self.tol, "tol")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.memory, "memory", 0)

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> KernelHash:
        """Return the kernel hash function that predicts the target codes from the features."""
        from dlfh._mathematics.classifiers import solve_logistic  # here, since encoding solves nothing

        kernel = RBFMap.fit(features, self.n_bases, self.bases, modality, context)
        n = features.shape[0]
        solution = solve_logistic(
            _kernel_blocks(kernel, features, self.memory),
            targets.points(0, n),
            kernel.between_bases(),
            self.penalty,
            context.workers,
            tol=self.tol,
            max_iter=self.max_iter,
            on_done=context.bar.counter(f"bits: {modality}", targets.n_bits),
        )
        return KernelHash(kernel, solution.weights, np.zeros(targets.n_bits), is_logistic=True)


def _kernel_blocks(
    kernel: RBFMap, features: Features, memory: int
) -> Callable[[], Iterator[tuple[int, int, npt.NDArray[np.float32]]]]:
    n = features.shape[0]
    kept: list[npt.NDArray[np.float32]] = []
    n_kept = min(n, memory // (4 * len(kernel.bases)))

    def blocks() -> Iterator[tuple[int, int, npt.NDArray[np.float32]]]:
        for number, start in enumerate(range(0, n, CHUNK_ROWS)):
            stop = min(start + CHUNK_ROWS, n)
            if number < len(kept):
                values = kept[number]
            else:
                values = kernel(features[start:stop], np.float32)
                if stop <= n_kept:
                    kept.append(values)
            yield start, stop, values

    return blocks


class KernelRidge(SummedLearner):
    """Kernel ridge regression: linear ridge regression on kernel values, in closed form.

    Parameters
    ----------
    n_bases, bases
        As for `KernelLogistic`.
    bandwidth : float, default 1
        The kernel's bandwidth, in mean squared distances between two training points.
    scaling : {"none", "root", "standard"}, default "none"
        As for `LinearRidge`.
    ridge : float or "auto", default "auto"
        Ridge; "auto" is ``shrinkage`` x the mean eigenvalue of the kernel values' centred Gram matrix.
    shrinkage : float, default 1e-4
        Kernel values need far less than raw features (docs/hash-functions.md).
    """

    kind = "kernel-ridge"

    def __init__(
        self,
        n_bases: int = 500,
        *,
        bases: Literal["random", "kmeans"] = "random",
        bandwidth: float = 1.0,
        scaling: Literal["none", "root", "standard"] = "none",
        ridge: float | str = "auto",
        shrinkage: float = 1e-4,
    ) -> None:
        self.n_bases = n_bases
        self.bases = bases
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.ridge = ridge
        self.shrinkage = shrinkage

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        _check_bases(self.n_bases, self.bases)
        check_positive(self.bandwidth, "bandwidth")
        check_choice(self.scaling, "scaling", SCALINGS)
        check_ridge(self.ridge)
        check_positive(self.shrinkage, "shrinkage", allow_zero=True)

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> KernelHash:
        """Return the kernel hash function that predicts the target codes from the features."""
        kernel = RBFMap.fit(
            features,
            self.n_bases,
            self.bases,
            modality,
            context,
            bandwidth_factor=self.bandwidth,
            scaling_kind=self.scaling,
        )
        return self.function(kernel, self.sums(kernel, features, targets, modality, context.workers), modality)

    def map_of(self, function: HashFunction) -> RBFMap:
        """Return the kernel at its bases: those of the first points, whatever comes later."""
        assert isinstance(function, KernelHash)
        return function.kernel

    def sums(self, own_map: RBFMap, features: Features, targets: Targets, modality: str, workers: Workers) -> Moments:
        """Return what is to know of some points' kernel values."""
        n = features.shape[0]
        bounds = ((start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS))
        parts = (Moments.of_rows(own_map(features[start:stop]), targets.points(start, stop)) for start, stop in bounds)
        found = functools.reduce(operator.add, parts)
        if not np.isfinite(found.gram).all():
            raise_for_overflow(features, modality)
        return found

    def function(self, own_map: RBFMap, sums: Moments, modality: str) -> KernelHash:
        """Return the function for all points that the sums are of."""
        weights = solve_ridge(sums.gram.copy(), self._resolve_ridge(sums.variances), sums.cross)
        return KernelHash(own_map, weights, sums.target_mean - sums.mean @ weights, is_logistic=False)

    def _resolve_ridge(self, variances: Floats) -> float:
        return Ridge(self.ridge, self.shrinkage).resolve(variances, np.finfo(np.float64).eps * variances.sum())

    def left_out(self, function: HashFunction, features: Features, targets: Targets) -> npt.NDArray[np.float32] | None:
        """Return the values that each point would have by a function without it, among its bases too."""
        assert isinstance(function, KernelHash)
        kernel = function.kernel
        return left_out_by_features(
            lambda start, stop: kernel(features[start:stop]), targets, self._resolve_ridge, own_feature=_own_base
        )


def _own_base(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return, by kernel values of points, which base is at the place of each; -1 where none is."""
    return np.where(values.max(axis=1) > _AT_A_BASE, values.argmax(axis=1), -1)
