"""Which methods differ: mean ranks over data sets, directions and runs, with a critical difference.

Friedman's test with Nemenyi's comparison of all pairs, as in Demšar, "Statistical comparisons of classifiers over
multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlfh.errors import InputError

__all__ = ["Ranking", "critical_difference", "iman_davenport", "rank_methods"]

Floats = npt.NDArray[np.float64]


def critical_difference(n_methods: int, n_blocks: int, level: float = 0.05) -> float:
    """Return by how much two mean ranks must differ to be called different, whichever pair one looks at.

    Nemenyi's: q sqrt(k (k + 1) / 6 N) for k methods and N blocks, q from the studentized range over sqrt(2).

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def iman_davenport(statistic: float, n_methods: int, n_blocks: int) -> float:
    """Return Iman and Davenport's F of Friedman's statistic; infinite where all blocks agree.

    Examples
    --------
    >>> round(iman_davenport(9.28, 4, 14), 2)
    3.69
    """
    rest = n_blocks * (n_methods - 1) - statistic
    return (n_blocks - 1) * statistic / rest if rest > 1e-9 * n_blocks else math.inf


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods, 1 for the best.

    Attributes
    ----------
    ranks : dict of str to float
        The best first.
    n_blocks : int
        How many times all methods were compared.
    statistic, p_value : float
        Friedman's statistic, corrected for ties, and how probable one as large is if all methods are alike: by the F
        distribution of Iman and Davenport.
    difference : float
        Two methods whose mean ranks differ by less are not told apart.
    """

    ranks: dict[str, float]
    n_blocks: int
    statistic: float
    p_value: float
    difference: float

    def level_with_the_best(self) -> list[str]:
        """Return the methods that are not told apart from the first, itself included."""
        first = next(iter(self.ranks.values()))
        return [label for label, rank in self.ranks.items() if rank - first <= self.difference]

    def beaten_by(self, label: str) -> list[str]:
        """Return the methods that a method is told apart from, and ahead of."""
        return [other for other, rank in self.ranks.items() if rank - self.ranks[label] > self.difference]


def rank_methods(labels: Sequence[str], scores: Floats, level: float = 0.05) -> Ranking:
    """Rank methods by scores, the higher the better; equal ones share their ranks.

    Parameters
    ----------
    labels : sequence of str
        Of the methods.
    scores : ndarray of float64 (blocks, methods)
    level : float

    Examples
    --------
    >>> scores = np.array([[0.5, 0.4, 0.3], [0.6, 0.5, 0.5], [0.4, 0.2, 0.3], [0.7, 0.6, 0.1]])
    >>> rank_methods(["a", "b", "c"], scores).ranks
    {'a': 1.0, 'b': 2.375, 'c': 2.625}
    """
    from scipy.stats import f, rankdata

    n_blocks, n_methods = scores.shape
    if n_methods < 3 or n_blocks < 2:
        raise InputError(f"a ranking needs three methods and two blocks, got {n_methods} and {n_blocks}")
    ranks = rankdata(-scores, axis=1)
    means = ranks.mean(axis=0)
    # Ties make ranks vary less than 1 to k would: divided by the variance that they have.
    variance = float(np.sum((ranks - (n_methods + 1) / 2) ** 2)) / (n_blocks * (n_methods - 1))
    statistic = n_blocks * float(np.sum((means - (n_methods + 1) / 2) ** 2)) / variance if variance else 0.0
    degrees = n_methods - 1, (n_methods - 1) * (n_blocks - 1)
    p_value = float(f.sf(iman_davenport(statistic, n_methods, n_blocks), *degrees))
    order = np.argsort(means, kind="stable")
    return Ranking(
        {labels[i]: float(means[i]) for i in order},
        n_blocks,
        statistic,
        p_value,
        critical_difference(n_methods, n_blocks, level),
    )
