"""Boosting over pairs of points: each bit focuses on the pairs that the bits before it got wrong.

A bit predicts that a pair, one point of each modality, is similar if both points get the same bit. The weights of pairs
are a distribution; after each bit, the pairs that it predicted correctly lose weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers, Mask
from dlfh._labels import LabelSets
from dlfh._progress import Advance
from dlfh._validation import Features

Bit = TypeVar("Bit", covariant=True)

#: Maximum number of attempts to learn a bit that is better than chance.
_MAX_ATTEMPTS = 5


class WeightedPairs:
    """Pairs of a point of the first modality and a point of the second, with weights.

    ``rows`` are the numbers of the points that occur in pairs, and pairs refer to positions in them: pair n consists of
    the points ``rows[0][index[0][n]]`` and ``rows[1][index[1][n]]``.

    weights (N,): Non-negative with sum 1; initially equal.
    """

    def __init__(self, first: Integers, second: Integers, similar: Mask) -> None:
        sides = [np.unique(side, return_inverse=True) for side in (first, second)]
        self.rows = sides[0][0], sides[1][0]
        self.index = sides[0][1].ravel(), sides[1][1].ravel()
        self.similar = similar
        self.weights: Floats = np.full(len(similar), 1 / len(similar))

    @classmethod
    def sample(cls, label_sets: LabelSets, n_pairs: int, rng: np.random.Generator) -> WeightedPairs:
        """Draw up to ``n_pairs`` pairs, half of them similar if both kinds exist."""
        n = label_sets.n_points
        return cls(*label_sets.sample_pairs(min(n_pairs, n * (n - 1)), rng))

    @property
    def signed(self) -> Floats:
        """The weights, negative for dissimilar pairs."""
        return np.where(self.similar, self.weights, -self.weights)

    def by_point(self, side: int, values: Floats) -> Floats:
        """Return the sum of the pairs' values for each point of ``rows[side]``."""
        return np.bincount(self.index[side], values, len(self.rows[side])).astype(np.float64, copy=False)

    def cross(self, x: Features, y: Features) -> Floats:
        """Return ``C = sum_n w_n s_n (x_n - mean)(y_n - mean)'`` for the points of ``rows``, s_n = +1 or -1.

        The means are weighted means over the pairs. Points are dense or sparse.
        """
        pairing = sp.csr_array((self.signed, self.index), shape=(x.shape[0], y.shape[0]))
        means = self.by_point(0, self.weights) @ x, self.by_point(1, self.weights) @ y
        sums = self.by_point(0, self.signed) @ x, self.by_point(1, self.signed) @ y
        paired = pairing @ y
        # The sparse matrix goes first: SciPy multiplies it with rows of the other quickly, with columns slowly.
        products = (paired.T @ x).T if sp.issparse(paired) else x.T @ paired
        return (
            (products.toarray() if sp.issparse(products) else products)
            - np.outer(means[0], sums[1])
            - np.outer(sums[0], means[1])
            + self.signed.sum() * np.outer(means[0], means[1])
        )

    def correct(self, x_bits: Mask, y_bits: Mask) -> Mask:
        """Return, for each pair, whether its points have equal bits if and only if it is similar."""
        return (x_bits[self.index[0]] == y_bits[self.index[1]]) == self.similar

    def error(self, correct: Mask) -> float:
        return float(self.weights[~correct].sum())

    def reweight(self, correct: Mask, factor: float) -> None:
        """Multiply the weights of correct pairs by a factor, and normalise the weights."""
        weights = np.where(correct, factor * self.weights, self.weights)
        self.weights = weights / weights.sum()


def adaptive_factor(error: float) -> float:
    """Return AdaBoost's factor for correct pairs, e / (1 - e), after which the last bit has error 1/2."""
    return error / (1 - error)


class Learner(Protocol[Bit]):
    """Learns a bit from weighted pairs."""

    pairs: WeightedPairs

    def learn(self) -> tuple[Bit, Mask]:
        """Return a bit, and a mask of the pairs that it predicts correctly."""


def boost(
    draw: Callable[[], Learner[Bit]], n_bits: int, factor: Callable[[float], float], advance: Advance
) -> list[Bit]:
    """Return bits learned one after another.

    draw: Returns a learner with new pairs. It is called at the start, and whenever a bit is no better than chance.
    factor: Returns the factor for the weights of correct pairs, given the error of a bit.
    advance: Called after each bit.
    """
    learner, bits = draw(), []
    for _ in range(n_bits):
        for _ in range(_MAX_ATTEMPTS):
            bit, correct = learner.learn()
            error = learner.pairs.error(correct)
            if error < 1 / 2:
                # After a bit without errors, a factor of 0 would leave no pairs.
                learner.pairs.reweight(correct, factor(max(error, 1 / len(correct))))
                break
            learner = draw()
        bits.append(bit)
        advance()
    return bits
