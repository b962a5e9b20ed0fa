"""Closed-form expectations over all orders of tied items."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from dlfh._arrays import Floats, Integers
from dlfh.metrics.sums import TiedRuns


def expected_hits(sizes: Integers, relevant: Integers, cuts: tuple[int, ...]) -> Floats:
    """Return the expected number of relevant items within each cut-off, from the sizes and hits of tied runs."""
    runs, share = TiedRuns(sizes), relevant / np.maximum(sizes, 1)
    return np.stack([(share * np.clip(cut - runs.starts, 0, sizes)).sum(axis=1) for cut in cuts], axis=1)


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

    runs = TiedRuns(sizes)
    found = np.cumsum(relevant, axis=1) - relevant
    whole = runs.stops <= k
    sums = np.where(whole, expected_sum(runs.starts, found, sizes, relevant), 0.0).sum(axis=1)
    values = np.empty(len(sums))
    for i, total in enumerate(sums):
        before = int(sizes[i, whole[i]].sum())
        hits = int(relevant[i, whole[i]].sum())
        size = k - before
        draws, probabilities = np.zeros(1, np.int64), np.ones(1)
        if size > 0:
            cut = int(np.flatnonzero(~whole[i])[0])
            draws, probabilities = _hypergeometric(int(sizes[i, cut]), int(relevant[i, cut]), size)
        totals = total + expected_sum(before, hits, size, draws) if size > 0 else np.array([total])
        if normalize == "retrieved":
            denominators = np.maximum(hits + draws, 1)
        else:
            denominators = np.full(len(draws), max(min(k, int(relevant[i].sum())), 1))
        values[i] = probabilities @ (totals / denominators)
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
