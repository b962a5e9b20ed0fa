"""CMSSH: cross-modality similarity-sensitive hashing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.linalg

from dlfh._arrays import Floats, Integers, Mask
from dlfh._mathematics.boosting import WeightedPairs, adaptive_factor, boost
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.correlation import oriented, top_pair
from dlfh._parallel import blas_threads
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import AtLeastTwo, Share

_NO_GAIN = 1e-12  #: An increase of r within rounding error.


@dataclass(eq=False, repr=False, kw_only=True)
class CMSSH(Method):
    """Cross-modality similarity-sensitive hashing (Bronstein et al., CVPR 2010).

    A bit is ``h(x) = sgn(p'x + a)`` in one modality and ``g(y) = sgn(q'y + b)`` in the other. Bits are learned one
    after another by boosting. Each maximises the weighted agreement

        ``r = sum_k w_k s_k h(x_k) g(y_k)``

    over pairs k of points, with weights w_k and s_k = +1 for similar pairs, -1 for others. The directions p and q solve
    the problem without signs and thresholds: they are the first singular vectors of
    ``C = sum_k w_k s_k (x_k - mean)(y_k - mean)'``. The thresholds a and b then maximise r itself, by alternating exact
    scans over all cuts until r stops increasing. Finally ``w_k <- w_k exp(-alpha s_k h(x_k) g(y_k))`` increases the
    weight of misclassified pairs for the next bit.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    n_pairs : int, default 50000
        Number of sampled pairs, half of them similar.
    step : {"adaptive", "unit"}, default "adaptive"
        ``alpha = log((1 + r) / (1 - r)) / 2`` as in AdaBoost, or the paper's ``alpha = 1``.
    variance : float, default 0.99
        Share of each modality's variance to keep. Principal directions get variance 1, since C depends on their scale.
    random_state : int, numpy Generator or None
        Seed for sampling pairs.

    Attributes
    ----------
    agreement_ : ndarray of float64 (n_bits,)
        r of each bit, under the weights with which it was learned.

    Notes
    -----
    The authors' code was not found. The formulas follow the paper; n_pairs, variance and the share of similar pairs are
    our choices. With either step, bits have equal weight in distances. The unit step equals AdaBoost's for bits with r
    of about .76. With a smaller r it overweights the misclassified pairs: the next bit is then equal in one modality
    and inverted in the other, and the two cancel. On Wiki the first bit has r = .2, and codes learned with unit steps
    are near chance; hence the default. If features have few directions, bits repeat them. A bit that is no better than
    chance is learned again from newly sampled pairs, a few times at most.
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

    n_pairs: AtLeastTwo = 50_000
    step: Literal["adaptive", "unit"] = "adaptive"
    variance: Share = 0.99

    agreement_: Floats = field(init=False)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        rng = check_random_state(self.random_state)
        x, y = (Centred(matrix, name) for name, matrix in features.items())
        bases = [principal_directions(view.gram / view.n_points, float(self.variance)) for view in (x, y)]
        # With a sparse modality, C is cheaper to compute from the features than from projected points.
        project = not (x.is_sparse or y.is_sparse)

        def draw() -> _Learner:
            pairs = WeightedPairs.sample(label_sets, int(self.n_pairs), rng)
            views = zip((x, y), bases, pairs.rows, strict=True)
            return _Learner(pairs, [_Points.take(view, basis, rows, project) for view, basis, rows in views])

        # The unit step multiplies the weights of correct pairs, relative to the others, by exp(-1) / exp(1).
        factor = adaptive_factor if self.step == "adaptive" else lambda error: math.exp(-2)
        with blas_threads(1), progress(self.verbose) as bar:
            bits = boost(draw, int(self.n_bits), factor, bar.counter("bits", int(self.n_bits)))
        self.agreement_ = np.array([bit.agreement for bit in bits])
        weights = [basis @ np.column_stack([bit.directions[m] for bit in bits]) for m, basis in enumerate(bases)]
        self._hash_linearly(features, [x, y], weights, [np.array([bit.offsets[m] for bit in bits]) for m in (0, 1)])


def principal_directions(covariance: Floats, share: float) -> Floats:
    """Return the fewest principal directions that hold ``share`` of the variance, scaled to variance 1."""
    variances, vectors = scipy.linalg.eigh(covariance, check_finite=False)
    variances, vectors = variances[::-1], vectors[:, ::-1]
    rank = np.count_nonzero(variances > len(variances) * np.finfo(np.float64).eps * variances[0])
    cumulative = np.cumsum(variances[: max(rank, 1)])
    k = min(int(np.searchsorted(cumulative, share * cumulative[-1])) + 1, len(cumulative))
    # Without any variance, return one direction of unit length.
    lengths = np.sqrt(variances[:k]) if rank else np.ones(1)
    return vectors[:, :k] * oriented(vectors[:, :k]) / lengths


class _Bit(NamedTuple):
    directions: tuple[Floats, Floats]
    offsets: tuple[float, float]
    agreement: float


class _Points(NamedTuple):
    """Points in principal directions: ``(matrix - mean) @ basis``, or ``matrix`` if already projected."""

    matrix: Features
    mean: Floats
    basis: Floats | None

    @classmethod
    def take(cls, view: Centred, basis: Floats, rows: Integers, project: bool) -> _Points:
        if view.is_sparse:
            return cls(view.features[rows].astype(np.float64), view.mean, basis)
        points, zero = view.take(rows), np.zeros(view.n_features)
        return cls(points @ basis, zero[:0], None) if project else cls(points, zero, basis)

    def along(self, direction: Floats) -> Floats:
        """Return the points' values along a combination of principal directions."""
        if self.basis is None:
            return np.asarray(self.matrix @ direction)
        weights = self.basis @ direction
        return np.asarray(self.matrix @ weights - self.mean @ weights)


@dataclass
class _Learner:
    """Learns bits from one sample of pairs and the points of these pairs."""

    pairs: WeightedPairs
    points: list[_Points]

    def learn(self) -> tuple[_Bit, Mask]:
        x, y = self.points
        cross = self.pairs.cross(x.matrix, y.matrix)
        cross = cross if x.basis is None else x.basis.T @ cross
        p, q, _ = top_pair(cross if y.basis is None else cross @ y.basis)
        values = x.along(p), y.along(q)
        # The thresholds a and b start from the means; each scan is exact, so r never decreases.
        index, signed = self.pairs.index, self.pairs.signed
        offsets = [-float(self.pairs.weights @ value[i]) for value, i in zip(values, index, strict=True)]
        r, before = -1.0, -math.inf
        while r > before + _NO_GAIN:
            before = r
            for m, other in ((0, 1), (1, 0)):
                signs = np.where(values[other] + offsets[other] > 0, 1.0, -1.0)
                gains = self.pairs.by_point(m, signed * signs[index[other]])
                offsets[m], r = best_cut(values[m], gains)
        a, b = offsets
        correct = self.pairs.correct(values[0] + a > 0, values[1] + b > 0)
        return _Bit((p, q), (a, b), 1 - 2 * self.pairs.error(correct)), correct


def best_cut(values: Floats, gains: Floats) -> tuple[float, float]:
    """Return the offset that maximises ``sum_i gains_i sgn(values_i + offset)``, and the sum.

    A cut lies halfway between two different values, so that neither side is empty. If all are equal, all get -1.
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
    # Neighbouring floats have no midpoint. A value at the cut gets -1, as the lower one should.
    return -(middle if middle < high else low), float(sums[best])
