"""What a matrix by blocks is, and the seam that everything is done through: map, reduce as a tree, broadcast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.blocks.held import Held

__all__ = ["ArrayBlocks", "Blocks", "MappedBlocks", "block_starts"]

Integers = npt.NDArray[np.int64]
Result = TypeVar("Result")

#: Bytes of a block, where nothing else decides: large enough to be read in one go, small enough to have three of them.
_BLOCK_BYTES = 64 << 20

#: Rows of a block, at most: what is made of a narrow block, such as label sets, is wider than the block itself.
_BLOCK_ROWS = 1 << 17


def block_starts(n_rows: int, row_bytes: int) -> Integers:
    """Return the numbers of the blocks' first rows, and of all rows, for blocks of a usual size.

    Examples
    --------
    >>> block_starts(100, 1 << 20).tolist()
    [0, 64, 100]
    >>> block_starts(200_000, 1).tolist()
    [0, 131072, 200000]
    """
    step = min(max(1, _BLOCK_BYTES // max(row_bytes, 1)), _BLOCK_ROWS)
    return np.append(np.arange(0, max(n_rows, 1), step), n_rows).astype(np.int64)


class Blocks(ABC):
    """A matrix, or a vector, that is read by blocks of rows.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy dtype
    is_sparse : bool
    starts : ndarray of int64 (blocks + 1,)
        Numbers of the blocks' first rows, and of all rows.
    called : str
        What it is called in errors.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_sparse: bool
    starts: Integers
    called: str
    #: Whether functions of blocks run in this process, so that what they make is in its memory.
    is_here = True

    @abstractmethod
    def _read(self, number: int) -> Any:
        """Return a block as it comes."""

    def read(self, number: int) -> Any:
        """Return a block, which must be as long and as wide as it was said to be."""
        try:
            block = self._read(number)
        except FileNotFoundError:
            raise InputError(
                f"cannot read {self.called}: it is not there (a cluster's workers read files by the same paths as you)"
            ) from None
        expected = (int(self.starts[number + 1] - self.starts[number]), *self.shape[1:])
        if block.shape != expected:
            raise InputError(f"{self.called}: block {number} has the shape {block.shape}, not {expected} as expected")
        return block

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def n_blocks(self) -> int:
        return len(self.starts) - 1

    def __len__(self) -> int:
        return self.shape[0]

    def map_reduce(
        self,
        function: Callable[..., Result],
        merge: Callable[[Result, Result], Result],
        *beside: Blocks,
    ) -> Result:
        """Return ``function(first row, block, *blocks beside it)`` of every block, merged as a tree.

        Parameters
        ----------
        function : callable
            Of the number of a block's first row, the block, and the same rows of the others. It changes nothing.
        merge : callable
            Of two results: of neighbours, in their order.
        *beside : Blocks
            With blocks of the same rows.
        """
        self.check_beside(*beside)
        pending: list[tuple[int, Result]] = []  # results by how many levels of the tree they are, as a counter's digits
        for number, blocks in self.read_ahead(*beside):
            level, result = 0, function(int(self.starts[number]), *blocks)
            while pending and pending[-1][0] == level:
                result = merge(pending.pop()[1], result)
                level += 1
            pending.append((level, result))
        result = pending.pop()[1]
        while pending:
            result = merge(pending.pop()[1], result)
        return result

    def check_beside(self, *beside: Blocks) -> None:
        """Raise InputError unless others have blocks of the same rows."""
        for other in beside:
            if other.shape[0] != self.shape[0]:
                raise InputError(f"{other.called} has {other.shape[0]} rows but {self.called} has {self.shape[0]}")
            if not np.array_equal(other.starts, self.starts):
                raise InputError(
                    f"{other.called} has {other.shape[0]} rows in {other.n_blocks} blocks and {self.called} has "
                    f"{self.shape[0]} in {self.n_blocks}: give both the same blocks of rows"
                )

    def cut_like(self, other: Blocks) -> Blocks:
        """Return the same in blocks of the same rows as another's, where any rows can be read; otherwise as it is."""
        return self

    def on_cluster(self) -> Blocks:
        """Return the same, read and worked on by Dask: by the workers of the cluster that one is connected to.

        Workers find files by the same paths as this process. Without a cluster, Dask works on this machine.
        """
        from dlfh.blocks.dask import DaskBlocks

        return DaskBlocks.reading(self)

    def read_ahead(self, *beside: Blocks, numbers: Sequence[int] | None = None) -> Iterator[tuple[int, list[Any]]]:
        """Yield numbers of blocks, all that have rows or those that are given, with their rows here and beside.

        The next is read while one is worked on.
        """

        def read(number: int) -> list[Any]:
            return [each.read(number) for each in (self, *beside)]

        if numbers is None:
            numbers = np.flatnonzero(np.diff(self.starts)).tolist()
        with ThreadPoolExecutor(1, thread_name_prefix="dlfh-read") as reader:
            ahead = [reader.submit(read, number) for number in numbers[:1]]
            for number, following in zip(numbers, [*numbers[1:], None], strict=False):
                blocks = ahead.pop().result()
                if following is not None:
                    ahead.append(reader.submit(read, following))
                yield number, blocks

    def map(self, function: Callable[..., Any], n_columns: int | None, dtype: npt.DTypeLike, *beside: Blocks) -> Blocks:
        """Return ``function(block, *blocks beside it)`` of blocks, when asked for: so many columns (None: vectors)."""
        self.check_beside(*beside)
        return MappedBlocks((self, *beside), function, n_columns, dtype)

    def hold(self, function: Callable[..., Any], *beside: Blocks) -> Held:
        """Return ``function(first row, block, *blocks beside it)`` of every block, kept where the blocks are."""
        from dlfh.blocks.held import Held

        self.check_beside(*beside)
        read = self.read_ahead(*beside, numbers=range(self.n_blocks))
        return Held([function(int(self.starts[number]), *blocks) for number, blocks in read])

    def kept(self) -> Blocks:
        """Return the same blocks, dense ones, computed once and kept where they are."""
        return self.hold(_block).as_blocks(self.starts, self.shape[1], self.dtype, self.called)

    def result(self) -> Any:
        """Return what a user gets of it: an array in memory, or one of Dask's."""
        return np.asarray(self)

    def deferred(self) -> Any:
        """Return what a user gets of it without computing it: these blocks, or an array of Dask's."""
        return self

    def take(self, rows: Integers) -> Any:
        """Return some rows, in rising order, of as many blocks as they are in."""
        number = np.searchsorted(self.starts, rows, side="right") - 1
        parts = [self.read(int(own))[rows[number == own] - self.starts[own]] for own in np.unique(number)]
        return sp.csr_array(sp.vstack(parts)) if self.is_sparse else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        whole = np.empty(self.shape, self.dtype)
        for number, (block,) in self.read_ahead():
            whole[self.starts[number] : self.starts[number + 1]] = block
        return whole if dtype is None else whole.astype(dtype)


def _block(_: int, block: Any) -> Any:
    return block


class ArrayBlocks(Blocks):
    """Something in memory as blocks: an array, or a sparse matrix.

    Examples
    --------
    >>> blocks = ArrayBlocks(np.arange(10.0), [0, 4, 8, 10], "numbers")
    >>> blocks.map_reduce(lambda start, block: block.sum(), lambda a, b: a + b)
    np.float64(45.0)
    """

    def __init__(self, rows: Any, starts: Any, called: str) -> None:
        self.rows, self.called = rows, called
        self.shape, self.dtype, self.is_sparse = rows.shape, rows.dtype, bool(sp.issparse(rows))
        self.starts = np.asarray(starts, np.int64)
        if self.starts[-1] != rows.shape[0]:
            raise InputError(f"{called} has {rows.shape[0]} rows, but blocks are of {self.starts[-1]}")

    def cut_like(self, other: Blocks) -> Blocks:
        return self if self.shape[0] != other.shape[0] else ArrayBlocks(self.rows, other.starts, self.called)

    def _read(self, number: int) -> Any:
        return self.rows[int(self.starts[number]) : int(self.starts[number + 1])]


class MappedBlocks(Blocks):
    """A function of each block, and of those beside it."""

    def __init__(
        self,
        sources: Sequence[Blocks],
        function: Callable[..., Any],
        n_columns: int | None,
        dtype: npt.DTypeLike,
    ) -> None:
        self.sources, self.function = sources, function
        first = sources[0]
        self.starts, self.called, self.is_sparse = first.starts, first.called, False
        self.shape = (first.shape[0],) if n_columns is None else (first.shape[0], n_columns)
        self.dtype = np.dtype(dtype)

    def _read(self, number: int) -> Any:
        return self.function(*(source.read(number) for source in self.sources))
