"""Kernel hash functions: linear functions of RBF kernel values at a few hundred bases.

The paper's KDLFH, like SePH, fits one kernel logistic regression per bit. Kernel ridge regression has a closed form
that takes one pass over the data.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import Ridge, RidgeSolution, check_ridge, solve_ridge
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._validation import Features, check_choice, check_integer, check_positive, raise_for_overflow
from dlfh.blocks.base import Blocks
from dlfh.hashing.base import BlockLearner, ChunkedFunction, FitContext, HashFunction, SummedLearner, check_array
from dlfh.hashing.feature_maps import CHUNK_ROWS, SCALINGS, RBFMap, Survey

#: Kernel values above this mean that a point coincides with a base, up to rounding.
_AT_A_BASE = 1 - 1e-6


class KernelHash(ChunkedFunction):
    """``code(x) = sign(k(x, bases) @ weights + offset)``, in double precision."""

    kind = "kernel"
    chunk_rows, is_threaded = 1024, True

    def __init__(self, kernel: RBFMap, weights: Floats, offset: Floats, *, is_logistic: bool) -> None:
        self.kernel, self.offset, self.is_logistic = kernel, offset, is_logistic
        self.weights = np.ascontiguousarray(weights)  # as in a file: BLAS may round differently for another layout
        self.n_features, self.n_bits = kernel.bases.shape[1], weights.shape[1]

    def _values(self, rows: Features, modality: str, workers: Workers) -> Floats:
        return self.kernel(rows) @ self.weights + self.offset

    def columns(self, columns: slice) -> KernelHash:
        part = copy.copy(self)
        part.weights, part.offset = np.ascontiguousarray(self.weights[:, columns]), self.offset[columns]
        part.n_bits = len(part.offset)
        return part

    def to_arrays(self) -> dict[str, Array]:
        is_logistic = np.array([self.is_logistic])
        return self.kernel.to_arrays() | {"weights": self.weights, "offset": self.offset, "is_logistic": is_logistic}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> KernelHash:
        kernel = RBFMap.from_arrays(arrays)
        weights = check_array(arrays, "weights", np.float64, (len(kernel.bases), None))
        offset = check_array(arrays, "offset", np.float64, weights.shape[1:])
        return cls(kernel, weights, offset, is_logistic=bool(check_array(arrays, "is_logistic", np.bool_, (1,))[0]))


class LatentBinaryHash(ChunkedFunction):
    """MLBE's most probable bits: one sweep of its bit rule over a new point, with the training points' codes fixed.

    Bit k is +1 where ``log_prior + 2 precision (k(x) a_k - sum_(l != k) u_l a_k'a_l) > 0``, a_k the k-th
    column of ``embedded``.

    kernel: Its bases are the training points.
    embedded (n_bases, n_bits): The training points' codes times the model's weights.
    start (n_bits,): Initial code of the sweep, the same for all points, so that a code depends only on its point.
    """

    kind = "latent-binary"
    chunk_rows = 1024

    def __init__(
        self, kernel: RBFMap, embedded: Floats, start: npt.NDArray[np.int8], precision: float, log_prior: float
    ) -> None:
        self.kernel, self.embedded, self.start = kernel, embedded, start
        self.precision, self.log_prior = precision, log_prior
        self.n_features, self.n_bits = kernel.bases.shape[1], embedded.shape[1]
        self._gram = embedded.T @ embedded
        np.fill_diagonal(self._gram, 0)

    def _values(self, rows: Features, modality: str, workers: Workers) -> Floats:
        attraction = self.kernel(rows) @ self.embedded
        u = np.tile(self.start.astype(np.float64), (len(attraction), 1))
        log_odds = np.empty_like(u)
        for k in range(self.n_bits):
            log_odds[:, k] = self.log_prior + 2 * self.precision * (attraction[:, k] - u @ self._gram[:, k])
            u[:, k] = np.where(log_odds[:, k] > 0, 1.0, -1.0)
        return log_odds

    def to_arrays(self) -> dict[str, Array]:
        rule = np.array([self.precision, self.log_prior])
        return self.kernel.to_arrays() | {"embedded": self.embedded, "start": self.start, "rule": rule}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LatentBinaryHash:
        kernel = RBFMap.from_arrays(arrays)
        embedded = check_array(arrays, "embedded", np.float64, (len(kernel.bases), None))
        start = check_array(arrays, "start", np.int8, embedded.shape[1:])
        return cls(kernel, embedded, start, *check_array(arrays, "rule", np.float64, (2,)).tolist())


def _check_bases(n_bases: Any, bases: Any) -> None:
    check_integer(n_bases, "n_bases", 1)
    check_choice(bases, "bases", ("random", "kmeans"))


@dataclass(eq=False, repr=False)
class KernelLogistic(BlockLearner):
    """Kernel logistic regression, one per bit, all bits solved together: the paper's KDLFH.

    Minimises, for each bit, sum_i log(1 + exp(-u_i k(x_i) w)) + penalty w'K0 w.

    Parameters
    ----------
    n_bases : int, default 500
        Number of bases, at most one per point.
    bases : {"random", "kmeans"}
        Random training points, the same ones in each modality, or cluster centres of each modality.
    penalty : float, default 0.01
        The paper's eta.
    tol : float, default 1e-6
        Relative improvement of the objective below which a bit has converged.
    max_iter : int, default 500
    memory : int, default 2 GiB
        Kernel values to keep between iterations, in bytes; others are computed again each time. (A cluster's workers
        keep all.)
    """

    kind = "kernel-logistic"

    n_bases: int = 500
    _: KW_ONLY
    bases: Literal["random", "kmeans"] = "random"
    penalty: float = 0.01
    tol: float = 1e-6
    max_iter: int = 500
    memory: int = 2 << 30

    def check_parameters(self) -> None:
        _check_bases(self.n_bases, self.bases)
        check_positive(self.penalty, "penalty")
        check_positive(self.tol, "tol")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.memory, "memory", 0)

    def label_learner(self) -> KernelRidge:
        return KernelRidge(self.n_bases, bases=self.bases)  # with the same kernel

    def fit_blocks(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> KernelHash:
        # Here, because encoding does not need them.
        from dlfh._mathematics.classifiers import LOGISTIC, Classifiers, solve_by_sums
        from dlfh.hashing.kernel_rows import KernelRows, kernel_chunks

        kernel = Survey.of(features, modality, context).kernel(self.n_bases, context.seed, bases=self.bases)
        on_done = context.bar.counter(f"bits: {modality}", targets.n_bits)
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "on_done": on_done}
        if features.whole is not None:
            chunks = kernel_chunks(kernel, features.whole, self.memory)
            problem = Classifiers(chunks, kernel.between_bases(), self.penalty, LOGISTIC, context.workers)
            weights = problem.solve(targets.whole.points(0, features.shape[0]), **options).weights
        else:
            rows = KernelRows(kernel, features, targets, self.memory, context.n_jobs(features))
            gram, K0 = rows.gram(), kernel.between_bases()
            weights, _, _ = solve_by_sums(rows.loss_sums, gram, targets.n_bits, K0, self.penalty, LOGISTIC, **options)
        return KernelHash(kernel, weights, np.zeros(targets.n_bits), is_logistic=True)


@dataclass(eq=False, repr=False)
class KernelRidge(SummedLearner):
    """Kernel ridge regression: linear ridge regression on kernel values, in closed form.

    Parameters
    ----------
    n_bases, bases
        As for `KernelLogistic`.
    bandwidth : float, default 1
        The kernel's bandwidth, as a multiple of the mean squared distance between two training points.
    scaling : {"none", "root", "standard"}, default "none"
        As for `LinearRidge`.
    ridge : float or "auto", default "auto"
        Ridge; "auto" is ``shrinkage`` x the mean eigenvalue of the kernel values' centred Gram matrix, or ``shrinkage``
        itself for the penalty "function".
    shrinkage : float, default 1e-4
        Kernel values need far less than raw features (docs/hash-functions.md).
    penalty : {"weights", "function"}, default "weights"
        The squared norm that the ridge multiplies: of the weights, w'w, or of the function, w'K0 w, as for
        `KernelLogistic`, which suits few points.
    precision : {"double", "single"}, default "double"
        Precision of the training points' kernel values and their products; sums are in double precision. "single" takes
        half the time.
    """

    kind = "kernel-ridge"

    n_bases: int = 500
    _: KW_ONLY
    bases: Literal["random", "kmeans"] = "random"
    bandwidth: float = 1.0
    scaling: Literal["none", "root", "standard"] = "none"
    ridge: float | str = "auto"
    shrinkage: float = 1e-4
    penalty: Literal["weights", "function"] = "weights"
    precision: Literal["double", "single"] = "double"

    def check_parameters(self) -> None:
        _check_bases(self.n_bases, self.bases)
        check_choice(self.penalty, "penalty", ("weights", "function"))
        check_choice(self.precision, "precision", ("double", "single"))
        check_positive(self.bandwidth, "bandwidth")
        check_choice(self.scaling, "scaling", SCALINGS)
        check_ridge(self.ridge)
        check_positive(self.shrinkage, "shrinkage", allow_zero=True)

    @property
    def _dtype(self) -> npt.DTypeLike:
        return np.float32 if self.precision == "single" else np.float64

    def fit_blocks(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> KernelHash:
        kernel = self.kernel(features, modality, context)
        sums = self.sum_blocks(kernel, features, targets, modality, context)
        function, context.solutions[modality] = self._solve(kernel, sums)
        return function

    def kernel(self, features: Blocks, modality: str, context: FitContext) -> RBFMap:
        """Return the kernel at bases among these points."""
        return Survey.of(features, modality, context).kernel(
            self.n_bases, context.seed, bases=self.bases, bandwidth=self.bandwidth, scaling=self.scaling
        )

    def map_of(self, function: HashFunction) -> RBFMap:
        """Return the kernel, whose bases come from the first points."""
        assert isinstance(function, KernelHash)
        return function.kernel

    def sums(
        self, feature_map: RBFMap, features: Features, targets: Targets, modality: str, workers: Workers
    ) -> Moments:
        def part(start: int, stop: int) -> Moments:
            return Moments.of_rows(feature_map(features[start:stop], self._dtype), targets, start)

        found = Moments.total(workers.each_block(part, features.shape[0], CHUNK_ROWS))
        if not np.isfinite(found.gram).all():
            raise_for_overflow(features, modality)
        return found

    def function(self, feature_map: RBFMap, sums: Moments, modality: str) -> KernelHash:
        return self._solve(feature_map, sums)[0]

    def _solve(self, kernel: RBFMap, sums: Moments) -> tuple[KernelHash, RidgeSolution]:
        matrix = sums.gram.copy()
        weights = solve_ridge(matrix, self._resolve_ridge(kernel, sums.variances), sums.cross)
        function = KernelHash(kernel, weights, sums.target_mean - sums.mean @ weights, is_logistic=False)
        return function, RidgeSolution(sums.n_points, sums.mean, matrix, weights, sums.target_mean)

    def _resolve_ridge(self, kernel: RBFMap, variances: Floats) -> float | Floats:
        """Return the ridge: a number to penalise the weights, or a matrix to penalise the norm of the function."""
        floor = np.finfo(np.float64).eps * variances.sum()
        if self.penalty == "weights":
            return Ridge(self.ridge, self.shrinkage).resolve(variances, floor)
        ridge = self.shrinkage if isinstance(self.ridge, str) else self.ridge
        return ridge * kernel.between_bases() + floor * np.eye(len(variances))

    def leave_one_out(
        self, function: HashFunction, features: Features, targets: Targets, solution: RidgeSolution | None = None
    ) -> Singles:
        """Return leave-one-out predictions, by functions that use the point neither in sums nor as a base."""
        assert isinstance(function, KernelHash)
        kernel = function.kernel

        def rows(chunk: slice) -> Floats:
            return kernel(features[chunk])

        def base_at(values: Array) -> Integers:
            return np.where(values.max(axis=1) > _AT_A_BASE, values.argmax(axis=1), -1)

        if solution is None:
            solution = RidgeSolution.of_rows(rows, targets, functools.partial(self._resolve_ridge, kernel))
        return solution.leave_one_out(rows, targets, base_at)
