"""Hash functions and their learners: any codes can be combined with any kind of hash function.

A *learner* is fitted to one modality's features and target codes and returns a *hash function*, which encodes new
points. Learners are parameters of a method; hash functions belong to a fitted method and are saved with it.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Codes, Singles
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import RidgeSolution
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._parameters import Parameterized
from dlfh._persistence.registry import Registered, Registry
from dlfh._progress import Bar
from dlfh._validation import Features, raise_for_overflow, raise_if_not_finite
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import in_one_block
from dlfh.codes import n_bytes, pack
from dlfh.errors import InputError


@dataclass(frozen=True)
class FitContext:
    """Resources of a learner, and results by modality: learners that `Auto` chose, `Survey`s, solved regressions.

    needs_sums: Whether learners must be `SummedLearner`s, so that points can be added.
    first: By modality, label probabilities that a fit to points with known labels predicted: `FirstLabels`.
    """

    workers: Workers
    seed: int
    bar: Bar = field(default_factory=Bar)
    chosen: dict[str, HashLearner] = field(default_factory=dict)
    surveys: dict[str, Any] = field(default_factory=dict)
    solutions: dict[str, RidgeSolution] = field(default_factory=dict)
    needs_sums: bool = False
    first: Mapping[str, Any] = field(default_factory=dict)

    def n_jobs(self, features: Blocks) -> int:
        """Return the number of threads for a function of blocks; a cluster runs one task on each of its threads."""
        return self.workers.n_jobs if features.is_local else 1


class HashFunction(Registered, ABC):
    """A fitted hash function of one modality: the code of x is the sign of ``project(x)``.

    Projections estimate the expected values of the bits, roughly between -1 and +1, the scale that ranked best against
    stored codes (docs/hash-functions.md).

    Subclasses set ``kind``, the name by which a saved model refers to them.
    """

    _registry: ClassVar[Registry[HashFunction]] = Registry("hash function")

    n_features: int
    n_bits: int

    @abstractmethod
    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        """Return the values whose signs are the code, shape (n, n_bits)."""

    def encode(self, features: Features, modality: str, workers: Workers) -> Codes:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return pack(self.project(features, modality, workers))

    def columns(self, columns: slice) -> HashFunction | None:
        """Return the function restricted to some of its targets; None if that is not possible."""
        return None

    @abstractmethod
    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays from which `from_arrays` restores this hash function."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> HashFunction:
        """Restore a hash function from its arrays."""


class ChunkedFunction(HashFunction):
    """A hash function that is evaluated in chunks of a few thousand rows; a logistic one computes log-odds of bits.

    is_threaded: Whether chunks are evaluated in several threads; `_values` must then not use the workers.
    """

    chunk_rows: ClassVar[int] = 4096
    is_threaded: ClassVar[bool] = False
    is_logistic: bool = True

    @abstractmethod
    def _values(self, rows: Features, modality: str, workers: Workers) -> Array:
        """Return the values of some rows, which are checked afterwards."""

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        projections = np.empty((features.shape[0], self.n_bits), np.float32)

        def fill(start: int, stop: int) -> bool:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._values(features[start:stop], modality, workers)
            # The expected value of a bit of -1 or +1 is 2 p - 1 = tanh(z / 2), from its log-odds z.
            projections[start:stop] = np.tanh(values / 2) if self.is_logistic else values
            return bool((np.abs(values) <= np.finfo(np.float32).max).all())  # (false for NaN)

        threads = workers if self.is_threaded else Workers(1)
        if not all(threads.each_block(fill, len(projections), self.chunk_rows)):
            raise_for_overflow(features, modality)
        return projections


def hash_blocks(
    function: HashFunction, features: Blocks, modality: str, n_jobs: int | None, *, real: bool = False
) -> Blocks:
    """Return the codes of points in blocks, or the real values whose signs they are, evaluated when read."""
    width, dtype = (function.n_bits, np.float32) if real else (n_bytes(function.n_bits), np.uint8)
    n_jobs = n_jobs if features.is_local else 1
    return features.map(functools.partial(hash_block, function, modality, n_jobs, real), width, dtype)


def hash_block(function: HashFunction, modality: str, n_jobs: int | None, real: bool, block: Any) -> Array:
    """Return the codes of a block, or the real values whose signs they are."""
    with Workers(n_jobs) as workers:
        return (function.project if real else function.encode)(block, modality, workers)


@contextmanager
def numbered_rows(start: int, block: Any, modality: str) -> Iterator[None]:
    """Let errors about a block's rows name them by their numbers in the whole matrix."""
    try:
        yield
    except InputError:
        raise_if_not_finite(block, modality, np.arange(start, start + block.shape[0]))
        raise


def check_array(arrays: Mapping[str, Array], name: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]) -> Array:
    """Return an array of a saved model, which must be finite and have this type and shape (None: any length)."""
    array = arrays[name]
    fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits or 0 in array.shape:
        raise ValueError(f"its array {name!r} has the wrong type or shape: {array.dtype}, {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"its array {name!r} has values that are not finite")
    return array


class HashLearner(Registered, Parameterized, ABC):
    """Learns hash functions from codes; parameters as in scikit-learn.

    Subclasses whose instances are saved as parameters of a model set ``kind``, the name by which the file refers to
    them.
    """

    _registry: ClassVar[Registry[HashLearner]] = Registry("hash learner")

    @abstractmethod
    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""

    def check_installed(self) -> None:
        """Raise InputError if fitting needs a package that is not installed."""

    def resolve(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashLearner:
        """Return the learner that fits the function: this one, unless it chooses among others."""
        return self

    def label_learner(self) -> SummedLearner | None:
        """Return the learner of label probabilities to use with these hash functions; None if not supported."""
        return None

    @abstractmethod
    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> HashFunction:
        """Return a hash function that predicts the target codes from the features."""

    def fit_blocks(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashFunction:
        """Return a hash function that predicts the target codes from features in blocks.

        Learners that need all points at once accept only a single block in memory.
        """
        if features.whole is None:
            raise InputError(
                f"data in blocks needs linear, kernel ridge or kernel logistic functions, not {type(self).__name__}"
            )
        return self.fit(features.whole, targets.whole, modality, context)

    def leave_one_out(self, function: HashFunction, features: Features, targets: Targets) -> Singles | None:
        """Return leave-one-out projections of the training points.

        Parameters
        ----------
        function : HashFunction
            The result of `fit` for these features and targets.
        features, targets
            As given to `fit`.

        Returns
        -------
        ndarray of float32 (n, n_bits), or None
            None for learners that would have to be fitted again for each point.
        """
        return None


class BlockLearner(HashLearner):
    """A learner whose `fit_blocks` takes features in blocks; a matrix in memory is one block."""

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> Any:
        return self.fit_blocks(in_one_block(features, modality), BlockTargets.in_memory(targets), modality, context)


class SummedLearner(BlockLearner):
    """A learner whose functions are computed from sums over points, so that points can be added later.

    The feature map, a scaling or a kernel, is fixed by the first points.
    """

    def label_learner(self) -> SummedLearner:
        return self

    @abstractmethod
    def leave_one_out(
        self, function: HashFunction, features: Features, targets: Targets, solution: RidgeSolution | None = None
    ) -> Singles | None:
        """Return leave-one-out predictions: of all points, or with a solution, of a sample of its points."""

    @abstractmethod
    def map_of(self, function: HashFunction) -> Any:
        """Return the feature map of a learned function, which is applied before points are summed."""

    @abstractmethod
    def sums(self, feature_map: Any, features: Features, targets: Targets, modality: str, workers: Workers) -> Moments:
        """Return the sufficient statistics of some points."""

    @abstractmethod
    def function(self, feature_map: Any, sums: Moments, modality: str) -> HashFunction:
        """Return the hash function for the points that were summed."""

    def sum_blocks(
        self, feature_map: Any, features: Blocks, targets: BlockTargets, modality: str, context: FitContext
    ) -> Moments:
        """Return the sufficient statistics of points in blocks."""
        on_block = functools.partial(self._sum_block, feature_map, targets.of_block, modality, context.n_jobs(features))
        return features.map_reduce(on_block, operator.add, targets.points)

    def _sum_block(
        self, feature_map: Any, targets_of: Any, modality: str, n_jobs: int, start: int, block: Any, points: Array
    ) -> Moments:
        with Workers(n_jobs) as workers, numbered_rows(start, block, modality):
            return self.sums(feature_map, block, targets_of(points), modality, workers)
