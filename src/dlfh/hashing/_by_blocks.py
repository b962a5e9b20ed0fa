"""Hash functions of data that is read by blocks: once to look around, where that is needed, and once for the sums."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._validation import raise_for_overflow, raise_if_not_finite
from dlfh.blocks import Blocks
from dlfh.codes import Codes
from dlfh.errors import InputError
from dlfh.hashing._auto import Auto
from dlfh.hashing._base import FitContext, HashFunction, HashLearner, SummedLearner
from dlfh.hashing._kernel import KernelRidge, RBFMap
from dlfh.hashing._linear import LinearRidge
from dlfh.hashing._scaling import UNSCALED, Scaling
from dlfh.mathematics._moments import Moments
from dlfh.mathematics._targets import Targets

__all__ = ["BlockTargets", "NumberedRows", "codes_of_rows", "encode_block", "fit_by_blocks"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Features of which a Gram matrix is made, at most: it takes 2 GiB, wherever a block is worked on.
_MOST_FEATURES = 16384


@dataclass(frozen=True)
class BlockTargets:
    """Target codes of points in blocks, and where to look for the labels of some of them.

    Attributes
    ----------
    points : Blocks
        Which of the distinct codes each point has; or, where these are not here, the points' packed codes.
    codes : ndarray of uint8, or None
        The distinct codes.
    labels : LabelSets or Blocks
        The distinct label sets, in the order of the codes; or the points' labels.
    """

    points: Blocks
    codes: Codes | None
    labels: LabelSets | Blocks
    n_bits: int

    def take(self, points: Integers) -> tuple[Targets, LabelSets]:
        """Return targets and labels of some points, in rising order."""
        found = self.points.take(points)
        if isinstance(self.labels, LabelSets):
            labels = replace(self.labels, set_of_point=found).take(np.arange(len(found)))
        else:
            labels = LabelSets.from_labels(self.labels.take(points), allow_empty=True)
        return _targets(self.codes, self.n_bits, found), labels


def _targets(codes: Codes | None, n_bits: int, points: npt.NDArray[Any]) -> Targets:
    return Targets(points, np.arange(len(points)), n_bits) if codes is None else Targets(codes, points, n_bits)


def fit_by_blocks(
    learner: HashLearner, features: Blocks, targets: BlockTargets, modality: str, context: FitContext
) -> HashFunction:
    """Return the hash function that predicts target codes, as `HashLearner.fit` does of arrays.

    Parameters
    ----------
    learner : HashLearner
        A linear or kernel ridge regression, or "auto", which chooses among these.
    features : Blocks (n, d)
    targets : BlockTargets
    """
    if features.shape[1] > _MOST_FEATURES:
        raise InputError(
            f"modality {modality!r} has {features.shape[1]} features, and by blocks at most {_MOST_FEATURES} are "
            "learned from: pass a sparse matrix in memory"
        )
    if isinstance(learner, Auto):
        learner = context.chosen.setdefault(modality, _choose(learner, features, targets, modality, context))
    own_map: Any
    if isinstance(learner, KernelRidge):
        own_map = _kernel_map(learner, features, modality, context)
    elif isinstance(learner, LinearRidge):
        own_map = UNSCALED if learner.scaling == "standard" else Scaling(learner.scaling, np.zeros(0))
    else:
        raise InputError(
            f"by blocks, hash functions are linear or kernel ridge regressions, not {type(learner).__name__}"
        )
    n_jobs = context.workers.n_jobs if features.is_here else 1  # a cluster has a task for each of its threads
    on_block = functools.partial(_sums, learner, own_map, targets.codes, targets.n_bits, modality, n_jobs)
    return learner.function(own_map, features.map_reduce(on_block, operator.add, targets.points), modality)


def _sums(
    learner: SummedLearner,
    own_map: Any,
    codes: Codes | None,
    n_bits: int,
    modality: str,
    n_jobs: int,
    start: int,
    block: Any,
    points: npt.NDArray[Any],
) -> Moments:
    with Workers(n_jobs) as workers, NumberedRows(start, block, modality):
        return learner.sums(own_map, block, _targets(codes, n_bits, points), modality, workers)


class NumberedRows:
    """Let what is said of a row of a block be said by its number among all rows."""

    def __init__(self, start: int, block: Any, modality: str) -> None:
        self.start, self.block, self.modality = start, block, modality

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InputError):
            numbers = np.arange(self.start, self.start + self.block.shape[0])
            raise_if_not_finite(self.block, self.modality, numbers)


def _choose(learner: Auto, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashLearner:
    points = learner.points(features.shape[0], context.seed)
    drawn = features.take(points)
    raise_if_not_finite(drawn, modality, points)
    return learner.choose(drawn, *targets.take(points), features.shape[0], modality, context)


@dataclass(frozen=True)
class _Survey:
    """Mean, and sum of squares about it, of each feature: what a scaling and a kernel's width follow from."""

    n_points: int
    mean: Floats
    squares: Floats

    def __add__(self, other: _Survey) -> _Survey:
        n = self.n_points + other.n_points
        apart = other.mean - self.mean
        squares = self.squares + other.squares + self.n_points * other.n_points / n * apart**2
        return _Survey(n, self.mean + other.n_points / n * apart, squares)


def _survey(scaling: Scaling, modality: str, start: int, block: Any) -> _Survey:
    raise_if_not_finite(block, modality, np.arange(start, start + block.shape[0]))
    rows = scaling(block)
    n = rows.shape[0]
    if sp.issparse(rows):
        mean = np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel() / n
        squares = np.asarray(rows.astype(np.float64).power(2).sum(axis=0)).ravel() - n * mean**2
        return _Survey(n, mean, np.maximum(squares, 0))
    mean = rows.mean(axis=0, dtype=np.float64)
    squares = np.zeros_like(mean)
    for first in range(0, n, 4096):
        centred = np.subtract(rows[first : first + 4096], mean, dtype=np.float64)
        squares += np.einsum("nd,nd->d", centred, centred)
    return _Survey(n, mean, squares)


def _kernel_map(learner: KernelRidge, features: Blocks, modality: str, context: FitContext) -> RBFMap:
    """Return the kernel's map as `RBFMap.fit` makes it."""
    if learner.bases != "random":
        raise InputError("by blocks, kernels have random training points as bases: bases='random'")
    first = UNSCALED if learner.scaling == "standard" else Scaling(learner.scaling, np.zeros(0))
    found = features.map_reduce(functools.partial(_survey, first, modality), operator.add)
    scaling, n = first, found.n_points
    if learner.scaling == "standard":
        scaling = Scaling.by_deviations(np.sqrt(found.squares / n), found.squares / n + found.mean**2)
        found = _Survey(n, found.mean / scaling.divisors, found.squares / scaling.divisors**2)
    chosen = np.sort(np.random.default_rng(context.seed).choice(n, min(learner.n_bases, n), replace=False))
    points = scaling(features.take(chosen))
    bandwidth = 2 * float(found.squares.sum()) / n * learner.bandwidth
    dense = (points.toarray() if sp.issparse(points) else points).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        relative = (dense - found.mean).astype(np.float32)
    if not (np.isfinite(bandwidth) and np.isfinite(relative).all()):
        raise_for_overflow(points, modality)
    return RBFMap(relative, found.mean, bandwidth if bandwidth > 0 else 1.0, scaling)


def encode_block(function: HashFunction, modality: str, real: bool, block: Any) -> npt.NDArray[Any]:
    """Return the codes of a block, or the real values whose signs they are."""
    with Workers(1) as workers:
        return (function.project if real else function.encode)(block, modality, workers)


def codes_of_rows(codes: Codes, rows: Integers) -> Codes:
    """Return the codes of a block's points, from which of the distinct ones each has."""
    return codes[rows]
