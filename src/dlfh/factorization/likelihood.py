"""The likelihood of eq. (1): Theta, sigma and the bound of eq. (2), as tables over the Hamming distance.

Theta_ij = (lambda / c) U_i V_j' takes c + 1 values, one for each Hamming distance of two codes. So sigma is a table,
kept in fixed point: every sum that decides a bit is a sum of integers, exact in whatever order it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlfh import _kernels

__all__ = ["LatentFactorModel"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LatentFactorModel:
    """The likelihood of eq. (1), as tables over the Hamming distance of two codes.

    Parameters
    ----------
    n_bits : int
        Code length, the paper's c.
    scale : float
        The paper's lambda.
    """

    n_bits: int
    scale: float

    @property
    def theta(self) -> npt.NDArray[np.float64]:
        """Theta at Hamming distance 0, 1, ..., c."""
        return self.scale / self.n_bits * (self.n_bits - 2 * np.arange(self.n_bits + 1, dtype=np.float64))

    @property
    def sigmoid(self) -> npt.NDArray[np.int32]:
        """sigma(Theta) at each distance, in fixed point, within half a unit."""
        return np.rint(_kernels.ONE * np.exp(-np.logaddexp(0, -self.theta))).astype(np.int32)

    def threshold(self, total_weight: int) -> int:
        """Return how far the sum of residuals must point away from a bit to flip it.

        Eq. (3) divided by lambda / c: the curvature bound m lambda / 4c in fixed point, rounded up and
        with the table's rounding (half a unit per column) on top. A flip is then one that eq. (3) makes
        in exact arithmetic too, so the full solver is monotone whatever the rounding.
        """
        return int(np.ceil(total_weight * self.unit_threshold)) + (total_weight + 1) // 2

    @property
    def unit_threshold(self) -> float:
        """The curvature bound for a single column: lambda / 4c in fixed point."""
        # Residuals are less than 1: from 4 on nothing flips, whatever the scale.
        return min(self.scale / (4 * self.n_bits), 4.0) * _kernels.ONE

    def log_likelihood(self, pair_counts: Integers) -> float:
        """Return eq. (1) from the counts of dissimilar and similar pairs at each distance."""
        log_dissimilar = -np.logaddexp(0, self.theta)
        log_similar = -np.logaddexp(0, -self.theta)
        return float(pair_counts[0] @ log_dissimilar + pair_counts[1] @ log_similar)
