"""Average precision in expectation over all orders of tied items, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh.metrics._ranking import Floats, Integers, RankedBlock

__all__ = ["expected_average_precision", "harmonic_numbers"]


def harmonic_numbers(n: int) -> Floats:
    """Return H_0, ..., H_n: the sums of 1 / i."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])


def expected_average_precision(block: RankedBlock, k: int, normalize: str, harmonic: Floats) -> Floats:
    """Return the mean of average precision over all orders of tied items.

    In a run of t items with r relevant ones, after N items with R relevant ones, the item at the i-th
    place is relevant with probability r / t, and then (i - 1)(r - 1) / (t - 1) relevant ones of the run
    are expected before it. Where the cut falls inside a run, the number of relevant items before the cut
    is hypergeometric: the formula holds given that number, and is averaged over it.
    """

    def expected_sum(before: Any, found: Any, size: Any, relevant: Any) -> Any:
        inverse = harmonic[before + size] - harmonic[before]  # sum of 1 / (N + i) over i = 1..t
        offset = size - (before + 1) * inverse  # sum of (i - 1) / (N + i)
        share = relevant / np.maximum(size, 1)
        return share * ((found + 1) * inverse + (relevant - 1) / np.maximum(size - 1, 1) * offset)

    runs = block.runs
    relevant = np.rint(block.relevant_by_run).astype(np.int64)
    found = np.cumsum(relevant, axis=1) - relevant
    whole = runs.stops <= k
    sums = np.where(whole, expected_sum(runs.starts, found, runs.sizes, relevant), 0.0).sum(axis=1)
    values = np.empty(len(sums))
    for i, total in enumerate(sums):
        before = int(runs.sizes[i, whole[i]].sum())
        hits = int(relevant[i, whole[i]].sum())
        size = k - before
        draws, probabilities = np.zeros(1, np.int64), np.ones(1)
        if size > 0:
            cut = int(np.flatnonzero(~whole[i])[0])
            draws, probabilities = _hypergeometric(int(runs.sizes[i, cut]), int(relevant[i, cut]), size)
        totals = total + expected_sum(before, hits, size, draws) if size > 0 else np.array([total])
        if normalize == "retrieved":
            denominators = np.maximum(hits + draws, 1)
        else:
            denominators = np.full(len(draws), max(min(k, int(relevant[i].sum())), 1))
        values[i] = probabilities @ (totals / denominators)
    return values


def _hypergeometric(population: int, relevant: int, drawn: int) -> tuple[Integers, Floats]:
    from scipy.special import gammaln

    hits = np.arange(max(0, drawn - (population - relevant)), min(drawn, relevant) + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_p = log_choose(relevant, hits) + log_choose(population - relevant, drawn - hits) - log_choose(population, drawn)
    probabilities = np.exp(log_p - log_p.max())
    return hits, probabilities / probabilities.sum()
