"""The likelihood of eq. (1), and the criteria for flipping a bit, as tables over the Hamming distance of two codes.

Theta_ij = (lambda / c) U_i V_j' + b takes c + 1 values, one for each Hamming distance. Everything that decides a bit is
therefore a table of fixed-point integers, whose sums are exact in any order.

**Balance.** With p the share of similar pairs, similar pairs have the weight (1 - p) / p and b = log(p / (1 - p)).
Similar and dissimilar pairs then have equal total weight, and unrelated codes are similar with probability p. (The
paper: weight 1, b = 0.)

**Steps.** Let l(d) be a pair's weighted log-likelihood at distance d. Flipping bit k of row i changes the distance to
column j to d_j + 1 if V_jk agrees with the bit, and to d_j - 1 otherwise. The objective changes by exactly

    2 Delta = -C - U_ik G,  C = sum_j [2 l(d_j) - l(d_j - 1) - l(d_j + 1)],  G = sum_j V_jk [l(d_j - 1) - l(d_j + 1)].

The *exact* step flips if and only if Delta > 0. The paper's step replaces the differences of l by its derivative, and C
by an upper bound of the curvature: it flips if the lower bound of eq. (2) increases. It therefore misses some useful
flips and, with few bits and lambda = 8, nearly all of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Floats, Integers


class StepTables(NamedTuple):
    """Tables from which the kernels decide whether to flip a bit.

    residuals, curvature: Terms of G and of C at each distance, for dissimilar pairs, then for similar pairs.
    kind_weights (2,): Weights of a dissimilar and of a similar pair, scaled so that the larger is 1.
    unit_threshold: The paper's curvature bound for a column of weight 1.
    """

    residuals: npt.NDArray[np.int32]
    curvature: npt.NDArray[np.int32]
    kind_weights: Floats
    unit_threshold: float
    is_exact: bool


@dataclass(frozen=True)
class LatentFactorModel:
    """The likelihood of eq. (1), and the rule for its maximisation.

    step: Whether to flip a bit if that increases the objective ("exact"), or the paper's lower bound ("bound").
    similar_weight: Weight of a similar pair relative to a dissimilar pair.
    bias: Theta of codes that agree in half of their bits.
    """

    n_bits: int
    scale: float
    step: Literal["exact", "bound"] = "bound"
    similar_weight: float = 1.0
    bias: float = 0.0

    @classmethod
    def balanced(
        cls, n_bits: int, scale: float, step: Literal["exact", "bound"], similar_share: float
    ) -> LatentFactorModel:
        """Return the model whose weight and bias compensate for the share of similar pairs, unless it is 0 or 1."""
        if not 0 < similar_share < 1:
            return cls(n_bits, scale, step)
        odds = similar_share / (1 - similar_share)
        return cls(n_bits, scale, step, 1 / odds, float(np.log(odds)))

    def theta(self, distances: Integers) -> Floats:
        return self.scale / self.n_bits * (self.n_bits - 2 * distances.astype(np.float64)) + self.bias

    def log_likelihoods(self, distances: Integers) -> Floats:
        """Return the weighted log-likelihood of a dissimilar (first row) and of a similar pair at the distances."""
        theta = self.theta(distances)
        return np.stack([-np.logaddexp(0, theta), -self.similar_weight * np.logaddexp(0, -theta)])

    def log_likelihood(self, pair_counts: Integers) -> float:
        """Return eq. (1) from the counts of dissimilar and similar pairs at each distance."""
        dissimilar, similar = self.log_likelihoods(np.arange(self.n_bits + 1))
        return float(pair_counts[0] @ dissimilar + pair_counts[1] @ similar)

    @functools.cached_property
    def tables(self) -> StepTables:
        weights = np.array([1.0, self.similar_weight]) / max(1.0, self.similar_weight)
        if self.step == "exact":
            values, _ = self.tabulated
            residuals = values[:, :-2] - values[:, 2:]
            curvature = 2 * values[:, 1:-1] - values[:, :-2] - values[:, 2:]
            return StepTables(_flat(residuals), _flat(curvature), weights, 0.0, True)
        sigmoid = np.exp(-np.logaddexp(0, -self.theta(np.arange(self.n_bits + 1))))
        # S - A of eq. (3), weighted, to within half a unit.
        residuals = np.rint(_kernels.ONE * weights[:, None] * np.stack([-sigmoid, 1 - sigmoid]))
        # Residuals are less than 1, so nothing flips with a threshold of 4 or more, whatever the scale.
        unit = min(self.scale / (4 * self.n_bits), 4.0) * _kernels.ONE
        return StepTables(_flat(residuals), np.zeros(residuals.size, np.int32), weights, unit, False)

    @functools.cached_property
    def tabulated(self) -> tuple[Integers, float]:
        """The log-likelihoods that exact steps maximise, in fixed point, and their unit.

        Distances run from -1 to c + 1; the two extra entries cancel in every step. The unit is the smallest power of
        two for which differences fit the kernels' arithmetic. Entries are exact to half a unit.
        """
        values = self.log_likelihoods(np.arange(-1, self.n_bits + 2)) / max(1.0, self.similar_weight)
        largest = max(float(np.abs(values[:, :-2] - values[:, 2:]).max()), 2.0**-18)
        unit = 2.0 ** np.ceil(np.log2(largest / (_kernels.ONE - 1)))
        return np.rint(values / unit).astype(np.int64), unit * max(1.0, self.similar_weight)


def _flat(table: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(table, np.int32).ravel()
