"""Dask arrays by blocks: functions go to where blocks are, and results come back as a tree of sums.

On whatever Dask runs on: a cluster that the user is connected to, or this machine's threads. What a worker had that
died is computed again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._optional import require
from dlfh.blocks.base import ArrayBlocks, Blocks, Integers, Result
from dlfh.blocks.held import Held, HeldBlocks
from dlfh.errors import DLFHError, InputError

__all__ = ["DaskBlocks", "DaskHeld", "is_connected", "is_dask"]

#: Results that are merged by one task.
_FAN_IN = 8


def is_dask(value: Any) -> bool:
    """Tell a Dask array from anything else, without importing Dask."""
    return type(value).__module__.startswith("dask.array")


def is_connected() -> bool:
    """Tell whether this process is a client of a Dask cluster, without importing Dask."""
    distributed = sys.modules.get("distributed")
    try:
        return distributed is not None and distributed.default_client() is not None
    except ValueError:  # there is none
        return False


class DaskBlocks(Blocks):
    """A Dask array, dense or of blocks of scipy.sparse, or what is computed of one block by block.

    Attributes
    ----------
    pieces : list of Delayed
        The blocks.
    source : Blocks or None
        The files that they are read from.
    """

    is_here = False

    def __init__(
        self,
        pieces: list[Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        starts: Integers,
        called: str,
        is_sparse: bool = False,
        source: Blocks | None = None,
    ) -> None:
        self.pieces, self.shape, self.dtype, self.starts = pieces, shape, dtype, starts
        self.called, self.is_sparse, self.source = called, is_sparse, source

    @classmethod
    def reading(cls, source: Blocks) -> DaskBlocks:
        """Return blocks of files, which whoever works on one reads."""
        delayed = require("dask", "Dask arrays", "distributed").delayed
        read, shared = delayed(_read, pure=False), delayed(source, pure=False)
        pieces = [read(shared, number) for number in range(source.n_blocks)]
        return cls(pieces, source.shape, source.dtype, source.starts, source.called, source.is_sparse, source)

    def on_cluster(self) -> Blocks:
        return self

    def cut_like(self, other: Blocks) -> Blocks:
        return self if self.source is None else DaskBlocks.reading(self.source.cut_like(other))

    @classmethod
    def of(cls, array: Any, called: str) -> DaskBlocks:
        """Return a Dask array's blocks of rows."""
        if array.ndim not in (1, 2):
            raise InputError(f"{called} must have one or two dimensions, got {array.ndim}")
        if any(np.isnan(size) for size in array.chunks[0]):
            raise InputError(f"{called} has blocks of unknown length: call compute_chunk_sizes() on it first")
        if array.ndim == 2 and len(array.chunks[1]) > 1:
            array = array.rechunk({1: -1})
        if array.dtype.kind not in "biuf" or 0 in array.shape:
            raise InputError(f"{called} must hold numbers, got type {array.dtype} and shape {array.shape}")
        starts = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(np.int64)
        pieces = list(array.to_delayed().ravel())
        return cls(pieces, array.shape, array.dtype, starts, called, bool(sp.issparse(array._meta)))

    def _read(self, number: int) -> Any:
        return _compute(self.pieces[number])

    def map_reduce(
        self, function: Callable[..., Result], merge: Callable[[Result, Result], Result], *beside: Blocks
    ) -> Result:
        """Return ``function(first row, block, *blocks beside it)`` of every block, merged as a tree by the workers."""
        self.check_beside(*beside)
        delayed = require("dask", "Dask arrays", "distributed").delayed
        on_block = delayed(_on_block, pure=True)
        columns = [_pieces(other) for other in beside]
        tasks = [
            on_block(function, self.called, self.shape, int(start), int(stop), piece, *(own[i] for own in columns))
            for i, (start, stop, piece) in enumerate(zip(self.starts, self.starts[1:], self.pieces, strict=False))
            if start < stop
        ]
        return _compute(_as_tree(merge, tasks))

    def map(
        self, function: Callable[..., Any], n_columns: int | None, dtype: npt.DTypeLike, *beside: Blocks
    ) -> DaskBlocks:
        """Return ``function(block, *blocks beside it)`` of blocks, when they are asked for."""
        self.check_beside(*beside)
        apply = require("dask", "Dask arrays", "distributed").delayed(_called, pure=True)
        columns = [self.pieces, *(_pieces(other) for other in beside)]
        pieces = [apply(function, *own) for own in zip(*columns, strict=True)]
        shape = (self.shape[0],) if n_columns is None else (self.shape[0], n_columns)
        return DaskBlocks(pieces, shape, np.dtype(dtype), self.starts, self.called)

    def take(self, rows: Integers) -> Any:
        """Return some rows, in rising order."""
        delayed = require("dask", "Dask arrays", "distributed").delayed
        number = np.searchsorted(self.starts, rows, side="right") - 1
        parts = [
            delayed(_rows)(self.pieces[int(own)], rows[number == own] - self.starts[own]) for own in np.unique(number)
        ]
        found = _compute(*parts, unpack=False)
        return sp.csr_array(sp.vstack(found)) if self.is_sparse else np.concatenate(found)

    def hold(self, function: Callable[..., Any], *beside: Blocks) -> Held:
        """Return ``function(first row, block, *blocks beside it)`` of every block, in the memory of who computed it."""
        self.check_beside(*beside)
        columns = [self.pieces, *(_pieces(other) for other in beside)]
        bounds = zip(self.starts.tolist(), self.starts[1:].tolist(), *columns, strict=False)
        on_block = require("dask", "Dask arrays", "distributed").delayed(_on_block, pure=True)
        return DaskHeld([on_block(function, self.called, self.shape, *bound) for bound in bounds])

    def result(self) -> Any:
        """Return the Dask array."""
        array = require("dask.array", "Dask arrays", "distributed")
        lengths = np.diff(self.starts).tolist()
        parts = [
            array.from_delayed(piece, (length, *self.shape[1:]), self.dtype)
            for piece, length in zip(self.pieces, lengths, strict=True)
        ]
        return array.concatenate(parts)

    def deferred(self) -> Any:
        """Return the Dask array, too."""
        return self.result()


class DaskHeld(Held):
    """Values in the memory of a cluster's workers."""

    def __init__(self, values: list[Any]) -> None:
        with _cluster_errors():
            super().__init__(require("dask", "Dask arrays", "distributed").persist(*values))

    @classmethod
    def of(cls, values: Sequence[Any]) -> DaskHeld:
        """Return values of this process, sent to workers."""
        return cls([require("dask", "Dask arrays", "distributed").delayed(value, pure=False) for value in values])

    def results(self) -> list[Any]:
        return list(_compute(*self.values, unpack=False))

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any:
        return _compute(_as_tree(merge, self.values))

    def as_blocks(self, starts: Integers, n_columns: int, dtype: npt.DTypeLike, called: str) -> Blocks:
        return DaskBlocks(self.values, (int(starts[-1]), n_columns), np.dtype(dtype), starts, called)

    def map_reduce(self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *others: Held) -> Any:
        return _compute(_as_tree(merge, list(self._calls(function, others))))

    def share(self, value: Any) -> Held:
        return DaskHeld.of([value])

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return require("dask", "Dask arrays", "distributed").delayed(_called, pure=True)(function, *arguments)

    def _made(self, values: list[Any]) -> Held:
        return DaskHeld(values)


def _as_tree(merge: Callable[[Any, Any], Any], tasks: list[Any]) -> Any:
    """Return the task that has all results merged, a few by each task."""
    on_results = require("dask", "Dask arrays", "distributed").delayed(_merged, pure=True)
    while len(tasks) > 1:
        tasks = [on_results(merge, tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
    return tasks[0]


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _pieces(blocks: Blocks) -> list[Any]:
    """Return the blocks of what goes beside a Dask array: parts of what is in memory here, or who reads them there."""
    if isinstance(blocks, (ArrayBlocks, HeldBlocks)):
        return [blocks.read(number) for number in range(blocks.n_blocks)]
    return (blocks if isinstance(blocks, DaskBlocks) else DaskBlocks.reading(blocks)).pieces


def _on_block(
    function: Callable[..., Any], called: str, shape: tuple[int, ...], start: int, stop: int, block: Any, *beside: Any
) -> Any:
    if block.shape != (stop - start, *shape[1:]):
        expected = (stop - start, *shape[1:])
        raise InputError(f"{called}: the block from row {start} on has the shape {block.shape}, not {expected}")
    return function(start, block, *beside)


def _merged(merge: Callable[[Any, Any], Any], results: list[Any]) -> Any:
    total = results[0]
    for result in results[1:]:
        total = merge(total, result)
    return total


def _read(source: Blocks, number: int) -> Any:
    return source.read(number)


def _rows(block: Any, rows: Integers) -> Any:
    return block[rows]


def _compute(*tasks: Any, unpack: bool = True) -> Any:
    """Return results, wherever Dask computes them."""
    dask = require("dask", "Dask arrays", "distributed")
    with _cluster_errors():
        found = dask.compute(*tasks)
    return found[0] if unpack and len(found) == 1 else found


@contextmanager
def _cluster_errors() -> Iterator[None]:
    """Say in a sentence that a cluster has gone away; errors of the work itself pass."""
    try:
        yield
    except DLFHError:
        raise
    except Exception as error:
        module = type(error).__module__
        if isinstance(error, (OSError, TimeoutError)) or module.startswith(("distributed", "asyncio", "concurrent")):
            raise InputError(f"the Dask cluster went away, or could not do the work: {error!s:.200}") from None
        raise
