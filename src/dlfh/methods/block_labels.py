"""Labels of points in blocks: the distinct label sets, and the set of each point."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dlfh._arrays import Integers
from dlfh._labels import LabelSets
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import as_blocks
from dlfh.errors import InputError

MAX_SETS_HERE = 1 << 17  #: Maximum number of label sets gathered from a cluster into this process: about ten megabytes.


class BlockLabels:
    """The labels of points whose features are in blocks.

    sets: The distinct label sets, with ``set_of_point`` if labels are in memory; None if a cluster has too many sets.
    labels: The labels, if they are not in memory.
    """

    def __init__(self, labels: Any, features: Mapping[str, Blocks]) -> None:
        self.labels = as_blocks(labels, "labels")
        self.sets: LabelSets | None
        if self.labels is None:
            self.sets = LabelSets.from_labels(labels)
            n_rows = self.sets.n_points
        else:
            limit = MAX_SETS_HERE if not self.labels.is_local and self.labels.ndim == 2 else None
            self.sets = self.labels.map_reduce(_count, functools.partial(_merge, limit))
            n_rows = self.labels.shape[0]
            if self.sets is not None and not len(self.sets.labels):
                raise InputError("labels are all empty: no point has a label, so no two points are similar")
        name, blocks = next(iter(features.items()))
        if n_rows != blocks.shape[0]:
            raise InputError(f"labels has {n_rows} rows but modality {name!r} has {blocks.shape[0]}")

    def aligned_with(self, features: Blocks) -> Blocks:
        """Return labels that are not in memory, in the same blocks as the features."""
        assert self.labels is not None
        labels = self.labels.split_like(features)
        features.check_aligned(labels)
        return labels

    def rows(self, features: Blocks, row_of_point: Integers) -> Blocks:
        """Return, in the features' blocks, ``row_of_point`` if labels are in memory, or else each point's label set."""
        assert self.sets is not None
        if self.labels is None:
            return ArrayBlocks(row_of_point, features.starts, "labels")
        return self.aligned_with(features).map(functools.partial(_set_numbers, self.sets), None, np.int64)

    def unit_rows(self, features: Blocks) -> Blocks:
        """Return the points' labels as sparse rows of length 1, in the same blocks as the features."""
        if self.labels is None:
            assert self.sets is not None
            return ArrayBlocks(self.sets.unit_rows_of_points(), features.starts, "labels")
        labels = self.aligned_with(features)
        names, n_labels = (None, labels.shape[1]) if self.sets is None else (self.sets.names, self.sets.n_labels)
        return labels.map(functools.partial(_unit_rows, names), n_labels, np.float64)


def _count(_: int, labels: Any) -> LabelSets | None:
    return LabelSets.from_labels(labels, allow_empty=True).without_points()


def _merge(limit: int | None, one: LabelSets | None, other: LabelSets | None) -> LabelSets | None:
    """Merge the label sets of two blocks; return None if they exceed the limit, so that no task holds them all."""
    if one is None or other is None:
        return None
    both, _ = LabelSets.merge(one.aligned_with(other, name="one block of labels", other_name="another"))
    return both if limit is None or both.n_sets <= limit else None


def _unit_rows(names: tuple[Any, ...] | None, labels: Any) -> Any:
    block = LabelSets.from_labels(labels, allow_empty=True)
    if names is not None:
        if not set(block.names or ()) <= set(names):
            raise InputError("labels changed during reading: a block has new labels")
        block = block.renumbered(names)
    return block.unit_rows_of_points()


def _set_numbers(sets: LabelSets, labels: Any) -> Integers:
    if not labels.shape[0]:
        return np.empty(0, np.int64)
    block = LabelSets.from_labels(labels, allow_empty=True)
    return sets.numbers_of(block)[block.set_of_point]
