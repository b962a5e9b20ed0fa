"""Matrices in blocks of rows, values computed per block, and the operations map, reduce and broadcast."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Integers
from dlfh.errors import InputError

Result = TypeVar("Result")
#: Default block size in bytes: large enough for sequential reads, small enough to hold three blocks in memory.
_BLOCK_BYTES = 64 << 20
#: Maximum number of rows in a block: label sets and other results per row can be wider than the row itself.
_BLOCK_ROWS = 1 << 17


def block_starts(n_rows: int, row_bytes: int, multiple: int = 1) -> Integers:
    """Return the first row of each block, then the number of rows; sizes are multiples of ``multiple`` if possible."""
    step = min(max(1, _BLOCK_BYTES // max(row_bytes, 1)), _BLOCK_ROWS)
    if n_rows > step:
        step = step // multiple * multiple or step
    return np.append(np.arange(0, max(n_rows, 1), step), n_rows).astype(np.int64)


class Blocks(ABC):
    """A matrix or vector that is read in blocks of rows.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy dtype
    is_sparse : bool
    starts : ndarray of int64 (blocks + 1,)
        The first row of each block, followed by the number of rows.
    name : str
        Name in error messages.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_sparse: bool
    starts: Integers
    name: str
    is_local = True  #: Whether functions of blocks run in this process, so that their results are in its memory.
    is_splittable = False  #: Whether the matrix can be split at any row.

    @abstractmethod
    def _read(self, number: int) -> Any:
        """Return a block without checking it."""

    def read(self, number: int) -> Any:
        """Read a block and check its shape."""
        try:
            block = self._read(number)
        except FileNotFoundError:
            raise InputError(
                f"cannot read {self.name}: no such file (cluster workers must find files under the same paths)"
            ) from None
        start, stop = self._bounds(number)
        expected = (stop - start, *self.shape[1:])
        if block.shape != expected:
            raise InputError(f"{self.name}: block {number} has shape {block.shape}, expected {expected}")
        return block

    def _bounds(self, number: int) -> tuple[int, int]:
        return int(self.starts[number]), int(self.starts[number + 1])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def n_blocks(self) -> int:
        return len(self.starts) - 1

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def whole(self) -> Any:
        """The matrix, if it is in memory as a single block; otherwise None."""
        return None

    def map_reduce(
        self, function: Callable[..., Result], merge: Callable[[Result, Result], Result], *others: Blocks
    ) -> Result:
        """Return ``function(first row, block, *blocks of others)`` of every block, merged as a tree.

        function: Must not modify its arguments: the number of a block's first row, the block, and the same rows of the
            others.
        merge: Merges the results of two adjacent blocks or merged ranges, in order.
        others: Matrices split at the same rows.
        """
        self.check_aligned(*others)
        pending: list[tuple[int, Result]] = []  # heights in the tree and results; equal heights merge, like carries
        for number, blocks in self.read_ahead(*others):
            level, result = 0, function(int(self.starts[number]), *blocks)
            while pending and pending[-1][0] == level:
                result = merge(pending.pop()[1], result)
                level += 1
            pending.append((level, result))
        result = pending.pop()[1]
        while pending:
            result = merge(pending.pop()[1], result)
        return result

    def check_aligned(self, *others: Blocks) -> None:
        """Raise InputError unless the others are split at the same rows."""
        for other in others:
            if other.shape[0] != self.shape[0]:
                raise InputError(f"{other.name} has {other.shape[0]} rows but {self.name} has {self.shape[0]}")
            if not np.array_equal(other.starts, self.starts):
                raise InputError(
                    f"{other.name} has {other.shape[0]} rows in {other.n_blocks} blocks and {self.name} has "
                    f"{self.shape[0]} in {self.n_blocks}: split both at the same rows"
                )

    def split_like(self, other: Blocks) -> Blocks:
        """Return this matrix split at the rows of another, or unchanged if it cannot be split there."""
        if not self.is_splittable or self.shape[0] != other.shape[0]:
            return self
        split = copy.copy(self)
        split.starts = other.starts
        return split

    def on_cluster(self) -> Blocks:
        """Return this matrix read and processed by Dask: by the connected cluster, or else on this machine."""
        # Workers find files by the same paths as this process.
        from dlfh.blocks.dask import DaskBlocks

        return DaskBlocks.reading(self)

    def read_ahead(self, *others: Blocks, numbers: Sequence[int] | None = None) -> Iterator[tuple[int, list[Any]]]:
        """Yield ``numbers`` (by default all non-empty blocks), the block and the others' same rows, reading ahead."""

        def read(number: int) -> list[Any]:
            return [each.read(number) for each in (self, *others)]

        if numbers is None:
            numbers = np.flatnonzero(np.diff(self.starts)).tolist()
        if len(numbers) == 1:
            yield numbers[0], read(numbers[0])
            return
        with ThreadPoolExecutor(1, thread_name_prefix="dlfh-read") as reader:
            ahead = [reader.submit(read, number) for number in numbers[:1]]
            for number, following in zip(numbers, [*numbers[1:], None], strict=False):
                blocks = ahead.pop().result()
                if following is not None:
                    ahead.append(reader.submit(read, following))
                yield number, blocks

    def map(self, function: Callable[..., Any], n_columns: int | None, dtype: npt.DTypeLike, *others: Blocks) -> Blocks:
        """Return ``function(block, *blocks of others)`` of every block, lazily; vectors have ``n_columns=None``."""
        self.check_aligned(*others)
        return MappedBlocks((self, *others), function, n_columns, dtype)

    def persist(self, function: Callable[..., Any], *others: Blocks) -> BlockValues:
        """Return ``function(first row, block, *blocks of others)`` of every block, kept where the blocks are."""
        self.check_aligned(*others)
        read = self.read_ahead(*others, numbers=range(self.n_blocks))
        return BlockValues([function(int(self.starts[number]), *blocks) for number, blocks in read])

    def cached(self) -> Blocks:
        """Compute these blocks, which must be dense, once, and keep them where they were computed."""
        return self.persist(_second).as_blocks(self.starts, self.shape[1], self.dtype, self.name)

    def result(self) -> Any:
        """Return the matrix as users receive it: an array in memory, or a Dask array."""
        return np.asarray(self)

    def lazy_result(self) -> Any:
        """Return the matrix as users receive it, evaluated lazily unless it comes from a single block in memory."""
        return self

    def take(self, rows: Integers) -> Any:
        """Return the rows with the given numbers, which must be ascending."""
        number = np.searchsorted(self.starts, rows, side="right") - 1
        parts = self._take([(int(block), rows[number == block] - self.starts[block]) for block in np.unique(number)])
        return sp.csr_array(sp.vstack(parts)) if self.is_sparse else np.concatenate(parts)

    def _take(self, parts: list[tuple[int, Integers]]) -> Sequence[Any]:
        """Return the given rows of each given block."""
        return [self.read(number)[rows] for number, rows in parts]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.n_blocks == 1:
            return np.array(self.read(0), dtype, copy=copy)
        whole = np.empty(self.shape, self.dtype)
        for number, (block,) in self.read_ahead():
            whole[slice(*self._bounds(number))] = block
        return whole if dtype is None else whole.astype(dtype)


def _second(_: int, block: Any) -> Any:
    return block


class ArrayBlocks(Blocks):
    """An array or sparse matrix in memory, as one block or several.

    starts: The first row of each block, followed by the number of rows; None for a single block.
    """

    is_splittable = True

    def __init__(self, rows: Any, starts: Any, name: str) -> None:
        self.rows, self.name = rows, name
        self.shape, self.dtype, self.is_sparse = rows.shape, rows.dtype, bool(sp.issparse(rows))
        self.starts = np.asarray([0, rows.shape[0]] if starts is None else starts, np.int64)
        if self.starts[-1] != rows.shape[0]:
            raise InputError(f"{name} has {rows.shape[0]} rows, but its blocks have {self.starts[-1]}")

    @property
    def whole(self) -> Any:
        return self.rows if self.n_blocks == 1 else None

    def _read(self, number: int) -> Any:
        return self.rows if self.n_blocks == 1 else self.rows[slice(*self._bounds(number))]


class MappedBlocks(Blocks):
    """The lazy results of a function of each block and the same rows of other matrices."""

    def __init__(
        self, sources: Sequence[Blocks], function: Callable[..., Any], n_columns: int | None, dtype: npt.DTypeLike
    ) -> None:
        self.sources, self.function = sources, function
        first = sources[0]
        self.starts, self.name, self.is_sparse = first.starts, first.name, False
        self.shape = (first.shape[0],) if n_columns is None else (first.shape[0], n_columns)
        self.dtype = np.dtype(dtype)

    def _read(self, number: int) -> Any:
        return self.function(*(source.read(number) for source in self.sources))

    def lazy_result(self) -> Any:
        return self if self.sources[0].whole is None else np.asarray(self)


class BlockValues:
    """One value per block, kept where it was computed, with operations on these values.

    In this process they are a list; on a cluster (`dlfh.blocks.dask.DaskValues`) they stay in the workers' memory, and
    only requested results come back. Functions must not modify their arguments, because the values of a failed worker
    are computed again.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[..., Any], *others: BlockValues) -> BlockValues:
        """Return ``function(value, *values of others)`` of every value; others of length 1 are broadcast."""
        return type(self)(list(self._calls(function, others)))

    def map_reduce(self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *others: BlockValues) -> Any:
        """Return the results of `map` merged in this process, with at most two of them in memory at a time."""
        return functools.reduce(merge, self._calls(function, others))

    def combine(self, function: Callable[[list[Any]], Any]) -> BlockValues:
        """Apply a function to the list of all values; the result must be small enough to broadcast."""
        return type(self)([self._call(function, self.values)])

    def transpose(self, n: int, function: Callable[[list[Any]], Any]) -> BlockValues:
        """For values of ``n`` elements each, apply a function to the list of all k-th elements, for each k."""
        return type(self)([self._call(function, [value[k] for value in self.values]) for k in range(n)])

    def results(self) -> list[Any]:
        """Return the values, copied to this process; they should be small."""
        return self.values

    def broadcast(self, value: Any) -> BlockValues:
        """Return a value of this process as an argument for all values, which is sent only once."""
        return BlockValues([value])

    def as_blocks(self, starts: Integers, n_columns: int, dtype: npt.DTypeLike, name: str) -> Blocks:
        """Return the values, which must be arrays, as the blocks of a matrix."""
        return ValueBlocks(self.values, starts, n_columns, dtype, name)

    def _calls(self, function: Callable[..., Any], others: Sequence[BlockValues]) -> Iterator[Any]:
        columns = [other.values * len(self) if len(other) == 1 else other.values for other in others]
        return (self._call(function, *values) for values in zip(self.values, *columns, strict=True))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class ValueBlocks(Blocks):
    """Arrays in memory, one for each block."""

    is_sparse = False

    def __init__(self, arrays: list[Any], starts: Integers, n_columns: int, dtype: npt.DTypeLike, name: str) -> None:
        self.arrays, self.starts, self.name = arrays, starts, name
        self.shape, self.dtype = (int(starts[-1]), n_columns), np.dtype(dtype)

    def _read(self, number: int) -> Any:
        return self.arrays[number]
