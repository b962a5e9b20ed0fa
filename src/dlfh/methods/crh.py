"""CRH: co-regularized hashing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from dlfh._arrays import Floats, Mask
from dlfh._mathematics.boosting import WeightedPairs, adaptive_factor, boost
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.correlation import Whitening, top_pair
from dlfh._parallel import blas_threads
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.errors import InputError
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import AtLeastTwo, NonNegative, Positive, PositiveInt


@dataclass(eq=False, repr=False, kw_only=True)
class CRH(Method):
    """Co-regularized hashing (Zhen and Yeung, NIPS 2012).

    A bit is ``f(x) = sgn(wx'x)`` in one modality and ``g(y) = sgn(wy'y)`` in the other, and minimises

        ``mean_i [1 - |wx'x_i|]+ + mean_j [1 - |wy'y_j|]+ + gamma sum_n w_n l_n
        + ridge/2 (|wx|^2 + |wy|^2)``

    over points x_i and y_j, and pairs n of points with weights w_n. The first two terms keep points away from the bit's
    threshold. With ``d_n = wx'x_n - wy'y_n``, the loss l_n of a similar pair is d_n^2. A dissimilar pair has the loss
    tau(d_n), which decreases from its maximum at 0 to zero at the margin m:

        ``tau(d) = a t^2/2 - d^2/2`` for ``|d| <= t = m/a``,   ``(m - |d|)^2 / (2 (a - 1))`` up to m,   0 beyond.

    Every term is a difference of convex functions: ``[1 - |z|]+ = max(1, |z|) - |z|`` and ``tau = tau1 - tau2`` with
    ``tau2 = d^2/2 - a t^2/2``. A round of the concave-convex procedure replaces the subtracted functions by their
    tangents and minimises the convex remainder, alternately for wx and wy, so the objective never increases. Between
    bits the pairs are boosted: weights of correctly classified pairs are multiplied by e / (1 - e) for an error e.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    gamma : float, default 1000
        Weight of the pairs.
    ridge : float, default 0.01
        The paper's lambda_x and lambda_y. Features are scaled to a mean |x|^2 of 1.
    margin : float, default 1
        m, the distance beyond which dissimilar pairs have no loss.
    shape : float, default 3.7
        a > 1: tau changes from concave to convex at margin / shape.
    n_pairs : int, default 20000
        Number of sampled pairs, half of them similar.
    n_restarts : int, default 2
        Starting points per bit; the one that reaches the lowest objective is used. The first is the pair of leading
        singular vectors, along which similar pairs agree and dissimilar pairs differ; the others are random.
    max_iter : int, default 10
        Maximum number of rounds per starting point.
    tol : float, default 1e-3
        Stop when a round changes wx and wy by less than this share.
    random_state : int, numpy Generator or None
        Seed of the pairs and of the random starting points.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_bits, max_iter + 1)
        Objective of each bit at the start and after each round; the last value is repeated if fewer rounds were enough.

    Notes
    -----
    The authors' code was not found; the formulas follow the paper, and the default constants are unverified. Three
    choices are ours. The first two terms use the points of the sampled pairs. L-BFGS, preconditioned by the curvature
    of the pairs, replaces random subgradient steps, so that only the pairs and the starting points are random. The
    stopping criterion is the change of the weights, because all changes of the objective are relatively small if
    similar pairs agree little. A bit at chance is learned again from new pairs, a few times at most.
    """

    kind = "CRH"
    info = MethodInfo(
        title="Co-regularized hashing",
        paper="Zhen and Yeung, NIPS 2012",
        supervised=True,
        discrete=False,
        protocols=("hashed",),
        complexity="n d² + d³ + N d² + c T N d",
    )
    _saved_arrays = ("objective_",)

    gamma: Positive = 1000.0
    ridge: Positive = 0.01
    margin: Positive = 1.0
    shape: Positive = 3.7
    n_pairs: AtLeastTwo = 20_000
    n_restarts: PositiveInt = 2
    max_iter: PositiveInt = 10
    tol: NonNegative = 1e-3

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.shape <= 1:
            raise InputError(f"shape must be greater than 1, got {self.shape!r}")

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        rng = check_random_state(self.random_state)
        gamma, ridge = float(self.gamma), float(self.ridge)
        tau = Tau(float(self.margin), float(self.shape))
        x, y = (Centred(matrix, name) for name, matrix in features.items())
        scales = [np.sqrt(view.total_variance) or 1.0 for view in (x, y)]
        # With this ridge the coordinates L'w have, up to a factor, the curvature of similar pairs, 2 gamma C + ridge I:
        # a few steps of L-BFGS are enough.
        whitening = [
            Whitening(view.gram / (view.n_points * scale**2), ridge / (2 * gamma))
            for view, scale in zip((x, y), scales, strict=True)
        ]
        penalties = [ridge * white.whiten(white.directions(np.eye(len(white.factor)))) for white in whitening]

        def draw() -> _Learner:
            pairs = WeightedPairs.sample(label_sets, int(self.n_pairs), rng)
            points = [
                white.whiten(view.take(rows).T / scale).T
                for view, rows, scale, white in zip((x, y), pairs.rows, scales, whitening, strict=True)
            ]
            return _Learner(pairs, BitProblem(pairs, points, penalties, gamma, tau), self, rng)

        # Tens of thousands of small steps: more threads would mostly wait for each other.
        with blas_threads(1), progress(self.verbose) as bar:
            bits = boost(draw, int(self.n_bits), adaptive_factor, bar.counter("bits", int(self.n_bits)))
        self.objective_ = np.array([objective for _, objective in bits])
        weights = [
            white.directions(np.column_stack([u[m] for u, _ in bits])) / scale
            for m, (white, scale) in enumerate(zip(whitening, scales, strict=True))
        ]
        self._hash_linearly(features, [x, y], weights, ridges=[ridge, ridge])


@dataclass(frozen=True)
class Tau:
    """Loss of a dissimilar pair at the distance d: tau = tau1 - tau2, both convex."""

    margin: float
    shape: float

    @property
    def bend(self) -> float:
        """Distance t at which tau changes from concave to convex."""
        return self.margin / self.shape

    def __call__(self, d: Floats) -> Floats:
        a, t = self.shape, self.bend
        distance = np.abs(d)
        near = (a * t**2 - d**2) / 2
        return np.where(distance <= t, near, np.maximum(self.margin - distance, 0) ** 2 / (2 * (a - 1)))

    def convex(self, d: Floats) -> tuple[Floats, Floats]:
        """Return tau1 and its slope."""
        a, t = self.shape, self.bend
        beyond = np.maximum(np.abs(d) - t, 0)
        outside = np.abs(d) > self.margin
        value = np.where(outside, self.subtracted(d), a * beyond**2 / (2 * (a - 1)))
        return value, np.where(outside, d, a * beyond * np.sign(d) / (a - 1))

    def subtracted(self, d: Floats) -> Floats:
        """Return tau2, whose slope is d."""
        return (d**2 - self.shape * self.bend**2) / 2


Surrogate = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True)
class BitProblem:
    """The objective of one bit, in the whitened coordinates u = L'w of each modality.

    points (m, d): The points of ``pairs.rows``, whitened: z = points @ u is w'x.
    penalties (d, d): P, with u'P u = ridge |w|^2.
    """

    pairs: WeightedPairs
    points: Sequence[Floats]
    penalties: Sequence[Floats]
    gamma: float
    tau: Tau

    def objective(self, weights: Sequence[Floats]) -> float:
        zx, zy = (points @ u for points, u in zip(self.points, weights, strict=True))
        d = zx[self.pairs.index[0]] - zy[self.pairs.index[1]]
        border = sum(float(np.maximum(1 - np.abs(z), 0).mean()) for z in (zx, zy))
        cost = self.pairs.weights @ np.where(self.pairs.similar, d**2, self.tau(d))
        penalty = sum(float(u @ P @ u) / 2 for u, P in zip(weights, self.penalties, strict=True))
        return border + self.gamma * float(cost) + penalty

    def surrogate(self, weights: Sequence[Floats], m: int) -> Surrogate:
        """Return a convex function of modality m's u, with its gradient."""
        # Up to terms that do not depend on u, it is an upper bound of the objective that is tight at ``weights``.
        points, index = self.points[m], self.pairs.index[m]
        other = (self.points[1 - m] @ weights[1 - m])[self.pairs.index[1 - m]]
        z_old = points @ weights[m]
        d_old = z_old[index] - other
        near, w = self.pairs.similar, self.gamma * self.pairs.weights
        far = ~near
        # Quadratic terms in z are summed over each point's pairs once; only tau1 has to be computed for every u.
        # Similar pairs: w d^2. Tangents: -w (tau2 + d_old (d - d_old)) of dissimilar pairs, -|z| of points.
        square = self.pairs.by_point(m, np.where(near, w, 0.0))
        linear = self.pairs.by_point(m, np.where(near, -2 * w * other, -w * d_old))
        linear -= np.where(z_old >= 0, 1.0, -1.0) / len(z_old)
        constant = w @ np.where(near, other**2, d_old * (other + d_old) - self.tau.subtracted(d_old))
        far_index, far_other, far_weights = index[far], other[far], w[far]

        def value_and_gradient(u: Floats) -> tuple[float, Floats]:
            z = points @ u
            tau1, slope1 = self.tau.convex(z[far_index] - far_other)
            border = np.maximum(1, np.abs(z)).mean()
            pull = self.penalties[m] @ u
            value = (square * z + linear) @ z + constant + far_weights @ tau1 + border + pull @ u / 2
            slope = 2 * square * z + linear + np.bincount(far_index, far_weights * slope1, len(z))
            slope += np.where(np.abs(z) > 1, np.sign(z), 0) / len(z)
            return float(value), points.T @ slope + pull

        return value_and_gradient

    def descend(self, start: Sequence[Floats], max_iter: int, tol: float) -> tuple[tuple[Floats, Floats], Floats]:
        """Run rounds of the concave-convex procedure; return weights and objective, padded with its last value."""
        weights = list(start)
        history = [self.objective(weights)]
        for _ in range(max_iter):
            before = list(weights)
            for m in (0, 1):
                surrogate, old = self.surrogate(weights, m), weights[m]
                # In these coordinates half a dozen steps are typical. Changes may be small relative to the objective.
                options = {"maxiter": 30, "ftol": 1e-11, "gtol": 1e-5}
                found = scipy.optimize.minimize(surrogate, old, jac=True, method="L-BFGS-B", options=options)
                weights[m] = found.x if found.fun <= surrogate(old)[0] else old
            history.append(self.objective(weights))
            pairs = zip(weights, before, strict=True)
            if all(np.linalg.norm(new - old) <= tol * np.linalg.norm(old) for new, old in pairs):
                break
        return (weights[0], weights[1]), np.array(history + history[-1:] * (max_iter + 1 - len(history)))


#: Candidate lengths of a starting point; length 1 gives projections a variance of about 1.
_LENGTHS = tuple(2.0**-exponent for exponent in range(12))
#: Weights of both modalities, and the objective at the start and after each round.
_Bit = tuple[tuple[Floats, Floats], Floats]


@dataclass
class _Learner:
    """Learns bits from one sample of pairs."""

    pairs: WeightedPairs
    problem: BitProblem
    model: CRH
    rng: np.random.Generator

    def learn(self) -> tuple[_Bit, Mask]:
        max_iter, tol = int(self.model.max_iter), float(self.model.tol)
        found = [self.problem.descend(start, max_iter, tol) for start in self._starts()]
        bit = min(found, key=lambda bit: float(bit[1][-1]))
        bits = [points @ u > 0 for points, u in zip(self.problem.points, bit[0], strict=True)]
        return bit, self.pairs.correct(*bits)

    def _starts(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield starting points, each scaled to the length with the lowest objective."""
        x, y = self.problem.points
        for number in range(int(self.model.n_restarts)):
            if number == 0:
                u, v, _ = top_pair(self.pairs.cross(x, y))
            else:
                drawn = [self.rng.standard_normal((points.shape[1],)) for points in (x, y)]
                u, v = (vector / np.sqrt(vector @ vector) for vector in drawn)
            yield min(((length * u, length * v) for length in _LENGTHS), key=self.problem.objective)
