"""Feature maps that precede a regression (scalings and RBF kernels), and the statistics they need."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._parallel import Workers
from dlfh._validation import Features, column_means, raise_for_overflow, raise_if_not_finite
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import in_one_block
from dlfh.hashing.base import FitContext, check_array

#: Histograms, counts and measurements need different scalings. "root" takes signed square roots and scales every point
#: to length 1, which suits histograms and counts; "standard" divides every feature by its standard deviation.
SCALINGS: Final[tuple[Literal["none", "root", "standard"], ...]] = ("none", "root", "standard")

#: Number of rows whose kernel values are in memory at once, and in a processor's cache at once.
CHUNK_ROWS, _CACHED_ROWS = 4096, 512

#: Maximum size of the dense rows that k-means clusters, in bytes.
_CLUSTER_BYTES = 256 << 20


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling, with divisors for "standard". Zeros stay zeros, so that sparse features stay sparse."""

    kind: str
    divisors: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def by_deviations(cls, deviations: Floats, squares: Floats) -> Scaling:
        """Return the standard scaling; features that vary only by rounding errors keep their scale."""
        usable = np.isfinite(deviations) & (deviations > 1e-6 * np.sqrt(np.maximum(squares, 0)))
        return cls("standard", np.where(usable, deviations, 1.0))

    def __call__(self, features: Features) -> Features:
        """Return the scaled features; dense ones in at least single precision."""
        if self.kind == "none":
            return features
        sparse = sp.issparse(features)
        values = (features.data if sparse else features).astype(np.float64)
        if self.kind == "standard":
            values /= self.divisors[features.indices] if sparse else self.divisors
        else:
            # The squares of the roots add up to the sum of the absolute values.
            sums = np.asarray(abs(features.astype(np.float64)).sum(axis=1)).ravel()
            lengths = np.sqrt(np.where(sums > 0, sums, 1.0))
            by_row = np.repeat(lengths, np.diff(features.indptr)) if sparse else lengths[:, None]
            values = np.sign(values) * np.sqrt(np.abs(values)) / by_row
        if sparse:
            return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)
        return values.astype(np.float32 if features.dtype in (np.float16, np.float32) else np.float64)

    def to_arrays(self) -> dict[str, Array]:
        kind = {"scaling": np.array([SCALINGS.index(self.kind)], np.uint8)}
        return kind | ({"divisors": self.divisors} if self.kind == "standard" else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_features: int) -> Scaling:
        number = int(check_array(arrays, "scaling", np.uint8, (1,))[0])
        if number >= len(SCALINGS):
            raise ValueError(f"its scaling number must be less than {len(SCALINGS)}, got {number}")
        if SCALINGS[number] != "standard":
            return cls(SCALINGS[number])
        divisors = check_array(arrays, "divisors", np.float64, (n_features,))
        if not (divisors > 0).all():
            raise ValueError("its divisors must be positive")
        return cls("standard", divisors)


#: Leaves features unchanged.
UNSCALED: Final = Scaling("none")


@dataclass(frozen=True, eq=False)
class RBFMap:
    """Kernel values k(x, z) = exp(-|x - z|^2 / bandwidth) at the bases z, of scaled points x.

    bases (n_bases, n_features): Relative to ``centre``: distances do not change, and rounding errors do not grow with
        the mean.
    bandwidth: The mean squared distance between two training points, or a multiple of it.
    """

    bases: Singles
    centre: Floats
    bandwidth: float
    scaling: Scaling = UNSCALED
    _scaled: dict[np.dtype[Any], tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, rows: Features, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return the kernel values of rows, shape (n, n_bases); they may be infinite or NaN."""
        values = np.empty((rows.shape[0], len(self.bases)), dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(values), _CACHED_ROWS):
                part = slice(start, start + _CACHED_ROWS)
                self._fill(values[part], self.scaling(rows[part] if len(values) > _CACHED_ROWS else rows))
        return values

    def _fill(self, values: Array, rows: Features) -> None:
        # -|x - z|^2 / b = 2 x'z / b - |x|^2 / b - |z|^2 / b
        bases, base_norms = self._scaled_bases(values.dtype)
        if sp.issparse(rows):  # in double precision, because rows are centred after the multiplication
            wide, _ = self._scaled_bases(np.dtype(np.float64))
            norms = _squared_norms(rows, self.centre)
            values[:] = rows.astype(np.float64) @ wide - self.centre @ wide - (norms / self.bandwidth)[:, None]
        else:
            centred = np.subtract(rows, self.centre, dtype=np.float64)
            norms = np.einsum("nd,nd->n", centred, centred)
            np.matmul(centred.astype(values.dtype, copy=False), bases, out=values)
            values -= (norms / self.bandwidth).astype(values.dtype)[:, None]
        values -= base_norms
        np.minimum(values, 0, out=values)
        np.exp(values, out=values)

    def _scaled_bases(self, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return 2 z / b, shape (n_features, n_bases), and |z|^2 / b."""
        if dtype not in self._scaled:
            bases = self.bases.astype(np.float64)
            norms = np.einsum("kd,kd->k", bases, bases) / self.bandwidth
            bases *= 2 / self.bandwidth
            self._scaled[dtype] = bases.T.astype(dtype, order="C"), norms.astype(dtype)
        return self._scaled[dtype]

    def __reduce__(self) -> tuple[Any, ...]:
        return RBFMap, (self.bases, self.centre, self.bandwidth, self.scaling)  # workers scale the bases themselves

    def between_bases(self) -> Floats:
        """Return K0, the kernel values of the bases at each other."""
        return replace(self, scaling=UNSCALED)(self.bases.astype(np.float64) + self.centre)

    def to_arrays(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {"bases": self.bases, "centre": self.centre}
        return arrays | {"bandwidth": np.array([self.bandwidth])} | self.scaling.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> RBFMap:
        bases = check_array(arrays, "bases", np.float32, (None, None))
        centre = check_array(arrays, "centre", np.float64, bases.shape[1:])
        bandwidth = float(check_array(arrays, "bandwidth", np.float64, (1,))[0])
        if not bandwidth > 0:
            raise ValueError(f"its bandwidth must be positive, got {bandwidth}")
        return cls(bases, centre, bandwidth, Scaling.from_arrays(arrays, len(centre)))


def _squared_norms(rows: Features, centre: Floats) -> Floats:
    if sp.issparse(rows):
        squares = np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel()
        return squares - 2 * (rows @ centre) + centre @ centre
    centred = np.subtract(rows, centre, dtype=np.float64)
    return np.einsum("nd,nd->n", centred, centred)


def random_bases(n_points: int, n_bases: int, seed: int) -> Integers:
    """Draw the points to use as bases, ascending; a seed gives the same points in every modality."""
    return np.sort(np.random.default_rng(seed).choice(n_points, min(n_bases, n_points), replace=False))


def _cluster_centres(points: Singles, n_bases: int, seed: int) -> Singles:
    import faiss  # here, because encoding does not need it

    n, n_features = points.shape
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": n}
    means = faiss.Kmeans(n_features, min(n_bases, n), niter=20, seed=seed % 2**31, **limits)
    means.train(points)
    return np.asarray(means.centroids)


@dataclass(frozen=True)
class _Spread:
    """Mean of points, and the sum of their squared distances to it."""

    n_points: int
    mean: Floats
    squares: float

    @classmethod
    def of(cls, rows: Features) -> _Spread:
        mean = column_means(rows)
        return cls(rows.shape[0], mean, float(_squared_norms(rows, mean).sum()))

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
        values = rows.astype(np.float64)
        return cls(len(rows), column_means(rows), np.einsum("nd,nd->d", values, values) / len(rows))

    def __add__(self, other: _SecondMoments) -> _SecondMoments:
        n = self.n_points + other.n_points
        share = other.n_points / n
        squares = self.squares + share * (other.squares - self.squares)
        return _SecondMoments(n, self.mean + share * (other.mean - self.mean), squares)

    @property
    def variances(self) -> Floats:
        return np.maximum(self.squares - self.mean**2, 0)

    def scaling(self) -> Scaling:
        with np.errstate(over="ignore", invalid="ignore"):
            return Scaling.by_deviations(np.sqrt(self.variances), self.squares)

    def spread(self, scaling: Scaling) -> _Spread:
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
        """Read rows, by number, and statistics of scaled features in one pass over the blocks, unless all are known."""
        kinds = tuple(kind for kind in scalings if kind not in self._spreads)
        if not kinds and np.isin(numbers, self._numbers).all():
            return
        wanted = functools.reduce(np.union1d, (numbers, self._numbers, self._requested))
        on_block = functools.partial(_look, kinds, wanted, self.modality, self.n_jobs)
        found, parts = self.features.map_reduce(on_block, _merge)
        self._spreads |= dict(zip(kinds, found, strict=True))
        self._numbers = wanted
        self._rows = sp.csr_array(sp.vstack(parts)) if self.features.is_sparse else np.concatenate(parts)

    def take(self, numbers: Integers) -> Any:
        return self._rows[np.searchsorted(self._numbers, numbers)]

    def scaling(self, kind: str) -> Scaling:
        """Return a scaling fitted to the features."""
        if kind != "standard":
            return Scaling(kind)
        self.look(self._numbers, [kind])
        return self._spreads[kind].scaling()

    def kernel(
        self, n_bases: int, seed: int, *, bases: str = "random", bandwidth: float = 1.0, scaling: str = "none"
    ) -> RBFMap:
        """Return the RBF kernel at random points or cluster centres.

        Its bandwidth is a multiple of the mean squared distance between two points, 2 (mean |x|^2 - |mean x|^2).
        """
        n, n_features = self.features.shape
        n_clustered = min(64 * n_bases, _CLUSTER_BYTES // (4 * n_features)) if bases == "kmeans" else 0
        numbers = random_bases(n, max(n_bases, n_clustered), seed)
        self.look(numbers, [scaling])
        scale, spread = self.scaling(scaling), self._spreads[scaling]
        if scaling == "standard":
            spread = spread.spread(scale)
        points = scale(self.take(numbers))
        with np.errstate(over="ignore", invalid="ignore"):
            width = 2 * spread.squares / n * bandwidth
            dense = (points.toarray() if sp.issparse(points) else points).astype(np.float64)
            relative = (dense - spread.mean).astype(np.float32)
        if not (np.isfinite(width) and np.isfinite(relative).all()):
            raise_for_overflow(points, self.modality)
        if bases == "kmeans":
            relative = _cluster_centres(relative, n_bases, seed)
        return RBFMap(relative, spread.mean, width if width > 0 else 1.0, scale)


def fit_kernel(features: Features, n_bases: int, seed: int, modality: str) -> RBFMap:
    """Return an RBF kernel map with randomly chosen bases, fitted to features in memory."""
    return Survey(in_one_block(features, modality), modality).kernel(n_bases, seed)


_Look = tuple[list[Any], list[Any]]


def _look(kinds: tuple[str, ...], numbers: Integers, modality: str, n_jobs: int, start: int, block: Any) -> _Look:
    """Return the statistics of a block by kind of scaling, and the rows of the block among ``numbers``."""
    n = block.shape[0]
    wanted = numbers[slice(*np.searchsorted(numbers, (start, start + n)))]
    taken = block[wanted - start]
    # Without statistics, the other rows are not read: the learner that sums them checks them.
    raise_if_not_finite(*((block, modality, np.arange(start, start + n)) if kinds else (taken, modality, wanted)))

    def statistics(kind: str) -> Any:
        def of_chunk(begin: int, end: int) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):  # kernels check whether results are finite
                rows = block[begin:end]
                return _SecondMoments.of(rows) if kind == "standard" else _Spread.of(Scaling(kind)(rows))

        return functools.reduce(operator.add, workers.map_blocks(of_chunk, n, CHUNK_ROWS))

    with Workers(n_jobs) as workers:
        return [statistics(kind) for kind in kinds], [taken]


def _merge(one: _Look, other: _Look) -> _Look:
    return [a + b for a, b in zip(one[0], other[0], strict=True)], one[1] + other[1]
