"""CMSSH: cross-modality similarity-sensitive hashing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg

from dlfh._mathematics.boosting import WeightedPairs, adaptive_factor, boost
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.correlation import oriented, top_pair
from dlfh._parallel import Workers, blas_threads
from dlfh._progress import progress
from dlfh._validation import Features, check_choice, check_fraction, check_integer, check_random_state
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

__all__ = ["CMSSH", "best_cut", "principal_directions"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class CMSSH(CrossModalHasher):
    """Cross-modality similarity-sensitive hashing (Bronstein et al., CVPR 2010).

    A bit is ``h(x) = sgn(p'x + a)`` in one modality and ``g(y) = sgn(q'y + b)`` in the other. Bits are learned
    one after another by boosting. For pairs k of points with weights w_k, s_k = +1 if similar and -1 if not,

        ``r = sum_k w_k s_k h(x_k) g(y_k)``

    is maximised. The directions p and q come from the problem without signs and thresholds, where they are the
    first singular vectors of ``C = sum_k w_k s_k (x_k - mean)(y_k - mean)'``. The thresholds a and b are then
    the best for r itself, found by exact scans over all cuts, in turn until r rises no more. At last
    ``w_k <- w_k exp(-alpha s_k h(x_k) g(y_k))``: pairs that the bit gets wrong count more for the next.

    Parameters
    ----------
    n_bits : int, default 64
    n_pairs : int, default 50000
        Pairs to draw, half of them similar.
    step : {"adaptive", "unit"}, default "adaptive"
        ``alpha = log((1 + r) / (1 - r)) / 2`` as in AdaBoost, or the paper's ``alpha = 1``.
    variance : float, default 0.99
        Share of each modality's variance that is kept. Its principal directions are scaled to variance 1 first,
        as C depends on the features' scales.
    random_state : int, numpy Generator or None
        Seed of the pairs.
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    agreement_ : ndarray of float64 (n_bits,)
        r of each bit, under the weights that it was learned with.

    Notes
    -----
    No code of the authors was found; the formulas are from knowledge of the paper, and n_pairs, variance and
    the half of similar pairs are ours. Either step leaves codes in plain Hamming space. The unit step suits
    bits with r of about .76, for which it is AdaBoost's. Where r is smaller it makes the pairs that a bit gets
    wrong the heavier ones: the next bit then is the same in one modality and the opposite in the other, and
    the two cancel. On the Wiki data r is .2 at the first bit, and codes learned with unit steps are near chance:
    hence the default. Directions repeat when features have few of them; a bit that is no better than chance is
    learned again from fresh pairs, a few times at most.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> CMSSH(n_bits=16, random_state=0).fit(data.modalities, data.labels).codes_["text"].shape
    (300, 2)
    """

    kind = "CMSSH"
    info = MethodInfo(
        title="Cross-modality similarity-sensitive hashing",
        paper="Bronstein, Bronstein, Michel and Paragios, CVPR 2010",
        supervised=True,
        discrete=False,
        protocols=("hashed",),
        complexity="n d² + d³ + c (N d² + d³)",
    )
    _saved_arrays = ("agreement_",)

    agreement_: Floats

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_pairs: int = 50_000,
        step: Literal["adaptive", "unit"] = "adaptive",
        variance: float = 0.99,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.n_pairs = n_pairs
        self.step = step
        self.variance = variance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.n_pairs, "n_pairs", 2)
        check_choice(self.step, "step", ("adaptive", "unit"))
        check_fraction(self.variance, "variance", allow_one=True)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        rng = check_random_state(self.random_state)
        x, y = (Centred(matrix, name) for name, matrix in features.items())
        bases = [principal_directions(each.gram / each.n_points, float(self.variance)) for each in (x, y)]
        # A sparse side makes C cheap in terms of features, and dense points need not be projected first.
        is_projected = not (x.is_sparse or y.is_sparse)
        sides = [_Side(each, basis, is_projected) for each, basis in zip((x, y), bases, strict=True)]

        def draw() -> _Learner:
            pairs = WeightedPairs.sample(label_sets, int(self.n_pairs), rng)
            return _Learner(pairs, [each.take(r) for each, r in zip(sides, pairs.rows, strict=True)])

        factor = adaptive_factor if self.step == "adaptive" else _unit_factor
        with blas_threads(1), progress(self.verbose) as bar:
            bits = boost(draw, int(self.n_bits), factor, bar.counter("bits", int(self.n_bits)))
        self.agreement_ = np.array([bit.agreement for bit in bits])
        self.hash_functions_ = {
            each.modality: LinearHash.of_centred(
                each,
                basis @ np.column_stack([bit.directions[side] for bit in bits]),
                intercept=np.array([bit.offsets[side] for bit in bits]),
            )
            for side, (each, basis) in enumerate(zip((x, y), bases, strict=True))
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)


def _unit_factor(error: float) -> float:
    """Return exp(-1) / exp(1): what the unit step leaves to correct pairs, beside others."""
    return math.exp(-2)


def principal_directions(covariance: Floats, share: float) -> Floats:
    """Return the directions of most variance, scaled to variance 1, shape (d, k).

    As few as hold ``share`` of all variance. Without any variance there is one, of unit length.

    Examples
    --------
    >>> principal_directions(np.diag([1.0, 4.0, 0.04]), share=0.99)
    array([[0. , 1. ],
           [0.5, 0. ],
           [0. , 0. ]])
    """
    variances, vectors = scipy.linalg.eigh(covariance, check_finite=False)
    variances, vectors = variances[::-1], vectors[:, ::-1]
    n_real = np.count_nonzero(variances > len(variances) * np.finfo(np.float64).eps * variances[0])
    running = np.cumsum(variances[: max(n_real, 1)])
    k = min(int(np.searchsorted(running, share * running[-1])) + 1, len(running))
    lengths = np.sqrt(variances[:k]) if n_real else np.ones(1)
    return vectors[:, :k] * oriented(vectors[:, :k]) / lengths


@dataclass(frozen=True)
class _Bit:
    directions: tuple[Floats, Floats]
    offsets: tuple[float, float]
    agreement: float


@dataclass(frozen=True)
class _Side:
    """One modality's points along its principal directions."""

    features: Centred
    basis: Floats
    is_projected: bool

    def take(self, rows: npt.NDArray[np.int64]) -> _Points:
        if self.features.is_sparse:
            return _Points(self.features.features[rows].astype(np.float64), self.features.mean, self.basis)
        points, zero = self.features.take(rows), np.zeros(self.features.n_features)
        return _Points(points @ self.basis, zero[:0], None) if self.is_projected else _Points(points, zero, self.basis)


@dataclass(frozen=True)
class _Points:
    """Some points, and how to project them: ``(matrix - mean) @ basis``, or ``matrix`` if there is no basis."""

    matrix: Features
    mean: Floats
    basis: Floats | None

    def along(self, direction: Floats) -> Floats:
        """Return the points' values along a principal direction."""
        if self.basis is None:
            return np.asarray(self.matrix @ direction)
        weights = self.basis @ direction
        return np.asarray(self.matrix @ weights - self.mean @ weights)


class _Learner:
    """Learns bits from one sample of pairs, and the points of both sides that are in them."""

    def __init__(self, pairs: WeightedPairs, points: list[_Points]) -> None:
        self.pairs = pairs
        self.points = points

    def learn(self) -> tuple[_Bit, Bools]:
        x, y = self.points
        cross = self.pairs.cross(x.matrix, y.matrix)
        cross = cross if x.basis is None else x.basis.T @ cross
        p, q, _ = top_pair(cross if y.basis is None else cross @ y.basis)
        values = x.along(p), y.along(q)
        a, b = self._thresholds(values)
        correct = self.pairs.correct(values[0] + a > 0, values[1] + b > 0)
        return _Bit((p, q), (a, b), 1 - 2 * self.pairs.error(correct)), correct

    def _thresholds(self, values: tuple[Floats, Floats]) -> tuple[float, float]:
        """Return a and b, from the means on: each scan is exact, so r never falls."""
        index, signed = self.pairs.index, self.pairs.signed
        offsets = [-float(self.pairs.weights @ value[each]) for value, each in zip(values, index, strict=True)]
        r, before = -1.0, -math.inf
        while r > before + _NO_GAIN:
            before = r
            for own, other in ((0, 1), (1, 0)):
                signs = np.where(values[other] + offsets[other] > 0, 1.0, -1.0)
                gains = self.pairs.by_point(own, signed * signs[index[other]])
                offsets[own], r = best_cut(values[own], gains)
        return offsets[0], offsets[1]


#: A rise of r that is rounding.
_NO_GAIN = 1e-12


def best_cut(values: Floats, gains: Floats) -> tuple[float, float]:
    """Return the offset that maximises ``sum_i gains_i sgn(values_i + offset)``, and that sum.

    A cut is half-way between two different values, so equal values are never parted, and both sides have
    some unless all values are equal: then there is no cut, and all of them get -1.

    Parameters
    ----------
    values, gains : ndarray of float64 (n,)

    Examples
    --------
    >>> best_cut(np.array([3.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.0, -1.0]))
    (-0.5, 4.0)
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    below = np.cumsum(gains[order])
    ends = np.flatnonzero(ordered[:-1] < ordered[1:])
    if len(ends) == 0:
        return -float(ordered[0]), -float(below[-1])
    sums = below[-1] - 2 * below[ends]
    best = int(np.argmax(sums))
    low, high = float(ordered[ends[best]]), float(ordered[ends[best] + 1])
    middle = low + (high - low) / 2
    # Between neighbouring floats there is nothing: a value at the cut itself gets -1, as the lower one should.
    return -(middle if middle < high else low), float(sums[best])
