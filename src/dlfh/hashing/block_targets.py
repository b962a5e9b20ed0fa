"""Target codes of points in blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dlfh._arrays import Array, Integers
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import LabelledTargets, Targets
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.codes import n_bytes


@dataclass(frozen=True)
class BlockTargets:
    """The codes that a hash function predicts, in blocks of points, and the points' labels.

    points: The row of each point among the distinct codes; or, without ``distinct``, the points' packed codes.
    distinct: The distinct codes; its points are ignored.
    labels: The points' labels; or, without points, label sets in the order of the distinct codes.
    """

    points: Blocks
    n_bits: int
    distinct: Targets | None = None
    labels: LabelSets | Blocks | None = None

    @classmethod
    def in_memory(cls, targets: Targets, labels: LabelSets | None = None) -> BlockTargets:
        """Return targets in memory as one block."""
        return cls(ArrayBlocks(targets.row_of_point, None, "targets"), targets.n_bits, targets, labels)

    def with_labels(self, *, codes: bool = True) -> BlockTargets | None:
        """Return codes and labels side by side as targets, or labels alone; None if no label sets are known."""
        if self.distinct is None or not isinstance(self.labels, LabelSets):
            return None
        rows = self.labels.rows()
        if len(self.labels.set_of_point):
            set_of_row = np.zeros(len(self.distinct.codes), np.int64)
            set_of_row[np.asarray(self.points)] = self.labels.set_of_point
            rows = rows[set_of_row]
        n_bits = self.n_bits if codes else 0
        distinct = LabelledTargets(
            self.distinct.codes[:, : n_bytes(n_bits)], np.empty(0, np.int64), n_bits + self.labels.n_labels, rows
        )
        return replace(self, n_bits=distinct.n_bits, distinct=distinct)

    @property
    def whole(self) -> Targets:
        """The targets of points in memory."""
        return self.of_block(self.points.whole)

    @property
    def of_block(self) -> Callable[[Array], Targets]:
        """A function that returns a block's targets from its part of ``points``. It does not hold the blocks."""
        distinct = None if self.distinct is None else replace(self.distinct, row_of_point=np.empty(0, np.int64))
        return functools.partial(_of_block, distinct, self.n_bits)

    def take(self, points: Integers) -> tuple[Targets, LabelSets]:
        """Return the targets and labels of points by number, which must be ascending."""
        found = self.points.take(points)
        if isinstance(self.labels, Blocks):
            labels = LabelSets.from_labels(self.labels.take(points), allow_empty=True)
        else:
            assert self.labels is not None
            has_points = len(self.labels.set_of_point) > 0
            sets = self.labels if has_points else replace(self.labels, set_of_point=found)
            labels = sets.take(points if has_points else np.arange(len(found)))
        return self.of_block(found), labels


def _of_block(distinct: Targets | None, n_bits: int, points: Array) -> Targets:
    if distinct is None:
        return Targets(points, np.arange(len(points)), n_bits)
    return replace(distinct, row_of_point=points)
