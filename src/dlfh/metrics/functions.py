"""One measure by one call: `evaluate` in short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_integer
from dlfh.metrics.evaluation import Empty, evaluate
from dlfh.metrics.measures import PR, PRH, AveragePrecision, DiscountedGain, Measure, P, PrecisionRecall, R
from dlfh.metrics.sums import Floats, Integers, Ties

__all__ = [
    "average_precisions",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_by_rank",
    "recall_at",
]


def mean_average_precision(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    k: int | None = None,
    normalize: Literal["retrieved", "possible"] = "retrieved",
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> float:
    """Return the mean average precision (MAP): the mean of ``AP`` or ``AP@k``.

    The average precision of a query is the mean, over its relevant items, of the precision at the
    item's rank.

    Parameters
    ----------
    queries, database, query_labels, database_labels, relevance, ties, empty
        See `dlfh.metrics`.
    k : int, optional
        Cut the ranking at this rank; by default the whole database is ranked. (The other meaning that
        "MAP@k" has in this field, the first k *relevant* items, is not this.)
    normalize : {"retrieved", "possible"}
        With ``k``, divide the sum of precisions by the number of relevant items that were retrieved
        (usual for hashing), or by the most that could have been, min(k, relevant items) (usual in
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
    asked = AveragePrecision(k, normalize)
    return evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]


def average_precisions(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    k: int | None = None,
    normalize: Literal["retrieved", "possible"] = "retrieved",
    ties: Ties = "order",
    n_jobs: int | None = None,
) -> Floats:
    """Return each query's average precision; NaN for queries without a relevant item.

    The parameters are those of `mean_average_precision`.
    """
    asked = AveragePrecision(k, normalize)
    return evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        n_jobs=n_jobs,
    ).per_query[asked]


def precision_at(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    k: int | Sequence[int] | Integers,
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Any:
    """Return the mean precision among the first k items (``P@k``): a number, or an array for several k.

    See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> precision_at(queries, database, ["a"], ["a", "b", "a"], k=2)
    0.5
    """
    asked: Measure = PR(ranks=k) if np.ndim(k) else P @ cast(int, k)
    found = evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]
    return found.precision if np.ndim(k) else found


def recall_at(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    k: int | Sequence[int] | Integers,
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Any:
    """Return the mean share of relevant items found among the first k (``R@k``): a number, or an array.

    See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> recall_at(queries, database, ["a"], ["a", "b", "a"], k=[1, 3])
    array([0.5, 1. ])
    """
    asked: Measure = PR(ranks=k) if np.ndim(k) else R @ cast(int, k)
    found = evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]
    return found.recall if np.ndim(k) else found


def precision_recall_by_rank(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    k: Sequence[int] | Integers | None = None,
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> PrecisionRecall:
    """Return mean precision and recall within each rank k (``PR``): by default about 100, evenly in log scale.

    See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> precision_recall_by_rank(queries, database, ["a"], ["a", "b", "a"], k=[1, 2]).recall
    array([0.5, 0.5])
    """
    asked = PR(ranks=k)
    return evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]


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
    """Return mean precision and recall of the items within Hamming distance 0, 1, ..., n_bits (``PRH``).

    A query that retrieves nothing within a radius has precision 0 there. ``n_bits`` is by default all
    bits of the packed codes. See `dlfh.metrics` for the other parameters.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> precision_recall_by_radius(queries, database, ["a"], ["a", "b", "a"], n_bits=2).precision
    array([1.        , 0.5       , 0.66666667])
    """
    asked = PRH if n_bits is None else PRH @ check_integer(n_bits, "n_bits", 1)
    return evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]


def ndcg(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    relevance: Any = None,
    k: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> float:
    """Return the mean normalised discounted cumulative gain for graded relevance (``nDCG`` or ``nDCG@k``).

    The grade of an item is the number of labels it shares with the query (or its value in
    ``relevance``); its gain, ``2 ** grade - 1`` or ``grade``, is divided by ``log2(rank + 1)``; and the
    sum is divided by that of the best possible ranking.

    Parameters
    ----------
    k : int, optional
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
    asked = DiscountedGain(k, gain)
    return evaluate(
        queries,
        database,
        query_labels,
        database_labels,
        measures=asked,
        relevance=relevance,
        ties=ties,
        empty=empty,
        n_jobs=n_jobs,
    )[asked]
