"""A random matrix with a row for each point: the same numbers however it is split into blocks.

The first 65,536 rows come from the given generator, each further group of 65,536 rows from a generator with a seed
drawn by the first. So a block can be drawn without the blocks before it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from dlfh._arrays import Floats
from dlfh.blocks.base import Blocks

#: Rows drawn by one generator, and rows drawn at once.
_GROUP, _CHUNK = 65536, 4096


def draw(rng: np.random.Generator, n_rows: int, n_columns: int, *, uniform: bool) -> Floats:
    """Return independent random numbers: uniform between 0 and 1, or normal."""
    return (rng.random if uniform else rng.standard_normal)((n_rows, n_columns))


def random_rows(rng: np.random.Generator, features: Blocks, n_columns: int, *, uniform: bool = False) -> Blocks:
    """Return random rows in the same blocks as the features; each block is drawn by the worker that reads it."""
    blocks = RandomBlocks(rng, features, n_columns, uniform=uniform)
    if features.whole is not None:
        return blocks.cached()
    return blocks if features.is_local else blocks.on_cluster()


class RandomBlocks(Blocks):
    """Random rows in the same blocks as the features."""

    is_sparse = False

    def __init__(self, rng: np.random.Generator, features: Blocks, n_columns: int, *, uniform: bool) -> None:
        self.starts, self.name, self.uniform = features.starts, "random rows", uniform
        self.shape, self.dtype = (features.shape[0], n_columns), np.dtype(np.float64)
        self.first = copy.deepcopy(rng)
        for _ in self._chunks(rng, min(self.shape[0], _GROUP)):
            pass  # advance the generator
        self.seeds = rng.integers(2**63, size=max(-(-self.shape[0] // _GROUP) - 1, 0))  # of all groups but the first

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
