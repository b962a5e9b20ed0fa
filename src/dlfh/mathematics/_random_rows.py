"""A random matrix whose rows can be drawn apart, in any pieces, wherever they are needed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.blocks import Blocks

__all__ = ["RandomRows"]

Floats = npt.NDArray[np.float64]

#: Rows that are drawn by one generator, and how many of them at a time.
_GROUP, _CHUNK = 65536, 4096


class RandomRows:
    """Rows of independent numbers, normal or uniform, the same however they are cut.

    The first group of 65,536 rows comes from the generator that is given, which then stands where drawing them has left
    it; each further group from one of its own, seeded by that.

    Parameters
    ----------
    rng : numpy Generator
    n_rows, n_columns : int
    uniform : bool
        Between 0 and 1; otherwise normal.

    Examples
    --------
    >>> whole = np.random.default_rng(0).standard_normal((5, 2))
    >>> rows = RandomRows(np.random.default_rng(0), 5, 2)
    >>> bool((rows.take(0, 5) == whole).all()), bool((rows.take(3, 5) == whole[3:]).all())
    (True, True)
    """

    def __init__(self, rng: np.random.Generator, n_rows: int, n_columns: int, *, uniform: bool = False) -> None:
        self.n_rows, self.n_columns, self.uniform = n_rows, n_columns, uniform
        self.first = copy.deepcopy(rng)
        for _ in self._chunks(rng, min(n_rows, _GROUP)):
            pass
        self.seeds = rng.integers(2**63, size=max(-(-n_rows // _GROUP) - 1, 0))

    def draw(self, rng: np.random.Generator, n_rows: int) -> Floats:
        """Return so many rows that a generator draws next."""
        shape = (n_rows, self.n_columns)
        return rng.random(shape) if self.uniform else rng.standard_normal(shape)

    def take(self, start: int, stop: int) -> Floats:
        """Return some of the rows."""
        rows = np.empty((stop - start, self.n_columns))
        for group in range(start // _GROUP, -(-stop // _GROUP)):
            rng = np.random.default_rng(self.seeds[group - 1]) if group else copy.deepcopy(self.first)
            at = group * _GROUP
            for chunk in self._chunks(rng, min(stop - at, _GROUP)):
                begin, end = max(at, start), at + len(chunk)
                if begin < end:
                    rows[begin - start : end - start] = chunk[begin - at :]
                at = end
        return rows

    def beside(self, features: Any) -> Any:
        """Return the rows as features are: an array, or Blocks, drawn where they are read."""
        if not isinstance(features, Blocks):
            return self.take(0, self.n_rows)
        drawn = _RandomBlocks(self, features)
        return drawn if features.is_here else drawn.on_cluster()

    def _chunks(self, rng: np.random.Generator, n_rows: int) -> Iterator[Floats]:
        for start in range(0, n_rows, _CHUNK):
            yield self.draw(rng, min(_CHUNK, n_rows - start))


class _RandomBlocks(Blocks):
    """Random rows in blocks as others are."""

    is_sparse = False

    def __init__(self, rows: RandomRows, like: Blocks) -> None:
        self.rows, self.starts, self.called = rows, like.starts, "random rows"
        self.shape, self.dtype = (rows.n_rows, rows.n_columns), np.dtype(np.float64)

    def _read(self, number: int) -> Floats:
        return self.rows.take(int(self.starts[number]), int(self.starts[number + 1]))
