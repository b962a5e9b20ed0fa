"""A random matrix with a row for each point, in memory or by blocks: the same numbers, however it is cut.

The first 65,536 rows come from the generator that is given, each further group of as many from one of its own, whose
seed is drawn by that. So a block is drawn where it is needed, and nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.blocks import Blocks

__all__ = ["RandomBlocks", "draw", "random_rows"]

Floats = npt.NDArray[np.float64]

#: Rows that are drawn by one generator, and how many of them at a time by blocks.
_GROUP, _CHUNK = 65536, 4096


def draw(rng: np.random.Generator, n_rows: int, n_columns: int, *, uniform: bool) -> Floats:
    """Return independent numbers that a generator draws next: between 0 and 1, or normal ones."""
    return (rng.random if uniform else rng.standard_normal)((n_rows, n_columns))


def random_rows(rng: np.random.Generator, features: Any, n_columns: int, *, uniform: bool = False) -> Any:
    """Return random rows beside features: an array, or Blocks, drawn where they are read.

    The generator then stands where drawing the first rows, and the seeds of others, has left it.

    Examples
    --------
    >>> from dlfh.blocks import ArrayBlocks
    >>> features = np.ones((5, 3))
    >>> rows = random_rows(np.random.default_rng(0), features, 2)
    >>> blocks = random_rows(np.random.default_rng(0), ArrayBlocks(features, [0, 3, 5], "image"), 2)
    >>> bool((np.asarray(blocks) == rows).all())
    True
    """
    if isinstance(features, Blocks):
        blocks = RandomBlocks(rng, features, n_columns, uniform=uniform)
        return blocks if features.is_here else blocks.on_cluster()
    n_rows = features.shape[0]
    groups = [draw(rng, min(n_rows, _GROUP), n_columns, uniform=uniform)]
    for number, seed in enumerate(_seeds(rng, n_rows), start=1):
        own = min(n_rows - number * _GROUP, _GROUP)
        groups.append(draw(np.random.default_rng(seed), own, n_columns, uniform=uniform))
    return groups[0] if len(groups) == 1 else np.concatenate(groups)


class RandomBlocks(Blocks):
    """Random rows in blocks as some features are."""

    is_sparse = False

    def __init__(self, rng: np.random.Generator, features: Blocks, n_columns: int, *, uniform: bool) -> None:
        self.starts, self.called, self.uniform = features.starts, "random rows", uniform
        self.shape, self.dtype = (features.shape[0], n_columns), np.dtype(np.float64)
        self.first = copy.deepcopy(rng)
        for _ in self._chunks(rng, min(self.shape[0], _GROUP)):
            pass  # what is drawn next follows these
        self.seeds = _seeds(rng, self.shape[0])

    def _read(self, number: int) -> Floats:
        start, stop = int(self.starts[number]), int(self.starts[number + 1])
        rows = np.empty((stop - start, self.shape[1]))
        for group in range(start // _GROUP, -(-stop // _GROUP)):
            rng = np.random.default_rng(self.seeds[group - 1]) if group else copy.deepcopy(self.first)
            at = group * _GROUP
            for chunk in self._chunks(rng, min(stop - at, _GROUP)):
                begin, end = max(at, start), at + len(chunk)
                if begin < end:
                    rows[begin - start : end - start] = chunk[begin - at :]
                at = end
        return rows

    def _chunks(self, rng: np.random.Generator, n_rows: int) -> Iterator[Floats]:
        for start in range(0, n_rows, _CHUNK):
            yield draw(rng, min(_CHUNK, n_rows - start), self.shape[1], uniform=self.uniform)


def _seeds(rng: np.random.Generator, n_rows: int) -> npt.NDArray[np.int64]:
    """Return the seeds of all groups but the first."""
    return rng.integers(2**63, size=max(-(-n_rows // _GROUP) - 1, 0))
