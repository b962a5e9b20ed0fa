"""DLFH and KDLFH on data that does not fit: labels counted, codes learned over label sets, functions from sums.

Codes are those of arrays in memory, bit for bit, however the data is cut: they follow from how often each label set is
there. Hash functions follow from sums, which are the same to rounding; logistic ones are the same to their tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._progress import Bar, progress
from dlfh._validation import check_features, check_random_state
from dlfh.blocks import ArrayBlocks, Blocks, as_blocks
from dlfh.codes import n_bytes
from dlfh.errors import InputError
from dlfh.hashing import FitContext, HashFunction, HashLearner
from dlfh.hashing.by_blocks import BlockTargets, codes_of_rows, encode_block, fit_by_blocks
from dlfh.methods.code_learning import MAX_SETS_HERE, CodeLearning

if TYPE_CHECKING:
    from dlfh.methods.dlfh import DLFH

__all__ = [
    "blocks_of",
    "check_blocks",
    "cut_alike",
    "encode_by_blocks",
    "hashed_by_blocks",
    "learn_by_blocks",
]

Integers = npt.NDArray[np.int64]


def blocks_of(modalities: Mapping[str, Any]) -> dict[str, Blocks] | None:
    """Return the modalities as blocks, if any of them is read so; what is in memory is cut as the others are."""
    found = {name: as_blocks(values, f"modality {name!r}") for name, values in modalities.items()}
    first = next((name for name, blocks in found.items() if blocks is not None), None)
    if first is None:
        return None
    leader = found[first]
    assert leader is not None
    blocks = {}
    for name, values in modalities.items():
        own = found[name]
        if own is None:
            matrix = check_features(values, name)
            if matrix.shape[0] != leader.shape[0]:
                raise InputError(
                    f"modality {name!r} has {matrix.shape[0]} rows but modality {first!r} has {leader.shape[0]}"
                )
            own = ArrayBlocks(matrix, leader.starts, f"modality {name!r}")
        if own.ndim != 2:
            raise InputError(f"modality {name!r} must be two-dimensional (points x features), got shape {own.shape}")
        if own.shape[0] != leader.shape[0]:
            raise InputError(f"modality {name!r} has {own.shape[0]} rows but modality {first!r} has {leader.shape[0]}")
        blocks[name] = own
    return blocks


def cut_alike(features: dict[str, Blocks]) -> dict[str, Blocks]:
    """Return features in blocks of the same rows: those of the one in most blocks that the others can be cut like.

    Where one of them is Dask's, all are.
    """
    if not all(own.is_here for own in features.values()):
        features = {name: own.on_cluster() for name, own in features.items()}
    for leader in sorted(features.values(), key=lambda own: -own.n_blocks):
        alike = {
            name: own if np.array_equal(own.starts, leader.starts) else own.cut_like(leader)
            for name, own in features.items()
        }
        if all(np.array_equal(own.starts, leader.starts) for own in alike.values()):
            return alike
    first, *others = features.values()
    first.check_beside(*others)
    return features


class LabelsInBlocks:
    """Labels of points in blocks: the distinct sets, and which one each point has.

    Attributes
    ----------
    sets : LabelSets or None
        Without points. None where they are too many for one process, and elsewhere.
    points : LabelSets or None
        With them, where labels are in memory.
    labels : Blocks or None
        Where they are not.
    """

    def __init__(self, labels: Any, n_points: int) -> None:
        self.labels = as_blocks(labels, "labels")
        self.points: LabelSets | None = None
        self.sets: LabelSets | None
        if self.labels is None:
            self.points = LabelSets.from_labels(labels)
            self.sets = self.points.without_points()
        else:
            limited = not self.labels.is_here and self.labels.ndim == 2
            merged = functools.partial(_merged, MAX_SETS_HERE if limited else None)
            self.sets = self.labels.map_reduce(_count, merged)
            if self.sets is not None and not len(self.sets.labels):
                raise InputError("labels are all empty: no point has any label, so nothing is similar")
        n_rows = self.labels.shape[0] if self.labels is not None else self.sets.n_points if self.sets else 0
        if n_rows != n_points:
            raise InputError(f"labels has {n_rows} rows but the modalities have {n_points}")

    def beside(self, features: Blocks) -> Blocks:
        """Return labels in blocks as some features have them."""
        assert self.labels is not None
        labels = self.labels.cut_like(features)
        features.check_beside(labels)
        return labels

    def rows_beside(self, features: Blocks) -> Blocks:
        """Return the number of each point's label set, in blocks as some features have them."""
        if self.points is not None:
            return ArrayBlocks(self.points.set_of_point, features.starts, "labels")
        assert self.sets is not None
        return self.beside(features).map(functools.partial(_numbers, self.sets), None, np.int64)

    def unit_rows_beside(self, features: Blocks) -> Blocks:
        """Return the points' label sets as sparse rows of length 1, in blocks as some features have them."""
        if self.points is not None:
            return ArrayBlocks(self.points.unit_rows_of_points(), features.starts, "labels")
        labels, sets = self.beside(features), self.sets
        names = None if sets is None else sets.names
        return labels.map(
            functools.partial(_unit_rows, names), labels.shape[1] if sets is None else sets.n_labels, np.float64
        )


def _count(_: int, labels: Any) -> LabelSets | None:
    return LabelSets.from_labels(labels, allow_empty=True).without_points()


def _merged(most: int | None, one: LabelSets | None, other: LabelSets | None) -> LabelSets | None:
    """Return the sets of two blocks together; None where they are too many, so that no task has them all."""
    if one is None or other is None:
        return None
    both = one.merged(other)
    return both if most is None or both.n_sets <= most else None


def _unit_rows(names: tuple[Any, ...] | None, labels: Any) -> Any:
    own = LabelSets.from_labels(labels, allow_empty=True)
    if names is not None:
        if not set(own.names or ()) <= set(names):
            raise InputError("labels have changed while they were read: a block has labels that were not counted")
        own = own.renumbered(names)
    return own.unit_rows_of_points()


def _numbers(sets: LabelSets, labels: Any) -> Integers:
    if not labels.shape[0]:
        return np.empty(0, np.int64)
    own = LabelSets.from_labels(labels, allow_empty=True)
    return sets.numbers_of(own)[own.set_of_point]


def learn_by_blocks(
    model: DLFH, features: dict[str, Blocks], labels: Any
) -> tuple[dict[str, HashFunction], dict[str, Any], dict[str, HashLearner]]:
    """Return hash functions, the points' codes, and what "auto" chose, for features and labels by blocks."""
    names = tuple(features)
    learners = model._learners(names)
    if model.init != "labels":
        raise InputError('by blocks, codes are learned over label sets: init="labels"')
    model._check_labels_given(labels)
    rng = check_random_state(model.random_state)
    n_points = features[names[0]].shape[0]
    known = LabelsInBlocks(labels, n_points)
    learning = CodeLearning(model, names)
    learning.check_sample_size(n_points)
    if known.sets is None:  # blocks of points have their codes, so that modalities must have the same
        features = cut_alike(features)
    with Workers(model.n_jobs) as workers, progress(model.verbose) as bar:
        learn = _targets_from_sets if known.sets is not None else _targets_from_parts
        targets, codes = learn(model, learning, known, features, rng, workers, bar)
        context = FitContext(workers, int(rng.integers(2**63)), bar, known.sets)
        functions = {
            name: fit_by_blocks(learners[name], features[name], targets[name], name, context)
            for name in bar.track(names, "hash functions")
        }
    return functions, codes, context.chosen


Learned = tuple[dict[str, BlockTargets], dict[str, Any]]


def _targets_from_sets(
    model: DLFH,
    learning: CodeLearning,
    known: LabelsInBlocks,
    features: dict[str, Blocks],
    rng: np.random.Generator,
    workers: Workers,
    bar: Bar,
) -> Learned:
    """Learn codes of label sets in this process; return targets, and the points' codes."""
    assert known.sets is not None
    rows_of = {name: known.rows_beside(blocks) for name, blocks in features.items()}
    learned = model._learn_codes(learning, learning.rows(known.sets), rng, workers, bar)
    targets, codes = {}, {}
    for index, (name, points) in enumerate(rows_of.items()):
        own = learned.codes_of_rows(index)
        targets[name] = BlockTargets(points, own, known.sets, int(model.n_bits))
        mapped = points.map(functools.partial(codes_of_rows, own), own.shape[1], np.uint8)
        codes[name] = mapped.result() if known.points is not None else mapped.deferred()
    return targets, codes


def _targets_from_parts(
    model: DLFH,
    learning: CodeLearning,
    known: LabelsInBlocks,
    features: dict[str, Blocks],
    rng: np.random.Generator,
    workers: Workers,
    bar: Bar,
) -> Learned:
    """Learn codes of label sets where these are, in parts; return targets, and the points' codes."""
    labels, *_ = (known.beside(blocks) for blocks in features.values())
    learned, by_block = learning.learn_in_parts(labels, rng, bar)
    model.objective_, model.flips_ = np.empty(0), np.array(learned.flips, np.int64)
    model.label_codes_ = None
    held, width = learned.codes_of_points(by_block), n_bytes(model.n_bits)
    points = [own.as_blocks(labels.starts, width, np.uint8, "codes") for own in held]
    by_name = {name: points[index if len(points) > 1 else 0] for index, name in enumerate(features)}
    targets = {name: BlockTargets(own, None, labels, int(model.n_bits)) for name, own in by_name.items()}
    return targets, {name: own.deferred() for name, own in by_name.items()}


def check_blocks(model: Any, modality: str, features: Blocks) -> None:
    """Raise InputError unless a model has the modality, and it has so many features."""
    model._check_modality(modality)
    if features.ndim != 2 or features.shape[1] != model.n_features_[modality]:
        raise InputError(
            f"modality {modality!r} has the shape {features.shape} but the model expects "
            f"{model.n_features_[modality]} features"
        )


def encode_by_blocks(model: Any, modality: str, features: Blocks, *, real: bool = False) -> Any:
    """Return codes, or the values whose signs they are, of blocks: an array, or a Dask array of one."""
    check_blocks(model, modality, features)
    return _encoded(model.hash_functions_[modality], modality, features, real=real).result()


def hashed_by_blocks(functions: Mapping[str, HashFunction], features: Mapping[str, Blocks]) -> dict[str, Any]:
    """Return the codes that hash functions give points in blocks, when they are asked for."""
    return {
        name: _encoded(function, name, features[name], real=False).deferred() for name, function in functions.items()
    }


def _encoded(function: HashFunction, modality: str, features: Blocks, *, real: bool) -> Blocks:
    width = function.n_bits if real else n_bytes(function.n_bits)
    on_block = functools.partial(encode_block, function, modality, real)
    return features.map(on_block, width, np.float32 if real else np.uint8)
