"""Targets of a regression: a code for each point, stored as distinct codes and the row of each point among them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers
from dlfh._labels import LabelSets
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.codes import n_bytes, unpack

#: Labels per label of a point up to which a dense product takes less time than a sparse one.
_DENSE_LABELS = 16


@dataclass(frozen=True)
class Targets:
    """The codes that a hash function predicts: distinct codes, and the row of each point among them."""

    codes: Array
    row_of_point: Integers
    n_bits: int

    def values(self, rows: slice | Integers) -> Array:
        """Return distinct codes as -1 and +1."""
        return unpack(self.codes[rows], self.n_bits)

    def rows(self, start: int, stop: int) -> Floats:
        """Return the values of distinct codes in double precision."""
        return np.asarray(self.values(slice(start, stop)), np.float64)

    def points(self, start: int, stop: int) -> Array:
        """Return the values of points."""
        return self.values(self.row_of_point[start:stop])

    def cross(self, rows: Array, start: int, stop: int) -> tuple[Array, Floats]:
        """Return X'U of the features and values of points, in the precision of the features, and the values' mean."""
        values = self.points(start, stop)
        return rows.T @ values.astype(rows.dtype), values.mean(axis=0, dtype=np.float64)

    def mean(self) -> Floats:
        """Return the mean value of each bit over the points."""
        counts = np.bincount(self.row_of_point, minlength=len(self.codes)).astype(np.float64)
        total = np.zeros(self.n_bits)
        for start in range(0, len(self.codes), 4096):
            total += counts[start : start + 4096] @ self.rows(start, start + 4096)
        return total / counts.sum()


@dataclass(frozen=True)
class RealTargets(Targets):
    """Real values instead of codes, for regressions: ``codes`` (rows, n_bits) holds floats."""

    def values(self, rows: slice | Integers) -> Array:
        return self.codes[rows]


@dataclass(frozen=True)
class LabelledTargets(Targets):
    """Codes and labels, as 0 and 1, side by side: one regression predicts both.

    labels (rows, n_labels): Indicator matrix of the labels of each distinct code.
    n_bits: Number of targets: bits, then labels.
    """

    labels: sp.csr_array

    def values(self, rows: slice | Integers) -> Array:
        labels = self.labels[rows].toarray().astype(np.int8)
        n_code_bits = self.n_bits - labels.shape[1]
        return np.hstack([unpack(self.codes[rows], n_code_bits), labels]) if n_code_bits else labels

    def cross(self, rows: Array, start: int, stop: int) -> tuple[Array, Floats]:
        labels = self.labels[self.row_of_point[start:stop]].astype(rows.dtype)
        if labels.shape[0] * labels.shape[1] <= _DENSE_LABELS * labels.nnz:
            return super().cross(rows, start, stop)
        # Points have few of many labels: a sparse product.
        products, mean = (labels.T.tocsr() @ rows).T, np.asarray(labels.mean(axis=0, dtype=np.float64)).ravel()
        n_code_bits = self.n_bits - labels.shape[1]
        if not n_code_bits:
            return products, mean
        codes = Targets(self.codes, self.row_of_point, n_code_bits).cross(rows, start, stop)
        return np.hstack([codes[0], products]), np.concatenate([codes[1], mean])


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
        kept, n_targets = self.distinct.codes[:, : n_bytes(n_bits)], n_bits + self.labels.n_labels
        return replace(self, n_bits=n_targets, distinct=LabelledTargets(kept, np.empty(0, np.int64), n_targets, rows))

    @property
    def whole(self) -> Targets:
        """The targets of points in memory."""
        return self.of_block(self.points.whole)

    @property
    def of_block(self) -> Callable[[Array], Targets]:
        """A function that returns a block's targets from its part of ``points``; it has no reference to the blocks."""
        distinct = None if self.distinct is None else replace(self.distinct, row_of_point=np.empty(0, np.int64))
        return functools.partial(_of_block, distinct, self.n_bits)

    def take(self, points: Integers) -> tuple[Targets, LabelSets]:
        """Return the targets and labels of points by number, which must be ascending."""
        found = self.points.take(points)
        if isinstance(self.labels, Blocks):
            return self.of_block(found), LabelSets.from_labels(self.labels.take(points), allow_empty=True)
        assert self.labels is not None
        if len(self.labels.set_of_point):
            return self.of_block(found), self.labels.take(points)
        return self.of_block(found), replace(self.labels, set_of_point=found).take(np.arange(len(found)))


def _of_block(distinct: Targets | None, n_bits: int, points: Array) -> Targets:
    if distinct is None:
        return Targets(points, np.arange(len(points)), n_bits)
    return replace(distinct, row_of_point=points)
