"""Rankings of a database for each query, and what is relevant in them: the ground that metrics stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._validation import check_choice
from dlfh.codes import as_words, by_word, check_codes, n_bytes
from dlfh.errors import InputError

__all__ = ["Ranked", "Ranking", "Runs", "Ties"]

Floats = npt.NDArray[np.float64]
Ties = Literal["order", "expected"]

#: Items times queries that one block of work ranks: a few megabytes.
_BLOCK_ITEMS = 1 << 20


@dataclass(frozen=True)
class Runs:
    """Runs of tied items in rank order, per query: how many items, and the sum of their gains."""

    sizes: npt.NDArray[np.int64]
    gains: Floats


@dataclass(frozen=True)
class Ranked:
    """Gains of the database items in rank order, per query, and the runs of ties if asked for."""

    gains: npt.NDArray[Any]
    runs: Runs | None

    def n_relevant(self) -> npt.NDArray[np.int64]:
        return np.count_nonzero(self.gains, axis=1)


@dataclass(frozen=True)
class Ranking:
    """A checked evaluation: ranks blocks of queries and measures each block."""

    queries: npt.NDArray[Any]
    database: npt.NDArray[np.uint8]
    grades: Callable[[int, int, npt.DTypeLike], npt.NDArray[Any]]
    ties: Ties
    n_jobs: int | None

    @property
    def n_items(self) -> int:
        return len(self.database)

    @property
    def n_bits(self) -> int:
        return 8 * self.database.shape[1]

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
    ) -> Ranking:
        check_choice(ties, "ties", ("order", "expected"))
        items = check_codes(database, "database")
        asked = np.asarray(queries)
        if asked.dtype.kind == "f":
            if asked.ndim != 2 or n_bytes(asked.shape[1]) != items.shape[1]:
                raise InputError(
                    f"queries are projections of shape {asked.shape}, but the database has codes of "
                    f"{items.shape[1]} bytes"
                )
            if not np.isfinite(asked).all():
                raise InputError(f"queries have NaN or infinity in row {np.argwhere(~np.isfinite(asked))[0][0]}")
            # The scale of a query does not change its ranking, and must not overflow single precision.
            largest = np.abs(asked).max(axis=1, keepdims=True, initial=0)
            exponents = np.frexp(largest)[1] * ((largest > 1e18) | (largest < 1e-18))
            asked = np.ascontiguousarray(np.ldexp(asked, -exponents), np.float32)
        else:
            asked = check_codes(asked, "queries")
            if asked.shape[1] != items.shape[1]:
                raise InputError(f"queries have codes of {asked.shape[1]} bytes but the database has {items.shape[1]}")
        if 0 in (len(asked), len(items)):
            raise InputError(f"nothing to evaluate: {len(asked)} queries and {len(items)} database items")
        grades = _grades(len(asked), len(items), query_labels, database_labels, relevance)
        return cls(asked, items, grades, ties, n_jobs)

    def measure(
        self,
        function: Callable[[Ranked], Floats],
        dtype: npt.DTypeLike,
        gain: Callable[[Any], Any] | None = None,
    ) -> Iterator[Floats]:
        """Yield ``function`` of each block of queries, in order; blocks run in parallel."""
        rank = self._by_score() if self.queries.dtype == np.float32 else self._by_distance()

        def run(start: int, stop: int) -> Floats:
            grades = self.grades(start, stop, dtype)
            return function(rank(start, stop, grades if gain is None else gain(grades)))

        with Workers(self.n_jobs) as workers:
            block = max(1, min(_BLOCK_ITEMS // self.n_items, -(-len(self.queries) // workers.n_jobs)))
            yield from workers.map_blocks(run, len(self.queries), block)

    def _by_distance(self) -> Callable[[int, int, npt.NDArray[Any]], Ranked]:
        query_words, item_words = as_words(self.queries), by_word(self.database)

        def rank(start: int, stop: int, gains: npt.NDArray[Any]) -> Ranked:
            places = np.empty(gains.shape, np.uint32)
            sizes = np.empty((stop - start, self.n_bits + 1), np.int64)
            _kernels.rank_by_distance(query_words[start:stop], item_words, self.n_bits, places, sizes)
            ranked = np.empty_like(gains)
            _kernels.reorder(gains, places, ranked)
            return Ranked(ranked, None if self.ties == "order" else Runs(sizes, _sum_runs(ranked, sizes)))

        return rank

    def _by_score(self) -> Callable[[int, int, npt.NDArray[Any]], Ranked]:
        items = np.ascontiguousarray(self.database)

        def rank(start: int, stop: int, gains: npt.NDArray[Any]) -> Ranked:
            places, tied = np.empty(gains.shape, np.uint32), np.empty(gains.shape, np.bool_)
            _kernels.rank_by_score(self.queries[start:stop], items, places, tied)
            ranked = np.empty_like(gains)
            _kernels.reorder(gains, places, ranked)
            if self.ties == "order":
                return Ranked(ranked, None)
            run_of_rank = np.cumsum(~tied, axis=1) - 1
            sizes = np.zeros((len(gains), run_of_rank[:, -1].max() + 1), np.int64)
            for row, runs in zip(sizes, run_of_rank, strict=True):
                row += np.bincount(runs, minlength=len(row))
            return Ranked(ranked, Runs(sizes, _sum_runs(ranked, sizes)))

        return rank


def _sum_runs(ranked: npt.NDArray[Any], sizes: npt.NDArray[np.int64]) -> Floats:
    running = np.cumsum(ranked, axis=1, dtype=np.float64)
    running = np.hstack([np.zeros((len(ranked), 1)), running])
    bounds = np.hstack([np.zeros((len(sizes), 1), np.int64), np.cumsum(sizes, axis=1)])
    return np.diff(np.take_along_axis(running, bounds, axis=1), axis=1)


def _grades(
    n_queries: int, n_items: int, query_labels: Any, database_labels: Any, relevance: Any
) -> Callable[[int, int, npt.DTypeLike], npt.NDArray[Any]]:
    """Return a function that gives the grades of a block of queries: relevant or not for uint8."""
    if relevance is not None:
        if query_labels is not None or database_labels is not None:
            raise InputError("pass either labels or relevance, not both")
        return _grades_from_matrix(relevance, n_queries, n_items)
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

    def shared(start: int, stop: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        binary = dtype == np.uint8
        grades = np.empty((stop - start, n_items), np.uint8 if binary else np.int32)
        _kernels.shared_labels(
            query_sets.set_of_point[start:stop],
            query_sets.starts,
            query_sets.labels,
            *lists,
            set_of_item,
            item_sets.n_sets,
            1 if binary else item_sets.n_labels,
            grades,
        )
        return grades if binary else grades.astype(dtype)

    return shared


def _grades_from_matrix(
    relevance: Any, n_queries: int, n_items: int
) -> Callable[[int, int, npt.DTypeLike], npt.NDArray[Any]]:
    matrix: Any = sp.csr_array(relevance) if sp.issparse(relevance) else np.asarray(relevance)
    if matrix.shape != (n_queries, n_items):
        raise InputError(f"relevance must have shape {(n_queries, n_items)} (queries x items), got {matrix.shape}")
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("relevance must hold finite numbers of at least 0")

    def block(start: int, stop: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        rows = matrix[start:stop]
        dense = rows.toarray() if sp.issparse(rows) else rows
        return (dense > 0).view(np.uint8) if dtype == np.uint8 else dense.astype(dtype)

    return block
