"""Compute several measures from one ranking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Floats
from dlfh._validation import check_choice
from dlfh.errors import InputError
from dlfh.metrics.measures import AveragePrecision, Measure, PrecisionRecall, parse_measure
from dlfh.metrics.ranking import Ranker
from dlfh.metrics.sums import Ties

Empty = Literal["zero", "skip"]


class MeasureValues(dict[Any, Any]):
    """Values by measure name, in any notation: ``values["AP @ 50"]`` is ``values["AP@50"]``."""

    def __missing__(self, key: str | Measure) -> Any:
        name = str(parse_measure(key))
        if name not in self:
            raise InputError(f"{name} was not computed; available measures: {', '.join(self)}")
        return self[name]

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from measure names to values."""
        return dict(self)

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(_format_line(f"{name:{width}}", value) for name, value in self.items())


class Evaluation(MeasureValues):
    """Result of `evaluate`: means over the queries, by measure name.

    per_query: Values of each query, NaN for queries without a relevant item: an array (queries,) for most measures; an
        array (queries, 2 x cut-offs) for curves, precisions before recalls.
    """

    def __init__(self, means: dict[str, Any], per_query: MeasureValues, n_queries: int, n_items: int) -> None:
        super().__init__(means)
        self.per_query, self.n_queries, self.n_items = per_query, n_queries, n_items

    def __repr__(self) -> str:
        queries = "1 query" if self.n_queries == 1 else f"{self.n_queries:,} queries"
        items = "1 item" if self.n_items == 1 else f"{self.n_items:,} items"
        return f"{queries}, {items}\n{super().__repr__()}"


def _format_line(name: str, value: Any) -> str:
    if isinstance(value, PrecisionRecall):
        return f"{name}  precision {value.precision[0]:.4f} to {value.precision[-1]:.4f} at {len(value.cuts)} cuts"
    return f"{name}  {value:.4f}" if isinstance(value, float) else f"{name}  {value!r}"


def evaluate(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    measures: str | Measure | Iterable[str | Measure] = "AP",
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Evaluation:
    """Rank the database once for each query and compute the requested measures.

    Parameters
    ----------
    queries, database, query_labels, database_labels, relevance, ties, empty
        See `dlfh.metrics`. The database may also be given as blocks (`dlfh.blocks.open_blocks`) or a Dask array and
        need not fit in memory; its labels may come in blocks as well. The values are the same. A database of several
        blocks requires queries that are packed codes and, for nDCG, whole-number grades in ``relevance``.
    measures : str or list of str, default "AP"
        For example ``["AP", "P@10", "nDCG@10"]``; `dlfh.metrics` describes each.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    Evaluation
        Means over the queries, by name (``result["AP"]``); curves are tuples (cuts, precision,
        recall). ``result.per_query[measure]`` holds the values of each query, NaN for queries without a relevant
        item. ``to_dict()`` returns the means by name.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> evaluate(queries, database, ["a"], ["a", "b", "a"], measures=["AP", "R@1"]).to_dict()
    {'AP': 0.8333333333333333, 'R@1': 0.5}
    """
    requested = [measures] if isinstance(measures, (str, Measure)) else measures
    chosen = list(dict.fromkeys(map(parse_measure, requested)))
    if not chosen:
        raise InputError('measures is empty; pass at least one, for example measures="AP"')
    check_choice(empty, "empty", ("zero", "skip"))
    check_choice(ties, "ties", ("order", "expected"))
    ranker = Ranker.prepare(queries, database, (query_labels, database_labels), relevance, ties, n_jobs)
    rankings = ranker.rankings
    values = ranker.values([each.aggregation(rankings) for each in chosen])
    pairs = list(zip(chosen, values, strict=True))
    means = {str(each): each.summarise(_mean(per_query, empty), rankings) for each, per_query in pairs}
    per_query = MeasureValues((str(each), own) for each, own in pairs)
    return Evaluation(means, per_query, rankings.n_queries, rankings.n_items)


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
    """Return the mean average precision (MAP).

    The average precision of a query is the mean, over its relevant items, of the precision at the item's rank.

    Parameters
    ----------
    queries, database, query_labels, database_labels, relevance, ties, empty
        See `dlfh.metrics`.
    k : int, optional
        Rank at which to cut off the ranking; by default the whole database is ranked. (Some papers call the average
        over the first k *relevant* items MAP@k; that is a different quantity.)
    normalize : {"retrieved", "possible"}
        With ``k``, divide the sum of precisions by the number of relevant items retrieved (usual for hashing), or by
        the number that could have been, min(k, relevant items) (usual in information retrieval).
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> mean_average_precision(queries, database, ["a"], ["a", "b", "a"])
    0.8333333333333333
    """
    measure, labels = AveragePrecision(k, normalize), (query_labels, database_labels)
    options: dict[str, Any] = {"relevance": relevance, "ties": ties, "empty": empty, "n_jobs": n_jobs}
    return evaluate(queries, database, *labels, measures=measure, **options)[measure]


def _mean(values: Floats, empty: Empty) -> Any:
    """Average over the queries; NaN marks a query without a relevant item."""
    if empty == "zero":
        return np.where(np.isnan(values), 0.0, values).mean(axis=0)
    is_empty = np.isnan(values).reshape(len(values), -1).any(axis=1)
    if is_empty.all():
        raise InputError('no query has a relevant item, so empty="skip" leaves nothing to average')
    return values[~is_empty].mean(axis=0)
