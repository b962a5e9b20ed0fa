"""DLFH and KDLFH on data that does not fit: labels counted, codes learned over label sets, functions from sums.

Codes are those of arrays in memory, bit for bit, however the data is cut: they follow from how often each label set is
there. Hash functions follow from sums, which are the same to rounding; logistic ones are the same to their tolerance.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh._parallel import Workers
from dlfh._progress import Bar, progress
from dlfh._validation import check_random_state
from dlfh.blocks import Blocks
from dlfh.blocks.modalities import align
from dlfh.codes import n_bytes
from dlfh.errors import InputError
from dlfh.hashing import FitContext, HashFunction, HashLearner
from dlfh.hashing.by_blocks import BlockTargets, codes_of_rows, fit_by_blocks
from dlfh.methods.block_labels import BlockLabels
from dlfh.methods.code_learning import CodeLearning

if TYPE_CHECKING:
    from dlfh.methods.dlfh import DLFH

Integers = npt.NDArray[np.int64]


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
    known = BlockLabels(labels, features)
    learning = CodeLearning(model, names)
    learning.check_sample_size(features[names[0]].shape[0])
    if known.sets is None:  # codes are by block of points, so all modalities need the same blocks
        features = align(features)
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
    known: BlockLabels,
    features: dict[str, Blocks],
    rng: np.random.Generator,
    workers: Workers,
    bar: Bar,
) -> Learned:
    """Learn codes of label sets in this process; return targets, and the points' codes."""
    assert known.sets is not None
    rows_of = {name: known.set_numbers(blocks) for name, blocks in features.items()}
    learned = model._learn_codes(learning, learning.rows(known.sets.without_points()), rng, workers, bar)
    targets, codes = {}, {}
    for index, (name, points) in enumerate(rows_of.items()):
        own = learned.codes_of_rows(index)
        targets[name] = BlockTargets(points, own, known.sets.without_points(), int(model.n_bits))
        mapped = points.map(functools.partial(codes_of_rows, own), own.shape[1], np.uint8)
        codes[name] = mapped.result() if known.labels is None else mapped.lazy_result()
    return targets, codes


def _targets_from_parts(
    model: DLFH,
    learning: CodeLearning,
    known: BlockLabels,
    features: dict[str, Blocks],
    rng: np.random.Generator,
    workers: Workers,
    bar: Bar,
) -> Learned:
    """Learn codes of label sets where these are, in parts; return targets, and the points' codes."""
    labels, *_ = (known.aligned_with(blocks) for blocks in features.values())
    learned, by_block = learning.learn_in_parts(labels, rng, bar)
    model.objective_, model.flips_ = np.empty(0), np.array(learned.flips, np.int64)
    model.label_codes_ = None
    held, width = learned.codes_of_points(by_block), n_bytes(model.n_bits)
    points = [own.as_blocks(labels.starts, width, np.uint8, "codes") for own in held]
    by_name = {name: points[index if len(points) > 1 else 0] for index, name in enumerate(features)}
    targets = {name: BlockTargets(own, None, labels, int(model.n_bits)) for name, own in by_name.items()}
    return targets, {name: own.lazy_result() for name, own in by_name.items()}
