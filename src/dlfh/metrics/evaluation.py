"""Many measures from one ranking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_choice
from dlfh.blocks import as_blocks
from dlfh.errors import InputError
from dlfh.metrics.by_blocks import BlockRanker
from dlfh.metrics.measures import Measure, PrecisionRecall, measure
from dlfh.metrics.ranking import Ranker
from dlfh.metrics.sums import Floats, Ties

__all__ = ["ByMeasure", "Empty", "Evaluation", "evaluate"]

Empty = Literal["zero", "skip"]


class ByMeasure(Mapping[Any, Any]):
    """Values by measure, or by a measure's name: ``values[AP @ 50]`` and ``values["AP@50"]`` are the same."""

    def __init__(self, values: Mapping[Measure, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, asked: str | Measure) -> Any:
        found = measure(asked)
        if found not in self._values:
            raise InputError(f"{found} was not asked for: there are {', '.join(map(str, self._values))}")
        return self._values[found]

    def __contains__(self, asked: object) -> bool:
        try:
            return measure(asked) in self._values  # type: ignore[arg-type]
        except InputError:
            return False

    def __iter__(self) -> Iterator[Measure]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict, by name."""
        return {str(name): value for name, value in self._values.items()}

    def __repr__(self) -> str:
        return "\n".join(_line(name, value) for name, value in self.to_dict().items())


class Evaluation(ByMeasure):
    """What `evaluate` returns: means over queries by measure, and values per query.

    Attributes
    ----------
    per_query : ByMeasure
        The values of each query, NaN for queries without a relevant item: an array (queries,); for curves
        (queries, 2 x cuts), precisions and then recalls.
    n_queries, n_items : int

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> result = evaluate(queries, database, ["a"], ["a", "b", "a"], measures=["AP", "P@2"])
    >>> result
    1 query, 3 items
    AP   0.8333
    P@2  0.5000
    >>> result["P@2"], result.per_query["P@2"], result.to_dict()["P@2"]
    (0.5, array([0.5]), 0.5)
    """

    def __init__(self, means: Mapping[Measure, Any], per_query: ByMeasure, n_queries: int, n_items: int) -> None:
        super().__init__(means)
        self.per_query = per_query
        self.n_queries = n_queries
        self.n_items = n_items

    def __repr__(self) -> str:
        width = max(len(str(each)) for each in self)
        queries = "1 query" if self.n_queries == 1 else f"{self.n_queries:,} queries"
        items = "1 item" if self.n_items == 1 else f"{self.n_items:,} items"
        return "\n".join([f"{queries}, {items}", *(_line(f"{name!s:{width}}", self[name]) for name in self)])


def _line(name: str, value: Any) -> str:
    if isinstance(value, PrecisionRecall):
        return f"{name}  precision {value.precision[0]:.4f} to {value.precision[-1]:.4f} at {len(value.cuts)} cuts"
    return f"{name}  {value:.4f}" if isinstance(value, float) else f"{name}  {value!r}"


def evaluate(
    queries: npt.ArrayLike,
    database: npt.ArrayLike,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    measures: str | Measure | Iterable[str | Measure],
    relevance: Any = None,
    ties: Ties = "order",
    empty: Empty = "zero",
    n_jobs: int | None = None,
) -> Evaluation:
    """Rank the database once for each query, and return every measure that is asked for.

    Parameters
    ----------
    queries, database, query_labels, database_labels, relevance, ties, empty
        See `dlfh.metrics`. A database in blocks, or a Dask array of codes, is measured where it is, with the same
        values of every measure; its labels may be in blocks, too. Queries are then packed codes, and ``relevance``
        gives grades of nDCG that are whole numbers.
    measures : list of str or Measure
        Such as ``["AP", "P@10", nDCG @ 10]``; `dlfh.metrics` lists them.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> queries, database = pack([[1, 1]]), pack([[1, 1], [1, -1], [-1, -1]])
    >>> evaluate(queries, database, ["a"], ["a", "b", "a"], measures=["AP", "R@1"]).to_dict()
    {'AP': 0.8333333333333333, 'R@1': 0.5}
    """
    asked = [measures] if isinstance(measures, (str, Measure)) else list(measures)
    chosen = list(dict.fromkeys(map(measure, asked)))
    if not chosen:
        raise InputError("no measure is asked for")
    check_choice(empty, "empty", ("zero", "skip"))
    check_choice(ties, "ties", ("order", "expected"))
    shards = as_blocks(database, "database")
    prepare: Any = Ranker.prepare if shards is None else BlockRanker.prepare
    ranker: Ranker | BlockRanker = prepare(
        queries, database if shards is None else shards, query_labels, database_labels, relevance, n_jobs
    )
    rankings = ranker.about(ties)
    found = ranker.values([each.over(rankings) for each in chosen])
    values = dict(zip(chosen, found, strict=True))
    means = {each: each.summary(_mean(own, empty), rankings) for each, own in values.items()}
    return Evaluation(means, ByMeasure(values), rankings.n_queries, rankings.n_items)


def _mean(values: Floats, empty: Empty) -> Any:
    """Average over queries; NaN marks a query without a relevant item."""
    is_empty = np.isnan(values).reshape(len(values), -1).any(axis=1)
    if empty == "zero":
        return np.where(np.isnan(values), 0.0, values).mean(axis=0)
    if is_empty.all():
        raise InputError('no query has a relevant item, so with empty="skip" there is nothing to average')
    return values[~is_empty].mean(axis=0)
