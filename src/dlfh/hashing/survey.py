"""One look at data in blocks: what scalings and kernels follow from, and some of its rows, in a single pass."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._parallel import Workers
from dlfh._validation import raise_for_overflow, raise_if_not_finite
from dlfh.blocks import Blocks
from dlfh.hashing.kernel import CHUNK_ROWS, RBFMap, random_bases
from dlfh.hashing.scaling import Scaling

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Spread:
    """Mean, and sum of squares about it, of each feature as a scaling makes it."""

    n_points: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, rows: Any) -> _Spread:
        n = rows.shape[0]
        if sp.issparse(rows):
            mean = np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel() / n
            squares = np.asarray(rows.astype(np.float64).power(2).sum(axis=0)).ravel() - n * mean**2
            return cls(n, mean, np.maximum(squares, 0))
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = np.subtract(rows, mean, dtype=np.float64)
        return cls(n, mean, np.einsum("nd,nd->d", centred, centred))

    def __add__(self, other: _Spread) -> _Spread:
        n = self.n_points + other.n_points
        apart = other.mean - self.mean
        squares = self.squares + other.squares + self.n_points * other.n_points / n * apart**2
        return _Spread(n, self.mean + other.n_points / n * apart, squares)

    def divided(self, divisors: Floats) -> _Spread:
        return _Spread(self.n_points, self.mean / divisors, self.squares / divisors**2)


@dataclass(frozen=True)
class Survey:
    """What a pass over a modality's blocks found.

    Attributes
    ----------
    spreads : dict of str to _Spread
        By kind of scaling; "standard" follows from "none".
    numbers : ndarray of int64 (k,)
        Of the rows that were asked for, rising.
    rows : ndarray or csr_array (k, d)
    modality : str

    Examples
    --------
    >>> from dlfh.blocks.base import ArrayBlocks
    >>> blocks = ArrayBlocks(np.array([[1.0], [2.0], [6.0]]), [0, 2, 3], "image")
    >>> found = Survey.of(blocks, [np.array([0, 2])], ["none"], "image")
    >>> found.take(np.array([2])), found.spreads["none"].mean
    (array([[6.]]), array([3.]))
    """

    spreads: Mapping[str, _Spread]
    numbers: Integers
    rows: Any
    modality: str

    @classmethod
    def of(
        cls, features: Blocks, samples: Sequence[Integers], scalings: Sequence[str], modality: str, n_jobs: int = 1
    ) -> Survey:
        """Look at all blocks once, for samples of rows and for what scalings make of all rows."""
        numbers = np.unique(np.concatenate(samples))
        kinds = tuple(dict.fromkeys("none" if kind == "standard" else kind for kind in scalings))
        spreads, parts = features.map_reduce(functools.partial(_look, kinds, numbers, modality, n_jobs), _merged)
        rows = sp.csr_array(sp.vstack(parts)) if features.is_sparse else np.concatenate(parts)
        return cls(dict(zip(kinds, spreads, strict=True)), numbers, rows, modality)

    def take(self, numbers: Integers) -> Any:
        """Return some of the rows that were asked for."""
        return self.rows[np.searchsorted(self.numbers, numbers)]

    def kernel(self, n_bases: int, seed: int, *, bandwidth_factor: float = 1.0, scaling_kind: str = "none") -> RBFMap:
        """Return the kernel's map as `RBFMap.fit` makes it."""
        scaling, spread = Scaling(scaling_kind, np.zeros(0)), self.spreads.get(scaling_kind)
        if spread is None:
            found = self.spreads["none"]
            variances = found.squares / found.n_points
            scaling = Scaling.by_deviations(np.sqrt(variances), variances + found.mean**2)
            spread = found.divided(scaling.divisors)
        points = scaling(self.take(random_bases(spread.n_points, n_bases, seed)))
        dense = (points.toarray() if sp.issparse(points) else points).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            bandwidth = 2 * float(spread.squares.sum()) / spread.n_points * bandwidth_factor
            relative = (dense - spread.mean).astype(np.float32)
        if not (np.isfinite(bandwidth) and np.isfinite(relative).all()):
            raise_for_overflow(points, self.modality)
        return RBFMap(relative, spread.mean, bandwidth if bandwidth > 0 else 1.0, scaling)


_Look = tuple[list[_Spread], list[Any]]


def _look(kinds: tuple[str, ...], numbers: Integers, modality: str, n_jobs: int, start: int, block: Any) -> _Look:
    """Return the spreads of a block's rows, and those rows that are asked for."""
    n = block.shape[0]
    raise_if_not_finite(block, modality, np.arange(start, start + n))
    first, last = np.searchsorted(numbers, (start, start + n))
    with Workers(n_jobs) as workers:
        spreads = [_spread(Scaling(kind, np.zeros(0)), block, workers) for kind in kinds]
    return spreads, [block[numbers[first:last] - start]]


def _spread(scaling: Scaling, block: Any, workers: Workers) -> _Spread:
    def of_chunk(start: int, stop: int) -> _Spread:
        with np.errstate(over="ignore", invalid="ignore"):  # who makes a kernel of it looks whether it is finite
            return _Spread.of(scaling(block[start:stop]))

    return functools.reduce(operator.add, workers.map_blocks(of_chunk, block.shape[0], CHUNK_ROWS))


def _merged(one: _Look, other: _Look) -> _Look:
    return [a + b for a, b in zip(one[0], other[0], strict=True)], one[1] + other[1]
