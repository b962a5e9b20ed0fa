"""Values that stay where they were made, one for each block or part: what is worked on again and again.

Blocks are read once for them. Here they are a list; on a cluster (`DaskHeld`) they are in the workers' memory, and only
what is asked for comes back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.blocks.base import Blocks, Integers

__all__ = ["Held", "HeldBlocks"]


class Held:
    """Some values, and functions of them: *map*, *join* (whose result may be broadcast), *turn* and *reduce*.

    What is here is broadcast by *share*. Functions change nothing: what a dead worker had is made again.

    Examples
    --------
    >>> held = Held([[1, 2], [3, 4]])
    >>> total = held.join(lambda values: sum(map(sum, values)))
    >>> held.map(lambda value, total: sum(value) / total, total).results()
    [0.3, 0.7]
    >>> held.turn(2, sum).results()
    [4, 6]
    >>> held.map_reduce(lambda value, more: sum(value) + more, lambda a, b: a + b, held.share(10))
    30
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[..., Any], *others: Held, each: Sequence[Any] | None = None) -> Held:
        """Return ``function(value, *others' values, own of each)`` of every value; a single other value goes to all."""
        return self._made(list(self._calls(function, others, each)))

    def map_reduce(self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *others: Held) -> Any:
        """Return what `map` gives, merged, here: no more than two results are kept at a time."""
        return functools.reduce(merge, self._calls(function, others))

    def join(self, function: Callable[[list[Any]], Any]) -> Held:
        """Return a function of the list of all values: a single value, small enough to go to all."""
        return self._made([self._call(function, self.values)])

    def turn(self, n: int, function: Callable[[list[Any]], Any]) -> Held:
        """Of values that have ``n`` elements each, return a function of the list of all k-th elements, for each k."""
        return self._made([self._call(function, [value[k] for value in self.values]) for k in range(n)])

    def results(self) -> list[Any]:
        """Return the values, here: they should be small."""
        return self.values

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any:
        """Return all values merged, here: they should be small."""
        return functools.reduce(merge, self.results())

    def share(self, value: Any) -> Held:
        """Return a value of this process as what goes to all, sent once."""
        return self._made([value])

    def as_blocks(self, starts: Integers, n_columns: int, dtype: npt.DTypeLike, called: str) -> Blocks:
        """Return values that are arrays as blocks of rows."""
        return HeldBlocks(self.values, starts, n_columns, dtype, called)

    def _calls(
        self, function: Callable[..., Any], others: Sequence[Held], each: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        columns = [other.values * len(self) if len(other) == 1 else other.values for other in others]
        columns += [] if each is None else [list(each)]
        return (self._call(function, *values) for values in zip(self.values, *columns, strict=True))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def _made(self, values: list[Any]) -> Held:
        return Held(values)


class HeldBlocks(Blocks):
    """Arrays in memory, each of which is a block."""

    is_sparse = False

    def __init__(
        self, arrays: Sequence[Any], starts: Integers, n_columns: int, dtype: npt.DTypeLike, called: str
    ) -> None:
        self.arrays, self.starts, self.called = arrays, starts, called
        self.shape, self.dtype = (int(starts[-1]), n_columns), np.dtype(dtype)

    def _read(self, number: int) -> Any:
        return self.arrays[number]
