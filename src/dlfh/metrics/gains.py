"""Gains and rank discounts of nDCG."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from scipy.special import expi

from dlfh._arrays import Floats, Integers
from dlfh.errors import InputError

Gain = Literal["exponential", "linear"]

_EXPONENTIAL = np.exp2(np.arange(256.0)) - 1


def gains_of(grades: Any, gain: Gain) -> Floats:
    """Return the exponential gain, 2 ** grade - 1, or the linear gain, the grade."""
    if gain == "linear":
        return np.asarray(grades, np.float64)
    if grades.dtype == np.uint8:
        return _EXPONENTIAL[grades]
    if grades.max(initial=0) > 1000:
        raise InputError(
            f'relevance has a grade of {grades.max():g}, too large for gain="exponential"; use gain="linear"'
        )
    return np.exp2(grades) - 1


def discounts(ranks: Any) -> Floats:
    """Return 1 / log2(rank + 1)."""
    return 1 / np.log2(ranks + 1.0)


#: Number of ranks whose discounts are summed one by one.
_TABULATED = 1 << 20


def discount_sums(ranks: Integers) -> Floats:
    """Return the sum of the discounts up to each rank, in closed form beyond the first million ranks.

    Euler-Maclaurin formula with x = rank + 1 and f(x) = 1 / log(x): the integral of f, the mean of its end values, and
    a twelfth of the difference of its derivatives. Further terms are below rounding error.
    """

    def antiderivative(x: Any) -> Any:
        log = np.log(x)
        return expi(log) + 0.5 / log - 1 / (12 * x * log**2)

    first = _first_sums(min(_TABULATED, 1 << int(ranks.max(initial=0)).bit_length()))
    last = len(first) - 1
    sums = first[np.minimum(ranks, last)]
    beyond = ranks > last
    sums[beyond] += np.log(2) * (antiderivative(ranks[beyond] + 1.0) - antiderivative(last + 1.0))
    return sums


@cache
def _first_sums(n: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(discounts(np.arange(1, n + 1)))])


def discounted(means: Floats, starts: Any, stops: Any, k: int) -> Floats:
    """Return the discounted gain of the first k items by query, for runs of items with the given mean gains."""
    weights = discount_sums(np.minimum(stops, k)) - discount_sums(np.minimum(starts, k))
    return (means * weights).sum(axis=1)
