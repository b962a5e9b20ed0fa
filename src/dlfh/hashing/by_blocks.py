"""Hash functions of data that is read by blocks: once to look around, where that is needed, and once for the sums.

Logistic regressions sum again and again, over kernel values that stay where they are (`KernelRows`).
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._mathematics.classifiers import LOGISTIC
from dlfh._mathematics.moments import Moments, check_gram_fits
from dlfh._mathematics.summed_classifiers import solve_by_sums
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import raise_if_not_finite
from dlfh.blocks import Blocks
from dlfh.codes import Codes
from dlfh.errors import InputError
from dlfh.hashing.auto import Auto
from dlfh.hashing.base import FitContext, HashFunction, HashLearner, SummedLearner
from dlfh.hashing.kernel import KernelHash, KernelLogistic, KernelRidge, RBFMap, random_bases
from dlfh.hashing.kernel_rows import KernelRows
from dlfh.hashing.linear import LinearRidge
from dlfh.hashing.scaling import SCALINGS, UNSCALED, Scaling
from dlfh.hashing.survey import Survey

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


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
        A linear, kernel ridge or kernel logistic regression, or "auto", which chooses among the first two.
    features : Blocks (n, d)
    targets : BlockTargets
    """
    check_gram_fits(modality, features.shape[1])
    n_jobs = context.workers.n_jobs if features.is_local else 1  # a cluster has a task for each of its threads
    n, seed = features.shape[0], context.seed
    look = functools.partial(Survey.of, features, modality=modality, n_jobs=n_jobs)
    if isinstance(learner, Auto):
        points = learner.points(n, seed)
        survey = look([points, random_bases(n, learner.max_bases, seed)], SCALINGS)
        learner = learner.choose(survey.take(points), *targets.take(points), n, modality, context)
        context.chosen[modality] = learner
    elif isinstance(learner, (KernelRidge, KernelLogistic)):
        if learner.bases != "random":
            raise InputError("by blocks, kernels have random training points as bases: bases='random'")
        scaling = learner.scaling if isinstance(learner, KernelRidge) else UNSCALED.kind
        survey = look([random_bases(n, learner.n_bases, seed)], [scaling])
    if isinstance(learner, KernelLogistic):
        return _fit_logistic(learner, survey.kernel(learner.n_bases, seed), features, targets, modality, context)
    own_map: Any
    if isinstance(learner, KernelRidge):
        own_map = survey.kernel(learner.n_bases, seed, bandwidth_factor=learner.bandwidth, scaling_kind=learner.scaling)
    elif isinstance(learner, LinearRidge):
        own_map = UNSCALED if learner.scaling == "standard" else Scaling(learner.scaling, np.zeros(0))
    else:
        raise InputError(
            f"by blocks, hash functions are linear, kernel ridge or kernel logistic, not {type(learner).__name__}"
        )
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


def _fit_logistic(
    learner: KernelLogistic,
    kernel: RBFMap,
    features: Blocks,
    targets: BlockTargets,
    modality: str,
    context: FitContext,
) -> KernelHash:
    """Return the function that `KernelLogistic.fit` would, to its tolerance."""
    points, n_bits = targets.points, targets.n_bits
    rows = KernelRows(kernel, features, points, targets.codes, n_bits, learner.memory, context.workers)
    weights, _, _ = solve_by_sums(
        rows.loss_sums,
        rows.gram(),
        n_bits,
        kernel.between_bases(),
        learner.penalty,
        LOGISTIC,
        tol=learner.tol,
        max_iter=learner.max_iter,
        on_done=context.bar.counter(f"bits: {modality}", n_bits),
    )
    return KernelHash(kernel, weights, np.zeros(n_bits), is_logistic=True)


class NumberedRows:
    """Let what is said of a row of a block be said by its number among all rows."""

    def __init__(self, start: int, block: Any, modality: str) -> None:
        self.start, self.block, self.modality = start, block, modality

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InputError):
            numbers = np.arange(self.start, self.start + self.block.shape[0])
            raise_if_not_finite(self.block, self.modality, numbers)


def codes_of_rows(codes: Codes, rows: Integers) -> Codes:
    """Return the codes of a block's points, from which of the distinct ones each has."""
    return codes[rows]
