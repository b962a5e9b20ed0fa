"""Retrieval metrics over Hamming or asymmetric rankings, exact about ties.

Every function takes queries, a database and what is relevant to what:

- ``queries``: packed codes (uint8), ranked by Hamming distance; or real projections (float, one
  column per bit), ranked by falling inner product with the database's +-1 codes (*asymmetric*).
- ``database``: packed codes.
- ``query_labels`` and ``database_labels``: an item is relevant if it shares at least one label with
  the query; any form that ``fit`` takes. Or ``relevance``: a matrix of shape (queries, items), dense
  or sparse, positive where relevant.

**Ties.** With short codes most items tie. ``ties="order"`` ranks them in database order (a stable
sort, as MATLAB's); ``ties="expected"`` gives the exact expectation over all orders of tied items.

**Queries without a relevant item** count as 0 in every mean and stay in its denominator, as in the
paper's protocol; ``empty="skip"`` leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._validation import check_choice, check_integer
from dlfh.codes import check_codes
from dlfh.errors import InputError
from dlfh.metrics._ranking import Ranked, Ranking, Runs, Ties

__all__ = [
    "PrecisionRecall",
    "average_precisions",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_by_rank",
    "recall_at",
]

Floats = npt.NDArray[np.float64]
Empty = Literal["zero", "skip"]


class PrecisionRecall(NamedTuple):
    """A precision-recall curve: mean precision and recall at each radius or rank."""

    at: npt.NDArray[np.int64]
    precision: Floats
    recall: Floats


def mean_average_precision(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    at: int | None = None,
    normalize: Literal["retrieved", "possible"] = "retrieved",
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> float:
    """Return the mean average precision (MAP).

    The average precision of a query is the mean, over its relevant items, of the precision at the
    item's rank.

    Parameters
    ----------
    queries, database, query_labels, database_labels, relevance, ties, empty
        See `dlfh.metrics`.
    at : int, optional
        Cut the ranking at this rank; by default the whole database is ranked. (The other meaning that
        "MAP@k" has in this field, the first k *relevant* items, is not this.)
    normalize : {"retrieved", "possible"}
        With ``at``, divide the sum of precisions by the number of relevant items that were retrieved
        (usual for hashing), or by the most that could have been, min(at, relevant items) (usual in
        information retrieval).
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> mean_average_precision(queries, database, ["a"], ["a", "b", "a"])
    0.8333333333333333
    """
    values = average_precisions(
        queries,
        database,
        query_labels,
        database_labels,
        relevance=relevance,
        at=at,
        normalize=normalize,
        ties=ties,
        n_jobs=n_jobs,
    )
    return _mean(values, empty)


def average_precisions(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    at: int | None = None,
    normalize: Literal["retrieved", "possible"] = "retrieved",
    ties: Ties = "order",
    n_jobs: int | None = None,
) -> Floats:
    """Return each query's average precision; NaN for queries without a relevant item.

    The parameters are those of `mean_average_precision`.
    """
    check_choice(normalize, "normalize", ("retrieved", "possible"))
    ranking = Ranking.prepare(queries, database, query_labels, database_labels, relevance, ties, n_jobs)
    depth = ranking.n_items if at is None else min(check_integer(at, "at", 1), ranking.n_items)

    def measure(block: Ranked) -> Floats:
        if block.runs is not None:
            values = _expected_average_precision(block.runs, depth, normalize)
            return np.where(block.n_relevant() > 0, values, np.nan)
        sums = np.empty(len(block.gains))
        hits, n_relevant = np.empty((2, len(block.gains)), np.int64)
        _kernels.sum_precisions(block.gains, depth, sums, hits, n_relevant)
        denominators = hits if normalize == "retrieved" else np.minimum(depth, n_relevant)
        return np.where(n_relevant > 0, sums / np.maximum(denominators, 1), np.nan)

    return np.concatenate(list(ranking.measure(measure, np.uint8)))


def precision_at(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    k: int | Sequence[int],
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Any:
    """Return the mean precision among the first k items: a number, or an array for several k.

    See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> precision_at(queries, database, ["a"], ["a", "b", "a"], k=2)
    0.5
    """
    ranks = _check_ranks(k, database)
    hits, _ = _hits(ranks, queries, database, query_labels, database_labels, relevance, ties, n_jobs)
    values = _mean(hits / ranks, empty)
    return values if np.ndim(k) else float(values[0])


def recall_at(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    k: int | Sequence[int],
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Any:
    """Return the mean share of relevant items found among the first k: a number, or an array.

    See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> recall_at(queries, database, ["a"], ["a", "b", "a"], k=[1, 3])
    array([0.5, 1. ])
    """
    ranks = _check_ranks(k, database)
    hits, n_relevant = _hits(ranks, queries, database, query_labels, database_labels, relevance, ties, n_jobs)
    values = _mean(hits / n_relevant[:, None], empty)
    return values if np.ndim(k) else float(values[0])


def precision_recall_by_rank(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    ranks: Sequence[int] | npt.NDArray[np.int64] | None = None,
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> PrecisionRecall:
    """Return mean precision and recall at each rank (about 100 ranks, evenly in log scale, by default).

    See `dlfh.metrics` for the other parameters.
    """
    if ranks is None:
        ranks = np.unique(np.geomspace(1, max(len(np.asarray(database)), 1), 100).round().astype(np.int64))
    at = _check_ranks(ranks, database)
    hits, n_relevant = _hits(at, queries, database, query_labels, database_labels, relevance, ties, n_jobs)
    return PrecisionRecall(at, _mean(hits / at, empty), _mean(hits / n_relevant[:, None], empty))


def precision_recall_by_radius(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    n_bits: int | None = None,
    relevance: Any = None,
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> PrecisionRecall:
    """Return mean precision and recall of the items within Hamming distance 0, 1, ..., n_bits.

    A query that retrieves nothing within a radius has precision 0 there. ``n_bits`` is by default all
    bits of the packed codes. See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> precision_recall_by_radius(queries, database, ["a"], ["a", "b", "a"], n_bits=2).precision
    array([1.        , 0.5       , 0.66666667])
    """
    check_codes(queries, "queries")
    ranking = Ranking.prepare(queries, database, query_labels, database_labels, relevance, "expected", n_jobs)
    radii = np.arange((ranking.n_bits if n_bits is None else check_integer(n_bits, "n_bits", 1, ranking.n_bits)) + 1)

    def measure(block: Ranked) -> Floats:
        assert block.runs is not None
        retrieved = np.cumsum(block.runs.sizes, axis=1)[:, : len(radii)]
        relevant = np.cumsum(block.runs.gains, axis=1)[:, : len(radii)]
        n_relevant = block.n_relevant()[:, None]
        with np.errstate(invalid="ignore"):
            recall = relevant / n_relevant
        precision = np.where(n_relevant > 0, relevant / np.maximum(retrieved, 1), np.nan)
        return np.stack([precision, recall], axis=1)

    curves = np.concatenate(list(ranking.measure(measure, np.uint8)))
    return PrecisionRecall(radii, _mean(curves[:, 0], empty), _mean(curves[:, 1], empty))


def ndcg(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    at: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> float:
    """Return the mean normalised discounted cumulative gain for graded relevance.

    The grade of an item is the number of labels it shares with the query (or its value in
    ``relevance``); its gain, ``2 ** grade - 1`` or ``grade``, is divided by ``log2(rank + 1)``; and the
    sum is divided by that of the best possible ranking.

    Parameters
    ----------
    at : int, optional
        Cut the ranking at this rank; by default the whole database is ranked.
    gain : {"exponential", "linear"}
    queries, database, query_labels, database_labels, relevance, ties, empty, n_jobs
        See `dlfh.metrics`.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> round(ndcg(queries, database, [["a", "b"]], [["a"], ["c"], ["a", "b"]]), 4)
    0.6885
    """
    check_choice(gain, "gain", ("exponential", "linear"))
    ranking = Ranking.prepare(queries, database, query_labels, database_labels, relevance, ties, n_jobs)
    depth = ranking.n_items if at is None else min(check_integer(at, "at", 1), ranking.n_items)
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    running = np.concatenate([[0.0], np.cumsum(discounts)])

    def measure(block: Ranked) -> Floats:
        best = (np.sort(block.gains, axis=1)[:, ::-1][:, :depth] * discounts).sum(axis=1)
        if block.runs is None:
            found = (block.gains[:, :depth] * discounts).sum(axis=1)
        else:
            stops = np.cumsum(block.runs.sizes, axis=1)
            starts = stops - block.runs.sizes
            weights = running[np.minimum(stops, depth)] - running[np.minimum(starts, depth)]
            found = (block.runs.gains / np.maximum(block.runs.sizes, 1) * weights).sum(axis=1)
        return np.where(best > 0, found / np.where(best > 0, best, 1), np.nan)

    def exponential(grades: Floats) -> Floats:
        if grades.max() > 1000:
            raise InputError(f'a grade of {grades.max():g} is too large for gain="exponential": use gain="linear"')
        return np.exp2(grades) - 1

    to_gain = exponential if gain == "exponential" else None
    return _mean(np.concatenate(list(ranking.measure(measure, np.float64, to_gain))), empty)


def _mean(values: Floats, empty: Empty) -> Any:
    """Average over queries; NaN marks a query without a relevant item."""
    check_choice(empty, "empty", ("zero", "skip"))
    is_empty = np.isnan(values).reshape(len(values), -1).any(axis=1)
    if empty == "zero":
        values = np.where(np.isnan(values), 0.0, values)
    elif is_empty.all():
        raise InputError('no query has a relevant item, so with empty="skip" there is nothing to average')
    else:
        values = values[~is_empty]
    mean = values.mean(axis=0)
    return float(mean) if np.ndim(mean) == 0 else mean


def _check_ranks(k: Any, database: npt.ArrayLike) -> npt.NDArray[np.int64]:
    n_items = len(np.asarray(database))
    if np.size(k) == 0:
        raise InputError("no rank is given")
    return np.array([check_integer(rank, "a rank", 1, n_items) for rank in np.atleast_1d(k).tolist()], np.int64)


def _hits(
    ranks: npt.NDArray[np.int64],
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any,
    database_labels: Any,
    relevance: Any,
    ties: Ties,
    n_jobs: int | None,
) -> tuple[Floats, Floats]:
    """Return the (expected) number of relevant items within each rank, and in all; NaN where none."""
    ranking = Ranking.prepare(queries, database, query_labels, database_labels, relevance, ties, n_jobs)

    def measure(block: Ranked) -> Floats:
        if block.runs is None:
            hits = np.cumsum(block.gains, axis=1, dtype=np.int64)[:, ranks - 1].astype(np.float64)
        else:
            stops = np.cumsum(block.runs.sizes, axis=1)
            starts = stops - block.runs.sizes
            share = block.runs.gains / np.maximum(block.runs.sizes, 1)
            hits = np.stack([(share * np.clip(rank - starts, 0, block.runs.sizes)).sum(axis=1) for rank in ranks], 1)
        counts = block.n_relevant()[:, None]
        n_relevant = np.where(counts > 0, counts, np.nan)
        return np.hstack([np.where(np.isnan(n_relevant), np.nan, hits), n_relevant])

    table = np.concatenate(list(ranking.measure(measure, np.uint8)))
    return table[:, :-1], table[:, -1]


def _expected_average_precision(runs: Runs, depth: int, normalize: str) -> Floats:
    """Return the mean of average precision over all orders of tied items, in closed form.

    In a run of t items with r relevant ones, after N items with R relevant ones, the item at the i-th
    place is relevant with probability r / t, and then (i - 1)(r - 1) / (t - 1) relevant ones of the run
    are expected before it. Where the cut falls inside a run, the number of relevant items before the cut
    is hypergeometric: the formula holds given that number, and is averaged over it.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(runs.sizes.sum(axis=1).max()) + 1))])

    def expected_sum(before: Any, found: Any, size: Any, relevant: Any) -> Any:
        inverse = harmonic[before + size] - harmonic[before]  # sum of 1 / (N + i) over i = 1..t
        offset = size - (before + 1) * inverse  # sum of (i - 1) / (N + i)
        share = relevant / np.maximum(size, 1)
        return share * ((found + 1) * inverse + (relevant - 1) / np.maximum(size - 1, 1) * offset)

    stops = np.cumsum(runs.sizes, axis=1)
    starts = stops - runs.sizes
    relevant = np.rint(runs.gains).astype(np.int64)
    found = np.cumsum(relevant, axis=1) - relevant
    whole = stops <= depth
    sums = np.where(whole, expected_sum(starts, found, runs.sizes, relevant), 0.0).sum(axis=1)
    values = np.empty(len(sums))
    for i, total in enumerate(sums):
        before = int(runs.sizes[i, whole[i]].sum())
        hits = int(relevant[i, whole[i]].sum())
        size = depth - before
        draws, probabilities = np.zeros(1, np.int64), np.ones(1)
        if size > 0:
            cut = int(np.flatnonzero(~whole[i])[0])
            draws, probabilities = _hypergeometric(int(runs.sizes[i, cut]), int(relevant[i, cut]), size)
        totals = total + expected_sum(before, hits, size, draws) if size > 0 else np.array([total])
        if normalize == "retrieved":
            denominators = np.maximum(hits + draws, 1)
        else:
            denominators = np.full(len(draws), max(min(depth, int(relevant[i].sum())), 1))
        values[i] = probabilities @ (totals / denominators)
    return values


def _hypergeometric(population: int, relevant: int, drawn: int) -> tuple[npt.NDArray[np.int64], Floats]:
    from scipy.special import gammaln

    hits = np.arange(max(0, drawn - (population - relevant)), min(drawn, relevant) + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_p = log_choose(relevant, hits) + log_choose(population - relevant, drawn - hits) - log_choose(population, drawn)
    probabilities = np.exp(log_p - log_p.max())
    return hits, probabilities / probabilities.sum()
