"""Kernel values of points, kept between the iterations of a kernel logistic regression."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._mathematics.classifiers import LOGISTIC, loss_sums
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._validation import Features
from dlfh.blocks.base import Blocks, BlockValues
from dlfh.hashing.feature_maps import CHUNK_ROWS, RBFMap

#: Kernel values and target bits, -1 and +1, of the same points.
Rows = tuple[Singles, npt.NDArray[np.int8]]


def kernel_chunks(kernel: RBFMap, features: Features, memory: int) -> Callable[[], Iterator[tuple[int, int, Singles]]]:
    """Return a function that yields the bounds and kernel values of chunks of points in memory.

    The first chunks, up to ``memory`` bytes, are kept; the others are computed again for each pass.
    """
    n = features.shape[0]
    kept: list[Singles] = []
    n_kept = min(n, memory // (4 * len(kernel.bases)))

    def chunks() -> Iterator[tuple[int, int, Singles]]:
        for number, start in enumerate(range(0, n, CHUNK_ROWS)):
            stop = min(start + CHUNK_ROWS, n)
            values = kept[number] if number < len(kept) else kernel(features[start:stop], np.float32)
            if number >= len(kept) and stop <= n_kept:
                kept.append(values)
            yield start, stop, values

    return chunks


class KernelRows:
    """Kernel values and target bits of points in blocks, and sums over them.

    A cluster's workers keep all of them. This process keeps whole blocks of them, up to ``memory`` bytes; the other
    blocks are read and computed again for each sum.
    """

    def __init__(self, kernel: RBFMap, features: Blocks, targets: BlockTargets, memory: int, n_jobs: int) -> None:
        features.check_aligned(targets.points)
        self.features, self.points, self.n_jobs = features, targets.points, n_jobs
        self.chunks = functools.partial(_chunks, kernel, targets.of_block)
        keep = functools.partial(_all_rows, self.chunks, len(kernel.bases), targets.n_bits)
        self.recomputed: list[int] = []
        if not features.is_local:
            self.kept = features.persist(keep, targets.points)
            return
        n_rows = memory // (4 * len(kernel.bases) + targets.n_bits)
        numbers = np.flatnonzero(np.diff(features.starts)).tolist()
        fitting = [number for number in numbers if features.starts[number + 1] <= n_rows]
        self.recomputed = numbers[len(fitting) :]
        read = features.read_ahead(targets.points, numbers=fitting)
        self.kept = BlockValues([keep(0, *blocks) for _, blocks in read])

    def gram(self) -> Floats:
        return self._sum(_gram)

    def loss_sums(self, weights: Floats, columns: Integers) -> Floats:
        return self._sum(functools.partial(_loss_sums, self.n_jobs), (weights, columns))

    def _sum(self, function: Callable[..., Floats], *arguments: Any) -> Floats:
        """Return the sum of a function of all rows; its arguments are broadcast."""
        read = self.features.read_ahead(self.points, numbers=self.recomputed)
        recomputed = (function(self.chunks(*blocks), *arguments) for _, blocks in read)
        kept = []
        if len(self.kept):
            sent = [self.kept.broadcast(value) for value in arguments]
            kept = [self.kept.map_reduce(functools.partial(_of_kept, function), operator.add, *sent)]
        return functools.reduce(operator.add, itertools.chain(kept, recomputed))


def _chunks(kernel: RBFMap, targets_of: Callable[[Array], Targets], block: Any, points: Array) -> Iterator[Rows]:
    targets = targets_of(points)
    for start in range(0, block.shape[0], CHUNK_ROWS):
        values = kernel(block[start : start + CHUNK_ROWS], np.float32)
        yield values, targets.points(start, start + CHUNK_ROWS)


def _all_rows(
    chunks: Callable[..., Iterator[Rows]], n_bases: int, n_bits: int, _: int, block: Any, points: Array
) -> Rows:
    n = block.shape[0]
    values, bits = np.empty((n, n_bases), np.float32), np.empty((n, n_bits), np.int8)
    for number, chunk in enumerate(chunks(block, points)):
        rows = slice(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)
        values[rows], bits[rows] = chunk
    return values, bits


def _of_kept(function: Callable[..., Floats], rows: Rows, *arguments: Any) -> Floats:
    values, bits = rows
    # At least one chunk, so that the sum of an empty block has the right shape.
    starts = range(0, max(len(values), 1), CHUNK_ROWS)
    chunks = ((values[start : start + CHUNK_ROWS], bits[start : start + CHUNK_ROWS]) for start in starts)
    return function(chunks, *arguments)


def _gram(rows: Iterator[Rows]) -> Floats:
    return functools.reduce(operator.add, ((values.T @ values).astype(np.float64) for values, _ in rows))


def _loss_sums(n_jobs: int, rows: Iterator[Rows], weights_and_columns: tuple[Floats, Integers]) -> Floats:
    with Workers(n_jobs) as workers:
        return loss_sums(LOGISTIC, rows, *weights_and_columns, workers)
