"""Gains of grades, and what nDCG divides them by at each rank."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh.errors import InputError

__all__ = ["Gain", "discounted", "discounts", "gains_of"]

Floats = npt.NDArray[np.float64]
Gain = Literal["exponential", "linear"]

_EXPONENTIAL = np.exp2(np.arange(256.0)) - 1


def gains_of(grades: Any, gain: Gain) -> Floats:
    """Return 2 ** grade - 1, or the grade itself."""
    if gain == "linear":
        return np.asarray(grades, np.float64)
    if grades.dtype == np.uint8:
        return _EXPONENTIAL[grades]
    if grades.max(initial=0) > 1000:
        raise InputError(f'a grade of {grades.max():g} is too large for gain="exponential": use gain="linear"')
    return np.exp2(grades) - 1


def discounts(ranks: Any) -> Floats:
    """Return 1 / log2(rank + 1)."""
    return 1 / np.log2(ranks + 1.0)


#: Ranks whose discounts are added up one by one, where there are as many.
_TABULATED = 1 << 20


def discount_sums(ranks: npt.NDArray[np.int64]) -> Floats:
    """Return the sums of the discounts up to each rank, in closed form beyond the first million.

    By Euler and Maclaurin, with x = rank + 1 and f(x) = 1 / log(x): the integral of f, the mean of its ends, and a
    twelfth of the difference of its derivatives; what follows is smaller than rounding.
    """
    from scipy.special import expi

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
    """Return the sums of discounted gains within the first k, for runs of items with mean gains, by query."""
    weights = discount_sums(np.minimum(stops, k)) - discount_sums(np.minimum(starts, k))
    return (means * weights).sum(axis=1)
