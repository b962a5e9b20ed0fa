"""Statistics of one modality's features, from which scalings and kernels follow, and samples of its rows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers
from dlfh._parallel import Workers
from dlfh._validation import Features, column_means, raise_for_overflow, raise_if_not_finite
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import in_one_block
from dlfh.hashing.base import FitContext
from dlfh.hashing.rbf import CHUNK_ROWS, RBFMap, cluster_centres, cluster_sample, random_bases, squared_norms
from dlfh.hashing.scaling import Scaling


@dataclass(frozen=True)
class _Spread:
    """Mean of points, and the sum of their squared distances to it."""

    n_points: int
    mean: Floats
    squares: float

    @classmethod
    def of(cls, rows: Features) -> _Spread:
        mean = column_means(rows)
        chunks = range(0, rows.shape[0], CHUNK_ROWS)
        squares = sum((float(squared_norms(rows[start : start + CHUNK_ROWS], mean).sum()) for start in chunks), 0.0)
        return cls(rows.shape[0], mean, squares)

    def __add__(self, other: _Spread) -> _Spread:
        n = self.n_points + other.n_points
        shift = other.mean - self.mean
        squares = self.squares + other.squares + self.n_points * other.n_points / n * float(shift @ shift)
        return _Spread(n, self.mean + other.n_points / n * shift, squares)


@dataclass(frozen=True)
class _SecondMoments:
    """Mean and mean square of each feature."""

    n_points: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, rows: Features) -> _SecondMoments:
        if sp.issparse(rows):
            return cls(rows.shape[0], column_means(rows), column_means(rows.astype(np.float64).power(2)))
        total = np.zeros(rows.shape[1])
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[start : start + CHUNK_ROWS].astype(np.float64)
            total += np.einsum("nd,nd->d", chunk, chunk)
        return cls(len(rows), column_means(rows), total / len(rows))

    def __add__(self, other: _SecondMoments) -> _SecondMoments:
        n = self.n_points + other.n_points
        share = other.n_points / n
        squares = self.squares + share * (other.squares - self.squares)
        return _SecondMoments(n, self.mean + share * (other.mean - self.mean), squares)

    @property
    def variances(self) -> Floats:
        return np.maximum(self.squares - self.mean**2, 0)

    def scaling(self) -> Scaling:
        """Return the standard scaling."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Scaling.by_deviations(np.sqrt(self.variances), self.squares)

    def spread(self, scaling: Scaling) -> _Spread:
        """Return the spread of the scaled features."""
        total = self.n_points * float((self.variances / scaling.divisors**2).sum())
        return _Spread(self.n_points, self.mean / scaling.divisors, total)


class Survey:
    """Statistics and rows of one modality's features, read in as few passes as possible."""

    def __init__(self, features: Blocks, modality: str, n_jobs: int = 1) -> None:
        self.features, self.modality, self.n_jobs = features, modality, n_jobs
        self._spreads: dict[str, Any] = {}  # by kind of scaling; second moments for "standard"
        self._numbers: Integers = np.empty(0, np.int64)
        self._requested: Integers = np.empty(0, np.int64)
        self._rows: Any = None

    @classmethod
    def of(cls, features: Blocks, modality: str, context: FitContext) -> Survey:
        """Return the survey of these features in the context, or a new one."""
        known = context.surveys.get(modality)
        if known is None or known.features is not features:
            known = context.surveys[modality] = cls(features, modality, context.n_jobs(features))
        return known

    def request(self, numbers: Integers) -> None:
        """Let the next pass over the blocks read these rows too."""
        self._requested = np.union1d(numbers, self._requested)

    def look(self, numbers: Integers, scalings: Sequence[str] = ()) -> None:
        """Read all blocks once for rows, by number, and statistics of scaled features, unless all are known."""
        kinds = tuple(kind for kind in scalings if kind not in self._spreads)
        if not kinds and np.isin(numbers, self._numbers).all():
            return
        wanted = functools.reduce(np.union1d, (numbers, self._numbers, self._requested))
        chunk = None if self.features.whole is not None else CHUNK_ROWS
        on_block = functools.partial(_look, kinds, wanted, self.modality, self.n_jobs, chunk)
        found, parts = self.features.map_reduce(on_block, _merge)
        self._spreads |= dict(zip(kinds, found, strict=True))
        self._numbers = wanted
        self._rows = sp.csr_array(sp.vstack(parts)) if self.features.is_sparse else np.concatenate(parts)

    def take(self, numbers: Integers) -> Any:
        """Return rows that were read."""
        return self._rows[np.searchsorted(self._numbers, numbers)]

    def scaling(self, kind: str) -> Scaling:
        """Return a scaling fitted to the features."""
        if kind != "standard":
            return Scaling(kind, np.zeros(0))
        self.look(self._numbers, [kind])
        return self._spreads[kind].scaling()

    def kernel(
        self, n_bases: int, seed: int, *, bases: str = "random", bandwidth: float = 1.0, scaling: str = "none"
    ) -> RBFMap:
        """Return the RBF kernel at random points or cluster centres.

        Its bandwidth is a multiple of the mean squared distance between two points, 2 (mean |x|^2 - |mean x|^2).
        """
        n, n_features = self.features.shape
        numbers = random_bases(n, n_bases, seed)
        if bases == "kmeans":
            numbers = cluster_sample(n, n_features, n_bases, seed)
        self.look(numbers, [scaling])
        scale, spread = self.scaling(scaling), self._spreads[scaling]
        if scaling == "standard":
            whole = self.features.whole
            spread = spread.spread(scale) if whole is None else _Spread.of(scale(whole))
        points = scale(self.take(numbers))
        with np.errstate(over="ignore", invalid="ignore"):
            width = 2 * spread.squares / n * bandwidth
            dense = (points.toarray() if sp.issparse(points) else points).astype(np.float64)
            relative = (dense - spread.mean).astype(np.float32)
        if not (np.isfinite(width) and np.isfinite(relative).all()):
            raise_for_overflow(points, self.modality)
        if bases == "kmeans":
            relative = cluster_centres(relative, n_bases, seed)
        return RBFMap(relative, spread.mean, width if width > 0 else 1.0, scale)


def fit_kernel(features: Features, n_bases: int, seed: int, modality: str) -> RBFMap:
    """Return the RBF kernel of features in memory at random bases."""
    return Survey(in_one_block(features, modality), modality).kernel(n_bases, seed)


_Look = tuple[list[Any], list[Any]]


def _look(
    kinds: tuple[str, ...], numbers: Integers, modality: str, n_jobs: int, chunk: int | None, start: int, block: Any
) -> _Look:
    """Return the statistics of a block by kind of scaling, and the rows of the block among ``numbers``."""
    n = block.shape[0]
    raise_if_not_finite(block, modality, np.arange(start, start + n))
    first, last = np.searchsorted(numbers, (start, start + n))

    def statistics(kind: str) -> Any:
        def of_chunk(begin: int, end: int) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):  # kernels check whether results are finite
                rows = block if end - begin == n else block[begin:end]
                return _SecondMoments.of(rows) if kind == "standard" else _Spread.of(Scaling(kind, np.zeros(0))(rows))

        return functools.reduce(operator.add, workers.map_blocks(of_chunk, n, chunk or n))

    with Workers(n_jobs) as workers:
        return [statistics(kind) for kind in kinds], [block[numbers[first:last] - start]]


def _merge(one: _Look, other: _Look) -> _Look:
    return [a + b for a, b in zip(one[0], other[0], strict=True)], one[1] + other[1]
