"""Dask arrays in blocks: functions are sent to the blocks, and their results are merged as a tree.

The work runs wherever Dask runs: on the connected cluster, or in threads on this machine. Results lost with a failed
worker are computed again.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Integers
from dlfh._imports import require
from dlfh.blocks.base import ArrayBlocks, Blocks, BlockValues, Result, ValueBlocks
from dlfh.errors import DLFHError, InputError

LOCAL = "local"  #: The address that starts a cluster of processes on this machine.
_TIMEOUT = 20  #: Timeout for connecting to a cluster, in seconds.
_FAN_IN = 8  #: Maximum number of results that one task merges.


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array, without importing Dask."""
    return type(value).__module__.startswith("dask.array")


def is_connected() -> bool:
    """Return whether this process is a client of a Dask cluster, without importing Dask."""
    distributed = sys.modules.get("distributed")
    try:
        return distributed is not None and distributed.default_client() is not None
    except ValueError:  # no client
        return False


def _dask() -> Any:
    return require("dask", "Dask arrays", "distributed")


class DaskBlocks(Blocks):
    """A Dask array, dense or of scipy.sparse blocks, or a result computed from one block by block.

    pieces: The blocks, as Dask's delayed objects.
    source: The files that the blocks are read from, if any.
    """

    is_local = False

    def __init__(
        self,
        pieces: list[Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        starts: Integers,
        name: str,
        is_sparse: bool = False,
        source: Blocks | None = None,
    ) -> None:
        self.pieces, self.shape, self.dtype, self.starts = pieces, shape, dtype, starts
        self.name, self.is_sparse, self.source = name, is_sparse, source

    @classmethod
    def reading(cls, source: Blocks) -> DaskBlocks:
        """Return blocks of files; each is read by the worker that processes it."""
        delayed = _dask().delayed
        read, shared = delayed(Blocks.read, pure=False), delayed(source, pure=False)
        pieces = [read(shared, number) for number in range(source.n_blocks)]
        return cls(pieces, source.shape, source.dtype, source.starts, source.name, source.is_sparse, source)

    @classmethod
    def of(cls, array: Any, name: str) -> DaskBlocks:
        """Return a Dask array's blocks of rows."""
        if array.ndim not in (1, 2):
            raise InputError(f"{name} must have one or two dimensions, got {array.ndim}")
        if any(np.isnan(size) for size in array.chunks[0]):
            raise InputError(f"{name} has blocks of unknown length: call compute_chunk_sizes() on it first")
        if array.ndim == 2 and len(array.chunks[1]) > 1:
            array = array.rechunk({1: -1})
        if array.dtype.kind not in "biuf" or 0 in array.shape:
            raise InputError(f"{name} must hold numbers, got type {array.dtype} and shape {array.shape}")
        starts = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(np.int64)
        pieces = list(array.to_delayed().ravel())
        return cls(pieces, array.shape, array.dtype, starts, name, bool(sp.issparse(array._meta)))

    def on_cluster(self) -> Blocks:
        return self

    def split_like(self, other: Blocks) -> Blocks:
        return self if self.source is None else DaskBlocks.reading(self.source.split_like(other))

    def _read(self, number: int) -> Any:
        return _compute([self.pieces[number]])[0]

    def map_reduce(
        self, function: Callable[..., Result], merge: Callable[[Result, Result], Result], *others: Blocks
    ) -> Result:
        tasks = self._tasks(function, others)
        return _merged(merge, [tasks[number] for number in np.flatnonzero(np.diff(self.starts))])

    def map(self, function: Callable[..., Any], n_columns: int | None, dtype: npt.DTypeLike, *others: Blocks) -> Blocks:
        self.check_aligned(*others)
        apply = _dask().delayed(_apply, pure=True)
        columns = [self.pieces, *(_pieces(other) for other in others)]
        pieces = [apply(function, *blocks) for blocks in zip(*columns, strict=True)]
        shape = (self.shape[0],) if n_columns is None else (self.shape[0], n_columns)
        return DaskBlocks(pieces, shape, np.dtype(dtype), self.starts, self.name)

    def _take(self, parts: list[tuple[int, Integers]]) -> Sequence[Any]:
        take = _dask().delayed(operator.getitem)
        return _compute([take(self.pieces[number], rows) for number, rows in parts])

    def persist(self, function: Callable[..., Any], *others: Blocks) -> BlockValues:
        return DaskValues(self._tasks(function, others))

    def _tasks(self, function: Callable[..., Any], others: Sequence[Blocks]) -> list[Any]:
        """Return a task per block that checks its shape and calls ``function(first row, block, *blocks of others)``."""
        self.check_aligned(*others)
        columns = [self.pieces, *(_pieces(other) for other in others)]
        bounds = zip(self.starts.tolist(), self.starts[1:].tolist(), *columns, strict=False)
        on_block = _dask().delayed(_on_block, pure=True)
        return [on_block(function, self.name, self.shape, *bound) for bound in bounds]

    def result(self) -> Any:
        array = require("dask.array", "Dask arrays", "distributed")
        lengths = np.diff(self.starts).tolist()
        parts = [
            array.from_delayed(piece, (length, *self.shape[1:]), self.dtype)
            for piece, length in zip(self.pieces, lengths, strict=True)
        ]
        return array.concatenate(parts)

    def lazy_result(self) -> Any:
        return self.result()


class DaskValues(BlockValues):
    """Values in the memory of a cluster's workers."""

    def __init__(self, values: list[Any]) -> None:
        with _cluster_errors():
            super().__init__(_dask().persist(*values))

    @classmethod
    def of(cls, values: Sequence[Any]) -> DaskValues:
        """Send values of this process to the workers."""
        return cls([_dask().delayed(value, pure=False) for value in values])

    def results(self) -> list[Any]:
        return list(_compute(self.values))

    def as_blocks(self, starts: Integers, n_columns: int, dtype: npt.DTypeLike, name: str) -> Blocks:
        return DaskBlocks(self.values, (int(starts[-1]), n_columns), np.dtype(dtype), starts, name)

    def map_reduce(self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *others: BlockValues) -> Any:
        return _merged(merge, list(self._calls(function, others)))

    def broadcast(self, value: Any) -> BlockValues:
        return DaskValues.of([value])

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return _dask().delayed(_apply, pure=True)(function, *arguments)


def _merged(merge: Callable[[Any, Any], Any], tasks: list[Any]) -> Any:
    """Return the merged results of tasks, computed by a tree of further tasks."""
    reduce = _dask().delayed(functools.reduce, pure=True)
    while len(tasks) > 1:
        tasks = [reduce(merge, tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
    return _compute(tasks)[0]


def _apply(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _pieces(blocks: Blocks) -> list[Any]:
    """Return the blocks of a matrix aligned with a Dask array: arrays in this process, or tasks that read them."""
    if isinstance(blocks, (ArrayBlocks, ValueBlocks)):
        return [blocks.read(number) for number in range(blocks.n_blocks)]
    return (blocks if isinstance(blocks, DaskBlocks) else DaskBlocks.reading(blocks)).pieces


def _on_block(
    function: Callable[..., Any], name: str, shape: tuple[int, ...], start: int, stop: int, block: Any, *others: Any
) -> Any:
    expected = (stop - start, *shape[1:])
    if block.shape != expected:
        raise InputError(f"{name}: the block that starts at row {start} has shape {block.shape}, expected {expected}")
    return function(start, block, *others)


def _compute(tasks: Sequence[Any]) -> Sequence[Any]:
    """Return the results of tasks, wherever Dask computes them."""
    with _cluster_errors():
        return _dask().compute(*tasks)


@contextmanager
def _cluster_errors() -> Iterator[None]:
    """Raise InputError if the cluster is lost; errors of the tasks themselves pass through."""
    try:
        yield
    except DLFHError:
        raise
    except Exception as error:
        module = type(error).__module__
        if isinstance(error, (OSError, TimeoutError)) or module.startswith(("distributed", "asyncio", "concurrent")):
            raise InputError(f"the Dask cluster was lost or could not complete the work: {error!s:.200}") from None
        raise


@contextmanager
def connect(cluster: str | None) -> Iterator[Callable[[Sequence[Any]], BlockValues]]:
    """Yield a function that makes `BlockValues`, in this process (None) or on the cluster at an address."""
    if cluster is None:
        yield BlockValues
        return
    distributed = require("distributed", "a cluster", "distributed")
    if cluster == LOCAL:
        options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
        with distributed.LocalCluster(**options) as local, distributed.Client(local):
            yield DaskValues.of
        return
    from distributed.comm.addressing import resolve_address

    try:
        resolve_address(cluster)  # an invalid address must fail here: its client would remain Dask's default and block
        client = distributed.Client(cluster, timeout=_TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler responds at {cluster!r}: {error!s:.200}") from None
    with client:
        yield DaskValues.of
