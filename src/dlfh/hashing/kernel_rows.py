"""Kernel values and target bits of points in blocks, kept where the blocks are: what is summed over again and again."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.classifiers import LOGISTIC
from dlfh._mathematics.summed_classifiers import loss_sums
from dlfh._parallel import Workers
from dlfh.blocks import Blocks
from dlfh.blocks.values import BlockValues
from dlfh.codes import Codes, unpack
from dlfh.hashing.kernel import CHUNK_ROWS, RBFMap

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
#: Kernel values in single precision and bits as -1 and +1, of the same points.
Rows = tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]


class KernelRows:
    """Kernel values and bits of all points, by blocks.

    On a cluster, workers keep them. Here whole blocks are kept, up to ``memory`` bytes; those of others are read and
    computed again for each sum.

    Parameters
    ----------
    kernel : RBFMap
    features : Blocks (n, d)
    points : Blocks
        Which of the codes each point has; or, where ``codes`` is None, the points' packed codes.
    codes : ndarray of uint8, or None
    n_bits : int
    memory : int
    workers : Workers
    """

    def __init__(
        self,
        kernel: RBFMap,
        features: Blocks,
        points: Blocks,
        codes: Codes | None,
        n_bits: int,
        memory: int,
        workers: Workers,
    ) -> None:
        features.check_aligned(points)
        self.features, self.points = features, points
        self.chunks = functools.partial(_chunks, kernel, codes, n_bits)
        keep = functools.partial(_all_rows, self.chunks, len(kernel.bases), n_bits)
        self.again: list[int] = []
        if not features.is_local:
            self.n_jobs = 1  # a cluster has a task for each of its threads
            self.kept = features.persist(keep, points)
            return
        self.n_jobs = workers.n_jobs
        n_rows = memory // (4 * len(kernel.bases) + n_bits)
        numbers = np.flatnonzero(np.diff(features.starts)).tolist()
        fitting = [number for number in numbers if features.starts[number + 1] <= n_rows]
        self.again = numbers[len(fitting) :]
        self.kept = BlockValues([keep(0, *blocks) for _, blocks in features.read_ahead(points, numbers=fitting)])

    def gram(self) -> Floats:
        """Return K'K of the kernel values K, summed as a tree."""
        return self._sum(_gram)

    def loss_sums(self, weights: Floats, columns: Integers) -> Floats:
        """Return the losses of some bits and their gradients, as `loss_sums` does, summed as a tree."""
        return self._sum(functools.partial(_loss_sums, self.n_jobs), (weights, columns))

    def _sum(self, function: Callable[..., Floats], *shared: Any) -> Floats:
        """Return the sum of a function of all rows; what is shared goes to all of them."""
        read = self.features.read_ahead(self.points, numbers=self.again)
        again = (function(self.chunks(*blocks), *shared) for _, blocks in read)
        kept = []
        if len(self.kept):
            sent = [self.kept.broadcast(value) for value in shared]
            kept = [self.kept.map_reduce(functools.partial(_of_kept, function), operator.add, *sent)]
        return functools.reduce(operator.add, itertools.chain(kept, again))


def _chunks(kernel: RBFMap, codes: Codes | None, n_bits: int, block: Any, points: npt.NDArray[Any]) -> Iterator[Rows]:
    """Yield a block's kernel values and bits, some rows at a time."""
    for start in range(0, block.shape[0], CHUNK_ROWS):
        own = points[start : start + CHUNK_ROWS]
        bits = unpack(own if codes is None else codes[own], n_bits)
        yield kernel(block[start : start + CHUNK_ROWS], np.float32), bits


def _all_rows(
    chunks: Callable[..., Iterator[Rows]], n_bases: int, n_bits: int, _: int, block: Any, points: npt.NDArray[Any]
) -> Rows:
    n = block.shape[0]
    values, bits = np.empty((n, n_bases), np.float32), np.empty((n, n_bits), np.int8)
    for number, own in enumerate(chunks(block, points)):
        rows = slice(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)
        values[rows], bits[rows] = own
    return values, bits


def _of_kept(function: Callable[..., Floats], rows: Rows, *shared: Any) -> Floats:
    values, bits = rows
    cut = (slice(start, start + CHUNK_ROWS) for start in range(0, len(values), CHUNK_ROWS))
    # At least one chunk, so that an empty block has a sum of the right shape.
    return function(((values[own], bits[own]) for own in (*cut,) or (slice(0),)), *shared)


def _gram(rows: Iterator[Rows]) -> Floats:
    return functools.reduce(operator.add, ((values.T @ values).astype(np.float64) for values, _ in rows))


def _loss_sums(n_jobs: int, rows: Iterator[Rows], shared: tuple[Floats, Integers]) -> Floats:
    with Workers(n_jobs) as workers:
        return loss_sums(LOGISTIC, rows, *shared, workers)
