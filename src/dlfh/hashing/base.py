"""The seam between codes and hash functions: any learned code can be given any kind of function.

A *learner* is fitted to one modality's features and target codes and returns a *hash function*, which
encodes points that training never saw. Learners are parameters of a method; hash functions are what a
fitted method keeps and saves.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._parameters import Parameterized
from dlfh._persistence.registry import Registered, Registry
from dlfh._progress import Bar
from dlfh._validation import Features
from dlfh.blocks.base import Blocks
from dlfh.codes import Codes, n_bytes, pack

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FitContext:
    """What a learner may use: threads, a progress display, a seed that all modalities share, and the points' labels.

    Attributes
    ----------
    labels : LabelSets or None
        Of the points that the features are of; None where they are not known.
    chosen : dict of str to HashLearner
        By modality: what a learner that chooses among others chose.
    """

    workers: Workers
    seed: int
    bar: Bar = field(default_factory=Bar)
    labels: LabelSets | None = None
    chosen: dict[str, HashLearner] = field(default_factory=dict)


def expected_bits(log_odds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the expected value of bits of -1 and +1, 2 p - 1 = tanh(z / 2), from their log-odds z."""
    return np.tanh(log_odds / 2)


class HashFunction(Registered, ABC):
    """A fitted hash function of one modality: the code of x is the sign of ``project(x)``.

    Projections are estimates of the bits' expected values, between -1 and +1 or so: of the scales that were
    tried, the one that ranks best against stored codes (docs/hash-functions.md).

    Subclasses set ``kind``, the name by which a saved model finds them again.
    """

    registry: ClassVar[Registry[HashFunction]] = Registry("hash function")

    n_features: int
    n_bits: int

    @abstractmethod
    def project(self, features: Features, modality: str, workers: Workers) -> npt.NDArray[np.float32]:
        """Return the values whose signs are the code, shape (n, n_bits)."""

    def encode(self, features: Features, modality: str, workers: Workers) -> Codes:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return pack(self.project(features, modality, workers))

    @abstractmethod
    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this hash function again."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> HashFunction:
        """Make a hash function from the arrays of another."""


def hash_blocks(
    function: HashFunction, features: Blocks, modality: str, n_jobs: int | None, *, real: bool = False
) -> Blocks:
    """Return the codes of points in blocks, or the real values whose signs they are, evaluated when read."""
    width, dtype = (function.n_bits, np.float32) if real else (n_bytes(function.n_bits), np.uint8)
    n_jobs = n_jobs if features.is_local else 1  # a cluster runs a task on each of its threads
    return features.map(functools.partial(hash_block, function, modality, n_jobs, real), width, dtype)


def hash_block(function: HashFunction, modality: str, n_jobs: int | None, real: bool, block: Any) -> npt.NDArray[Any]:
    """Return the codes of a block, or the real values whose signs they are."""
    with Workers(n_jobs) as workers:
        return (function.project if real else function.encode)(block, modality, workers)


def check_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> npt.NDArray[Any]:
    """Return an array of a saved model, which must be finite and have this type and shape (None: any length)."""
    array = arrays[name]
    fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits or 0 in array.shape:
        raise ValueError(f"its array {name!r} has type {array.dtype} and shape {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"its array {name!r} has values that are not finite")
    return array


class HashLearner(Registered, Parameterized, ABC):
    """How hash functions are learned from codes; parameters as in scikit-learn.

    Subclasses that are to be saved, as parameters of a model, set ``kind``, the name by which it finds them again.
    """

    registry: ClassVar[Registry[HashLearner]] = Registry("hash learner")

    @abstractmethod
    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""

    def check_installed(self) -> None:
        """Raise InputError if fitting needs a package that is not installed; what was fitted may do without."""

    def left_out(self, function: HashFunction, features: Features, targets: Targets) -> npt.NDArray[np.float32] | None:
        """Return the values that each point would have by a function that was not fitted to it.

        Parameters
        ----------
        function : HashFunction
            What `fit` returned for these features and targets.
        features, targets
            As they were given to `fit`.

        Returns
        -------
        ndarray of float32 (n, n_bits), or None
            None for learners that would have to learn again for each point.
        """
        return None

    @abstractmethod
    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> HashFunction:
        """Return a hash function that predicts the target codes from the features."""


class SummedLearner(HashLearner):
    """A learner whose functions follow from sums over points, so that data may come in parts.

    What is done to features before they are summed, a scaling or a kernel's map, is settled by the first points.
    """

    @abstractmethod
    def map_of(self, function: HashFunction) -> Any:
        """Return what a function that this learner learned does to features before it multiplies them."""

    @abstractmethod
    def sums(self, own_map: Any, features: Features, targets: Targets, modality: str, workers: Workers) -> Moments:
        """Return what is to know of some points."""

    @abstractmethod
    def function(self, own_map: Any, sums: Moments, modality: str) -> HashFunction:
        """Return the function for all points that the sums are of."""
