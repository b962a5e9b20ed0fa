"""Significance of differences between methods: mean ranks with a critical difference.

Friedman's test with Nemenyi's comparison of all pairs, as in Demšar, "Statistical comparisons of classifiers over
multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlfh._arrays import Floats
from dlfh.errors import InputError


def critical_difference(n_methods: int, n_blocks: int, level: float = 0.05) -> float:
    """Return the smallest significant difference between two mean ranks, over all pairs of methods.

    Nemenyi's q sqrt(k (k + 1) / 6 N) for k methods and N blocks, with q from the studentized range over sqrt(2).
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def iman_davenport(statistic: float, n_methods: int, n_blocks: int) -> float:
    """Return Iman and Davenport's F from Friedman's statistic; infinite where all blocks agree."""
    rest = n_blocks * (n_methods - 1) - statistic
    return (n_blocks - 1) * statistic / rest if rest > 1e-9 * n_blocks else math.inf


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods, best first; rank 1 is best."""

    ranks: dict[str, float]
    #: Number of comparisons of all methods.
    n_blocks: int
    #: Friedman's statistic, corrected for ties, and its p-value by Iman and Davenport's F distribution.
    statistic: float
    p_value: float
    #: Critical difference of mean ranks.
    difference: float

    def tied_with_best(self) -> list[str]:
        """Return the methods that do not differ significantly from the first, including the first."""
        first = next(iter(self.ranks.values()))
        return [label for label, rank in self.ranks.items() if rank - first <= self.difference]

    def worse_than(self, label: str) -> list[str]:
        """Return the methods that are significantly worse than a method."""
        return [other for other, rank in self.ranks.items() if rank - self.ranks[label] > self.difference]


def rank_methods(labels: Sequence[str], scores: Floats, level: float = 0.05) -> Ranking:
    """Rank methods by scores, higher scores first; equal scores share their ranks.

    labels: Names of the methods.
    level: Significance level.
    """
    from scipy.stats import f, rankdata

    n_blocks, n_methods = scores.shape
    if n_methods < 3 or n_blocks < 2:
        raise InputError(f"a ranking needs at least 3 methods and 2 blocks, got {n_methods} and {n_blocks}")
    ranks = rankdata(-scores, axis=1)
    means = ranks.mean(axis=0)
    # Ties reduce the variance of the ranks, by which the statistic is divided.
    variance = float(np.sum((ranks - (n_methods + 1) / 2) ** 2)) / (n_blocks * (n_methods - 1))
    statistic = n_blocks * float(np.sum((means - (n_methods + 1) / 2) ** 2)) / variance if variance else 0.0
    degrees = n_methods - 1, (n_methods - 1) * (n_blocks - 1)
    p_value = float(f.sf(iman_davenport(statistic, n_methods, n_blocks), *degrees))
    order = np.argsort(means, kind="stable")
    difference = critical_difference(n_methods, n_blocks, level)
    return Ranking({labels[i]: float(means[i]) for i in order}, n_blocks, statistic, p_value, difference)
