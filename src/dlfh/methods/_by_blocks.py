"""DLFH on data that does not fit: labels counted, codes learned over label sets, functions from sums, all by blocks.

Codes are those of arrays in memory, bit for bit, however the data is cut: they follow from how often each label set is
there. Hash functions follow from sums, which are the same to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._progress import progress
from dlfh._validation import check_features, check_random_state
from dlfh.blocks import ArrayBlocks, Blocks, as_blocks
from dlfh.codes import n_bytes
from dlfh.errors import InputError
from dlfh.factorization.label_rows import LabelRows
from dlfh.hashing import FitContext
from dlfh.hashing._by_blocks import BlockTargets, codes_of_rows, encode_block, fit_by_blocks

if TYPE_CHECKING:
    from dlfh.methods._dlfh import DLFH

__all__ = ["blocks_of", "encode_by_blocks", "fit_dlfh_by_blocks"]

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


class LabelsInBlocks:
    """Labels of points in blocks: the distinct sets, and which one each point has.

    Attributes
    ----------
    sets : LabelSets
        Without points.
    points : LabelSets or None
        With them, where labels are in memory.
    labels : Blocks or None
        Where they are not.
    """

    def __init__(self, labels: Any, n_points: int) -> None:
        self.labels = as_blocks(labels, "labels")
        self.points: LabelSets | None = None
        if self.labels is None:
            self.points = LabelSets.from_labels(labels)
            self.sets = self.points.without_points()
        else:
            self.sets = self.labels.map_reduce(_count, LabelSets.merged)
            if not len(self.sets.labels):
                raise InputError("labels are all empty: no point has any label, so nothing is similar")
        if self.sets.n_points != n_points:
            raise InputError(f"labels has {self.sets.n_points} rows but the modalities have {n_points}")

    def rows_beside(self, features: Blocks) -> Blocks:
        """Return the number of each point's label set, in blocks as some features have them."""
        if self.points is not None:
            return ArrayBlocks(self.points.set_of_point, features.starts, "labels")
        assert self.labels is not None
        labels = self.labels.cut_like(features)
        features.check_beside(labels)
        return labels.map(functools.partial(_numbers, self.sets), None, np.int64)


def _count(_: int, labels: Any) -> LabelSets:
    return LabelSets.from_labels(labels, allow_empty=True).without_points()


def _numbers(sets: LabelSets, labels: Any) -> Integers:
    if not labels.shape[0]:
        return np.empty(0, np.int64)
    own = LabelSets.from_labels(labels, allow_empty=True)
    return sets.numbers_of(own)[own.set_of_point]


def fit_dlfh_by_blocks(model: DLFH, features: dict[str, Blocks], labels: Any) -> None:
    """Fit a model to features and labels that are read by blocks."""
    names = tuple(features)
    learners = model._learners(names)
    if model.init != "labels":
        raise InputError('by blocks, codes are learned over label sets: init="labels"')
    if model.keep_sums:
        raise InputError("keep_sums is for arrays in memory")
    if labels is None:
        raise InputError(f"{type(model).__name__} learns from labels: pass labels to fit")
    rng = check_random_state(model.random_state)
    known = LabelsInBlocks(labels, features[names[0]].shape[0])
    rows_of = {name: known.rows_beside(blocks) for name, blocks in features.items()}
    model._check_sample_size(known.sets.n_points)
    rows = LabelRows.of_label_sets(known.sets, pair_weights=model._weights_of_pairs(names))
    with Workers(model.n_jobs) as workers, progress(model.verbose) as bar:
        learned = model._learn_codes(rows, len(names), rng, workers, bar)
        context = FitContext(workers, int(rng.integers(2**63)), bar, known.sets)
        functions, codes = {}, {}
        for index, name in enumerate(bar.track(names, "hash functions")):
            own = learned.codes_of_rows(index)
            targets = BlockTargets(own, rows_of[name], int(model.n_bits))
            functions[name] = fit_by_blocks(learners[name], features[name], targets, known.sets, name, context)
            mapped = rows_of[name].map(functools.partial(codes_of_rows, own), own.shape[1], np.uint8)
            codes[name] = mapped.result() if known.points is not None else _lazily(mapped)
    model.hash_functions_, model.codes_, model.chosen_, model.sums_ = functions, codes, context.chosen, {}


def _lazily(blocks: Blocks) -> Any:
    """Return codes where the labels are: a Dask array, or blocks of a file's."""
    from dlfh.blocks._dask import DaskBlocks

    return blocks.result() if isinstance(blocks, DaskBlocks) else blocks


def encode_by_blocks(model: Any, modality: str, features: Blocks, *, real: bool = False) -> Any:
    """Return codes, or the values whose signs they are, of blocks: an array, or a Dask array of one."""
    function = model.hash_functions_[modality]
    if features.ndim != 2 or features.shape[1] != model.n_features_[modality]:
        raise InputError(
            f"modality {modality!r} has the shape {features.shape} but the model expects "
            f"{model.n_features_[modality]} features"
        )
    width = int(model.n_bits) if real else n_bytes(model.n_bits)
    on_block = functools.partial(encode_block, function, modality, real)
    return features.map(on_block, width, np.float32 if real else np.uint8).result()
