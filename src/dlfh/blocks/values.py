"""One value per block, kept where it was computed: intermediate results of iterative algorithms.

In this process they are a list; on a cluster (`dlfh.blocks.dask.DaskValues`) they stay in the workers' memory, and only
requested results come back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Integers
from dlfh.blocks.base import Blocks


class BlockValues:
    """Values of blocks, and functions of them: *map*, *combine*, *transpose*, *reduce* and *broadcast*.

    Functions must not modify their arguments, because the values of a failed worker are computed again.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    def map(
        self, function: Callable[..., Any], *others: BlockValues, arguments: Sequence[Any] | None = None
    ) -> BlockValues:
        """Return ``function(value, *values of others, argument)`` of every value.

        Others of length 1 go to all values. ``arguments``, if given, has one entry for each value.
        """
        return self._new(list(self._calls(function, others, arguments)))

    def map_reduce(self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *others: BlockValues) -> Any:
        """Return the results of `map` merged in this process, with at most two of them in memory at a time."""
        return functools.reduce(merge, self._calls(function, others))

    def combine(self, function: Callable[[list[Any]], Any]) -> BlockValues:
        """Return a function of the list of all values: one value, small enough to broadcast."""
        return self._new([self._call(function, self.values)])

    def transpose(self, n: int, function: Callable[[list[Any]], Any]) -> BlockValues:
        """Return, for values of ``n`` elements each, a function of the list of all k-th elements, for each k."""
        return self._new([self._call(function, [value[k] for value in self.values]) for k in range(n)])

    def results(self) -> list[Any]:
        """Return the values in this process; they should be small."""
        return self.values

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any:
        """Return all values merged in this process; they should be small."""
        return functools.reduce(merge, self.results())

    def broadcast(self, value: Any) -> BlockValues:
        """Return a value of this process as an argument that goes to all values, sent once."""
        return self._new([value])

    def as_blocks(self, starts: Integers, n_columns: int, dtype: npt.DTypeLike, name: str) -> Blocks:
        """Return values that are arrays as the blocks of a matrix."""
        return ValueBlocks(self.values, starts, n_columns, dtype, name)

    def _calls(
        self, function: Callable[..., Any], others: Sequence[BlockValues], arguments: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        columns = [other.values * len(self) if len(other) == 1 else other.values for other in others]
        columns += [] if arguments is None else [list(arguments)]
        return (self._call(function, *values) for values in zip(self.values, *columns, strict=True))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def _new(self, values: list[Any]) -> BlockValues:
        return BlockValues(values)


class ValueBlocks(Blocks):
    """Arrays in memory, one for each block."""

    is_sparse = False

    def __init__(
        self, arrays: Sequence[Any], starts: Integers, n_columns: int, dtype: npt.DTypeLike, name: str
    ) -> None:
        self.arrays, self.starts, self.name = arrays, starts, name
        self.shape, self.dtype = (int(starts[-1]), n_columns), np.dtype(dtype)

    def _read(self, number: int) -> Any:
        return self.arrays[number]
