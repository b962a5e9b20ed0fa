"""A matrix in blocks of rows, and its operations: map, reduce as a tree, broadcast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Integers
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.blocks.values import BlockValues

Result = TypeVar("Result")

#: Default block size in bytes: large enough for sequential reads, small enough to hold three blocks in memory.
_BLOCK_BYTES = 64 << 20

#: Maximum number of rows in a block: label sets and other results per row can be wider than the row itself.
_BLOCK_ROWS = 1 << 17


def block_starts(n_rows: int, row_bytes: int) -> Integers:
    """Return the first row of each block of the default size, followed by the number of rows."""
    step = min(max(1, _BLOCK_BYTES // max(row_bytes, 1)), _BLOCK_ROWS)
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
    #: Whether functions of blocks run in this process, so that their results are in its memory.
    is_local = True

    @abstractmethod
    def _read(self, number: int) -> Any:
        """Return a block without checking it."""

    def read(self, number: int) -> Any:
        """Return a block, whose shape must be the expected one."""
        try:
            block = self._read(number)
        except FileNotFoundError:
            raise InputError(
                f"cannot read {self.name}: no such file (cluster workers must find files under the same paths)"
            ) from None
        expected = (int(self.starts[number + 1] - self.starts[number]), *self.shape[1:])
        if block.shape != expected:
            raise InputError(f"{self.name}: block {number} has shape {block.shape}, expected {expected}")
        return block

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

        Parameters
        ----------
        function : callable
            Takes the number of a block's first row, the block, and the same rows of the others. It must not modify
            them.
        merge : callable
            Merges the results of two neighbours, in order.
        *others : Blocks
            Matrices split at the same rows.
        """
        self.check_aligned(*others)
        pending: list[tuple[int, Result]] = []  # results with their heights in the tree, as the digits of a counter
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
        """Return this matrix split at the rows of another, or unchanged if it cannot be split freely."""
        return self

    def on_cluster(self) -> Blocks:
        """Return this matrix read and processed by Dask: by the connected cluster, or else on this machine.

        Workers find files by the same paths as this process.
        """
        from dlfh.blocks.dask import DaskBlocks

        return DaskBlocks.reading(self)

    def read_ahead(self, *others: Blocks, numbers: Sequence[int] | None = None) -> Iterator[tuple[int, list[Any]]]:
        """Yield block numbers with the block and the same rows of the others, reading the next one meanwhile.

        Parameters
        ----------
        *others : Blocks
        numbers : sequence of int, optional
            The blocks to read; all that are not empty by default.
        """

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
        """Return ``function(block, *blocks of others)`` of every block, evaluated when read.

        The results have ``n_columns`` columns; None for vectors.
        """
        self.check_aligned(*others)
        return MappedBlocks((self, *others), function, n_columns, dtype)

    def persist(self, function: Callable[..., Any], *others: Blocks) -> BlockValues:
        """Return ``function(first row, block, *blocks of others)`` of every block, kept where the blocks are."""
        from dlfh.blocks.values import BlockValues

        self.check_aligned(*others)
        read = self.read_ahead(*others, numbers=range(self.n_blocks))
        return BlockValues([function(int(self.starts[number]), *blocks) for number, blocks in read])

    def cached(self) -> Blocks:
        """Return these blocks, which must be dense, computed once and kept where they are."""
        return self.persist(_block).as_blocks(self.starts, self.shape[1], self.dtype, self.name)

    def result(self) -> Any:
        """Return the matrix as users receive it: an array in memory, or a Dask array."""
        return np.asarray(self)

    def lazy_result(self) -> Any:
        """Return the matrix as users receive it, without computing it: blocks or a Dask array.

        What comes from a single block in memory is an array.
        """
        return self

    def take(self, rows: Integers) -> Any:
        """Return rows by number, which must be ascending."""
        number = np.searchsorted(self.starts, rows, side="right") - 1
        parts = [self.read(int(block))[rows[number == block] - self.starts[block]] for block in np.unique(number)]
        return sp.csr_array(sp.vstack(parts)) if self.is_sparse else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.n_blocks == 1:
            return np.array(self.read(0), dtype, copy=copy)
        whole = np.empty(self.shape, self.dtype)
        for number, (block,) in self.read_ahead():
            whole[self.starts[number] : self.starts[number + 1]] = block
        return whole if dtype is None else whole.astype(dtype)


def _block(_: int, block: Any) -> Any:
    return block


class ArrayBlocks(Blocks):
    """An array or sparse matrix in memory, as one block or several.

    starts: The first row of each block, followed by the number of rows; None for a single block.
    """

    def __init__(self, rows: Any, starts: Any, name: str) -> None:
        self.rows, self.name = rows, name
        self.shape, self.dtype, self.is_sparse = rows.shape, rows.dtype, bool(sp.issparse(rows))
        self.starts = np.asarray([0, rows.shape[0]] if starts is None else starts, np.int64)
        if self.starts[-1] != rows.shape[0]:
            raise InputError(f"{name} has {rows.shape[0]} rows, but its blocks have {self.starts[-1]}")

    @property
    def whole(self) -> Any:
        return self.rows if self.n_blocks == 1 else None

    def split_like(self, other: Blocks) -> Blocks:
        return self if self.shape[0] != other.shape[0] else ArrayBlocks(self.rows, other.starts, self.name)

    def _read(self, number: int) -> Any:
        return self.rows if self.n_blocks == 1 else self.rows[int(self.starts[number]) : int(self.starts[number + 1])]


class MappedBlocks(Blocks):
    """A function of each block, and of the same rows of other matrices."""

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
