"""Gains and rank discounts of nDCG, and expectations over all orders of tied items.

Tied items form runs in rank order, given by their sizes (queries, runs); runs may be empty.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from scipy.special import digamma, expi, gammaln

from dlfh._arrays import Floats, Integers
from dlfh.errors import InputError

Gain = Literal["exponential", "linear"]

_EXPONENTIAL = np.exp2(np.arange(256.0)) - 1

#: Number of ranks whose discounts are summed one by one.
_TABULATED = 1 << 20


def run_bounds(sizes: Integers) -> tuple[Integers, Integers]:
    """Return the number of items ranked before each run of ties, and up to its end."""
    stops = np.cumsum(sizes, axis=1)
    return stops - sizes, stops


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


def discounted(means: Floats, sizes: Integers, k: int) -> Floats:
    """Return the discounted gain of the first k items by query, for runs of items with the given mean gains."""
    first, last = (discount_sums(np.minimum(bounds, k)) for bounds in run_bounds(sizes))
    return (means * (last - first)).sum(axis=1)


def expected_hits(sizes: Integers, relevant: Integers, cuts: tuple[int, ...]) -> Floats:
    """Return the expected number of relevant items within each cut-off, from the sizes and hits of tied runs."""
    (starts, _), share = run_bounds(sizes), relevant / np.maximum(sizes, 1)
    return np.stack([(share * np.clip(cut - starts, 0, sizes)).sum(axis=1) for cut in cuts], axis=1)


def expected_average_precision(sizes: Integers, relevant: Integers, k: int, normalize: str) -> Floats:
    """Return the expected average precision over all orders of tied items.

    Consider a run of t items, r of them relevant, that follows N items, R of them relevant. The i-th item of the run is
    relevant with probability r / t; given that it is, (i - 1)(r - 1) / (t - 1) relevant items of the run are expected
    before it. If the cut-off falls inside a run, the number of relevant items before the cut-off is hypergeometric; the
    formula holds conditionally on that number and is averaged over it.
    """

    def expected_sum(before: Any, found: Any, size: Any, relevant: Any) -> Any:
        inverse = _harmonic(before + size) - _harmonic(before)  # sum of 1 / (N + i) over i = 1..t
        offset = size - (before + 1) * inverse  # sum of (i - 1) / (N + i)
        share = relevant / np.maximum(size, 1)
        return share * ((found + 1) * inverse + (relevant - 1) / np.maximum(size - 1, 1) * offset)

    starts, stops = run_bounds(sizes)
    found = np.cumsum(relevant, axis=1) - relevant
    whole = stops <= k
    sums = np.where(whole, expected_sum(starts, found, sizes, relevant), 0.0).sum(axis=1)
    values = np.empty(len(sums))
    for i, total in enumerate(sums):
        before, hits = (int(each[i, whole[i]].sum()) for each in (sizes, relevant))
        size = k - before
        draws, probabilities, totals = np.zeros(1, np.int64), np.ones(1), np.array([total])
        if size > 0:
            cut = int(np.flatnonzero(~whole[i])[0])
            draws, probabilities = _hypergeometric(int(sizes[i, cut]), int(relevant[i, cut]), size)
            totals = total + expected_sum(before, hits, size, draws)
        possible = hits + draws if normalize == "retrieved" else min(k, int(relevant[i].sum()))
        values[i] = probabilities @ (totals / np.maximum(possible, 1))
    return values


def _harmonic(n: Any) -> Any:
    """Return the n-th harmonic number, the sum of 1 / i up to n."""
    return digamma(n + 1.0) + np.euler_gamma


def _hypergeometric(population: int, relevant: int, drawn: int) -> tuple[Integers, Floats]:
    """Return the possible numbers of relevant items among those drawn, and their probabilities."""
    hits = np.arange(max(0, drawn - (population - relevant)), min(drawn, relevant) + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_p = log_choose(relevant, hits) + log_choose(population - relevant, drawn - hits) - log_choose(population, drawn)
    probabilities = np.exp(log_p - log_p.max())
    return hits, probabilities / probabilities.sum()
