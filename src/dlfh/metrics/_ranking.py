"""Rankings of a database for each query, and what is relevant in them: the ground that measures stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._sparse import compressed_rows
from dlfh._validation import check_choice, raise_if_masked
from dlfh.codes import as_words, by_word, check_codes, n_bytes
from dlfh.errors import InputError

__all__ = ["Floats", "Integers", "PrecisionSums", "RankedBlock", "Ranker", "TiedRuns", "Ties"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Ties = Literal["order", "expected"]
Result = TypeVar("Result")

#: Gives the grades of the queries from ``start`` to ``stop``, by item in database order; 0 is not relevant.
Judge = Callable[[int, int], npt.NDArray[Any]]

#: Items times queries that one block of work ranks: a few megabytes.
_BLOCK_ITEMS = 1 << 20


@dataclass(frozen=True)
class TiedRuns:
    """Runs of tied items in rank order: how many items each has, by query; runs may be empty."""

    sizes: Integers

    @cached_property
    def stops(self) -> Integers:
        """How many items are ranked up to the end of each run."""
        return np.cumsum(self.sizes, axis=1)

    @cached_property
    def starts(self) -> Integers:
        """How many items are ranked before each run."""
        return self.stops - self.sizes

    def sums(self, ranked: npt.NDArray[Any]) -> Floats:
        """Return the sum over each run of values in rank order."""
        running = np.cumsum(ranked, axis=1, dtype=np.float64)
        running = np.hstack([np.zeros((len(ranked), 1)), running])
        bounds = np.hstack([np.zeros((len(self.sizes), 1), np.int64), self.stops])
        return np.diff(np.take_along_axis(running, bounds, axis=1), axis=1)


class PrecisionSums(NamedTuple):
    """Of a ranking that is cut: the sum of precisions at relevant ranks, and how many these are; all there are."""

    sums: Floats
    hits: Integers
    n_relevant: Integers


@dataclass(frozen=True)
class RankedBlock:
    """The database as ranked for a few queries. What measures share is computed when first asked for, and kept.

    Attributes
    ----------
    places : ndarray of uint32 (queries, items)
        Each item's place in the ranking of each query, ties in database order.
    judged : ndarray (queries, items)
        Grades of the items in database order; 0 is not relevant.
    runs_of_ties : callable
        Returns the runs of tied items.
    ties : {"order", "expected"}
        Whether measures follow database order within a run, or are expectations over all orders.
    equal : callable
        Returns, in database order, 1 for the items that have the query's labels, all of them and no others.
    """

    places: npt.NDArray[np.uint32]
    judged: npt.NDArray[Any]
    runs_of_ties: Callable[[], TiedRuns]
    ties: Ties
    equal: Callable[[], npt.NDArray[np.uint8]]
    _cuts: dict[int, PrecisionSums] = field(default_factory=dict)

    @cached_property
    def grades(self) -> npt.NDArray[Any]:
        """Grades in rank order: small integers (uint8) or float64."""
        return self._in_rank_order(self.judged if self.judged.dtype == np.uint8 else self.judged.astype(np.float64))

    @cached_property
    def marks(self) -> npt.NDArray[np.uint8]:
        """A byte for each rank, positive where the item is relevant: the grades themselves, if they are bytes."""
        if self.judged.dtype == np.uint8:
            return self.grades
        return self._in_rank_order((self.judged > 0).view(np.uint8))

    @cached_property
    def relevant(self) -> npt.NDArray[np.uint8]:
        """Whether the item at each rank is relevant, as 0 or 1."""
        return (self.marks > 0).view(np.uint8)

    @property
    def n_relevant(self) -> Integers:
        """How many items are relevant to each query: any cut counts them on the way."""
        return self.precision_sums(next(iter(self._cuts), 1)).n_relevant

    @cached_property
    def of_equal_labels(self) -> RankedBlock:
        """The same rankings, in which an item is relevant if its labels are the query's, all of them and no others."""
        return RankedBlock(self.places, self.equal(), lambda: self.runs, self.ties, self.equal)

    @cached_property
    def runs(self) -> TiedRuns:
        return self.runs_of_ties()

    @cached_property
    def relevant_by_run(self) -> Floats:
        """How many relevant items each run of ties has."""
        return self.runs.sums(self.relevant)

    def precision_sums(self, k: int) -> PrecisionSums:
        """Return the sums of precisions and the hits within the first k, ties in database order."""
        if k not in self._cuts:
            sums = np.empty(len(self.marks))
            hits, n_relevant = np.empty((2, len(self.marks)), np.int64)
            _kernels.sum_precisions(self.marks, k, sums, hits, n_relevant)
            self._cuts[k] = PrecisionSums(sums, hits, n_relevant)
        return self._cuts[k]

    def hits(self, k: int) -> npt.NDArray[Any]:
        """Return the (expected) number of relevant items among the first k, by query."""
        if self.ties == "order":
            return self.precision_sums(k).hits
        share = self.relevant_by_run / np.maximum(self.runs.sizes, 1)
        return (share * np.clip(k - self.runs.starts, 0, self.runs.sizes)).sum(axis=1)

    def hits_along(self, ranks: Integers) -> npt.NDArray[Any]:
        """Return the same at many ranks: an array (queries, ranks)."""
        if self.ties == "order":
            stops, which = np.unique(ranks, return_inverse=True)
            starts = np.concatenate([[0], stops[:-1]])
            found = np.add.reduceat(self.relevant[:, : stops[-1]], starts, axis=1, dtype=np.int64)
            return np.cumsum(found, axis=1)[:, which]
        return np.stack([self.hits(int(rank)) for rank in ranks], axis=1)

    def _in_rank_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        ranked = np.empty_like(values)
        _kernels.reorder(values, self.places, ranked)
        return ranked


@dataclass(frozen=True)
class Ranker:
    """Checked queries, database and relevance; ranks the database for blocks of queries.

    Attributes
    ----------
    queries : ndarray of uint8 (queries, bytes) or of float32 (queries, bits)
    database : ndarray of uint8 (items, bytes)
    judge : callable
    equal : callable or None
        Gives 1 for items with the labels of a query, as ``judge`` gives grades; None where there are no labels.
    ties : {"order", "expected"}
    n_jobs : int or None
    """

    queries: npt.NDArray[Any]
    database: npt.NDArray[np.uint8]
    judge: Judge
    equal: Judge | None
    ties: Ties
    n_jobs: int | None

    @property
    def n_items(self) -> int:
        return len(self.database)

    @property
    def n_bits(self) -> int:
        return 8 * self.database.shape[1]

    @property
    def is_asymmetric(self) -> bool:
        return self.queries.dtype == np.float32

    @classmethod
    def prepare(
        cls,
        queries: npt.ArrayLike,
        database: npt.ArrayLike,
        query_labels: Any,
        database_labels: Any,
        relevance: Any,
        ties: Ties,
        n_jobs: int | None,
    ) -> Ranker:
        """Check what users pass in, and return what ranks it."""
        check_choice(ties, "ties", ("order", "expected"))
        items = check_codes(database, "database")
        asked = _check_queries(queries, items)
        if 0 in (len(asked), len(items)):
            raise InputError(f"nothing to evaluate: {len(asked)} queries and {len(items)} database items")
        equal: Judge | None = None
        if relevance is None:
            judge, equal = _judges_by_labels(query_labels, database_labels, len(asked), len(items))
        elif query_labels is None and database_labels is None:
            judge = _judge_by_matrix(relevance, len(asked), len(items))
        else:
            raise InputError("pass either labels or relevance, not both")
        return cls(asked, items, judge, equal, ties, n_jobs)

    def map(self, function: Callable[[RankedBlock], Result]) -> list[Result]:
        """Return ``function`` of each block of queries, in order; blocks run in parallel."""
        rank = self._by_score() if self.is_asymmetric else self._by_distance()
        with Workers(self.n_jobs) as workers:
            block = max(1, min(_BLOCK_ITEMS // self.n_items, -(-len(self.queries) // workers.n_jobs)))
            return workers.map_blocks(lambda start, stop: function(rank(start, stop)), len(self.queries), block)

    def _by_distance(self) -> Callable[[int, int], RankedBlock]:
        query_words, item_words = as_words(self.queries), by_word(self.database)

        def rank(start: int, stop: int) -> RankedBlock:
            judged = self.judge(start, stop)
            places = np.empty((stop - start, self.n_items), np.uint32)
            sizes = np.empty((stop - start, self.n_bits + 1), np.int64)
            _kernels.rank_by_distance(query_words[start:stop], item_words, self.n_bits, places, sizes)
            return RankedBlock(places, judged, lambda: TiedRuns(sizes), self.ties, lambda: self._equal(start, stop))

        return rank

    def _by_score(self) -> Callable[[int, int], RankedBlock]:
        items = np.ascontiguousarray(self.database)

        def rank(start: int, stop: int) -> RankedBlock:
            shape = (stop - start, self.n_items)
            places, tied = np.empty(shape, np.uint32), np.empty(shape, np.bool_)
            _kernels.rank_by_score(self.queries[start:stop], items, places, tied)
            runs = partial(_runs_of_equal_scores, tied)
            return RankedBlock(places, self.judge(start, stop), runs, self.ties, lambda: self._equal(start, stop))

        return rank

    def _equal(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        assert self.equal is not None  # measures that need labels say so before anything is ranked
        return self.equal(start, stop)


def _runs_of_equal_scores(tied: npt.NDArray[np.bool_]) -> TiedRuns:
    run_of_rank = np.cumsum(~tied, axis=1) - 1
    sizes = np.zeros((len(tied), run_of_rank[:, -1].max() + 1), np.int64)
    for row, runs in zip(sizes, run_of_rank, strict=True):
        row += np.bincount(runs, minlength=len(row))
    return TiedRuns(sizes)


def _check_queries(queries: npt.ArrayLike, items: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return queries as packed codes, or as projections in single precision."""
    raise_if_masked(queries, "queries")
    asked = np.asarray(queries)
    if asked.dtype.kind != "f":
        codes = check_codes(asked, "queries")
        if codes.shape[1] != items.shape[1]:
            raise InputError(f"queries have codes of {codes.shape[1]} bytes but the database has {items.shape[1]}")
        return codes
    if asked.ndim != 2 or n_bytes(asked.shape[1]) != items.shape[1]:
        raise InputError(
            f"queries are projections of shape {asked.shape}, but the database has codes of {items.shape[1]} bytes"
        )
    if not np.isfinite(asked).all():
        raise InputError(f"queries have NaN or infinity in row {np.argwhere(~np.isfinite(asked))[0][0]}")
    # The scale of a query does not change its ranking, and must not overflow single precision.
    if asked.dtype.itemsize < 4:
        asked = asked.astype(np.float32)
    largest = np.abs(asked).max(axis=1, keepdims=True, initial=0)
    exponents = np.frexp(largest)[1] * ((largest > 1e18) | (largest < 1e-18))
    return np.ascontiguousarray(np.ldexp(asked, -exponents), np.float32)


def _judges_by_labels(query_labels: Any, database_labels: Any, n_queries: int, n_items: int) -> tuple[Judge, Judge]:
    """Grade an item by the number of labels that it shares with the query; and by whether it has the same ones."""
    if query_labels is None or database_labels is None:
        raise InputError("pass query_labels and database_labels, or relevance")
    query_sets = LabelSets.from_labels(query_labels, name="query_labels", allow_empty=True)
    item_sets = LabelSets.from_labels(database_labels, name="database_labels", allow_empty=True)
    for name, sets, n, what in (
        ("query_labels", query_sets, n_queries, "queries"),
        ("database_labels", item_sets, n_items, "database items"),
    ):
        if sets.n_points != n:
            raise InputError(f"{name} has {sets.n_points} rows but there are {n} {what}")
    query_sets, item_sets = query_sets.aligned_with(item_sets, name="query_labels", other_name="database_labels")
    lists = _kernels.invert_lists(item_sets.starts, item_sets.labels, np.arange(item_sets.n_sets), item_sets.n_labels)
    set_of_item = item_sets.set_of_point.astype(np.int32)
    most = min(int(np.diff(sets.starts).max(initial=0)) for sets in (query_sets, item_sets))
    dtype = np.uint8 if most <= 255 else np.int32  # as small as can be: it is put in rank order item by item

    def judge(start: int, stop: int) -> npt.NDArray[Any]:
        grades = np.empty((stop - start, n_items), dtype)
        _kernels.shared_labels(
            query_sets.set_of_point[start:stop],
            query_sets.starts,
            query_sets.labels,
            *lists,
            set_of_item,
            item_sets.n_sets,
            item_sets.n_labels,
            grades,
        )
        return grades

    @cache
    def wanted_sets() -> npt.NDArray[np.int32]:
        number_of = {labels: number for number, labels in enumerate(_each_set(item_sets)) if labels}
        wanted = [number_of.get(labels, -1) for labels in _each_set(query_sets)]
        return np.array(wanted, np.int32)[query_sets.set_of_point]

    def equal(start: int, stop: int) -> npt.NDArray[Any]:
        marks = np.empty((stop - start, n_items), np.uint8)
        _kernels.equal_labels(wanted_sets()[start:stop], set_of_item, marks)
        return marks

    return judge, equal


def _each_set(sets: LabelSets) -> Iterator[frozenset[int]]:
    labels = sets.labels.tolist()
    return (frozenset(labels[start:stop]) for start, stop in pairwise(sets.starts.tolist()))


def _judge_by_matrix(relevance: Any, n_queries: int, n_items: int) -> Judge:
    """Take the grades from a matrix."""
    raise_if_masked(relevance, "relevance")
    matrix: Any = compressed_rows(relevance, "relevance") if sp.issparse(relevance) else np.asarray(relevance)
    if matrix.shape != (n_queries, n_items):
        raise InputError(f"relevance must have shape {(n_queries, n_items)} (queries x items), got {matrix.shape}")
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("relevance must hold finite numbers of at least 0")

    def judge(start: int, stop: int) -> npt.NDArray[Any]:
        rows = matrix[start:stop]
        dense = rows.toarray() if sp.issparse(rows) else rows
        return np.ascontiguousarray(dense.view(np.uint8) if dense.dtype == np.bool_ else dense)

    return judge
