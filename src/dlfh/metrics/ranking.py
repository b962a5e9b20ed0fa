"""Rankings of a database, or of a part of it, for blocks of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._parallel import Workers
from dlfh._validation import raise_if_masked
from dlfh.codes import as_words, by_word, check_codes, n_bytes
from dlfh.errors import InputError
from dlfh.metrics.relevance import Relevance, check_matrix, read_labels
from dlfh.metrics.sums import About, Array, Before, Floats, RankedBlock, Sum, Taken, TiedRuns, Ties, values_of

__all__ = ["Ranker", "check_queries", "is_by_labels"]

#: Items times queries that one block of work ranks: a few megabytes.
_BLOCK_ITEMS = 1 << 20

#: Gives the places of items for the queries from ``start`` to ``stop``, and what returns the runs of tied ones.
_Rank = Callable[[int, int], tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]]


@dataclass(frozen=True)
class Ranker:
    """Checked queries, database and relevance; ranks the database, or a part of it, for blocks of queries.

    Attributes
    ----------
    queries : ndarray of uint8 (queries, bytes) or of float32 (queries, bits)
    database : ndarray of uint8 (items, bytes)
    relevance : Relevance
    n_jobs : int or None
    before : Before or None
        What comes before a part of the database; None if it is all there.
    """

    queries: Array
    database: npt.NDArray[np.uint8]
    relevance: Relevance
    n_jobs: int | None
    before: Before | None = None

    @classmethod
    def prepare(
        cls,
        queries: npt.ArrayLike,
        database: npt.ArrayLike,
        query_labels: Any,
        database_labels: Any,
        relevance: Any,
        n_jobs: int | None,
    ) -> Ranker:
        """Check what users pass in, and return what ranks it."""
        items = check_codes(database, "database")
        asked = check_queries(queries, items.shape)
        if is_by_labels(query_labels, database_labels, relevance):
            sets = read_labels(query_labels, "query_labels", len(asked), "queries")
            others = read_labels(database_labels, "database_labels", len(items), "database items")
            return cls(asked, items, Relevance.by_labels(sets, others), n_jobs)
        return cls(asked, items, Relevance.by_matrix(*check_matrix(relevance, len(asked), len(items))), n_jobs)

    def about(self, ties: Ties) -> About:
        """Return what measures know of the rankings."""
        has_labels, n_grades = self.relevance.equal is not None, self.relevance.n_grades
        n_bits, asymmetric = 8 * self.database.shape[1], self.queries.dtype == np.float32
        return About(len(self.queries), len(self.database), n_bits, ties, asymmetric, has_labels, n_grades)

    def values(self, taken: Sequence[Taken]) -> list[Floats]:
        """Return the values of measures by query."""
        return self._map(lambda block: values_of(taken, block.sums))

    def sums(self, wanted: Sequence[Sum]) -> list[Array]:
        """Return sums by query."""
        return self._map(lambda block: block.sums(wanted))

    def _map(self, function: Callable[[RankedBlock], list[Array]]) -> list[Array]:
        """Return ``function`` of all queries, by blocks of them, which run in parallel."""
        rank = self._by_score() if self.queries.dtype == np.float32 else self._by_distance()
        n_items = len(self.database)

        def of_block(start: int, stop: int) -> list[Array]:
            places, runs = rank(start, stop)
            before = None if self.before is None else Before(*(each[start:stop] for each in self.before))
            judged, equal = self.relevance.grades(start, stop), partial(self._equal, start, stop)
            return function(RankedBlock(places, judged, runs, equal, before))

        with Workers(self.n_jobs) as workers:
            block = max(1, min(_BLOCK_ITEMS // n_items, -(-len(self.queries) // workers.n_jobs)))
            found = workers.map_blocks(of_block, len(self.queries), block)
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _by_distance(self) -> _Rank:
        query_words, item_words = as_words(self.queries), by_word(self.database)
        n_bits = 8 * self.database.shape[1]

        def rank(start: int, stop: int) -> tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]:
            places = np.empty((stop - start, len(self.database)), np.uint32)
            sizes = np.empty((stop - start, n_bits + 1), np.int64)
            _kernels.rank_by_distance(query_words[start:stop], item_words, n_bits, places, sizes)
            return places, lambda: TiedRuns(sizes)

        return rank

    def _by_score(self) -> _Rank:
        items = np.ascontiguousarray(self.database)

        def rank(start: int, stop: int) -> tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]:
            shape = (stop - start, len(items))
            places, tied = np.empty(shape, np.uint32), np.empty(shape, np.bool_)
            _kernels.rank_by_score(self.queries[start:stop], items, places, tied)
            return places, partial(_runs_of_equal_scores, tied)

        return rank

    def _equal(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        assert self.relevance.equal is not None  # measures that need labels say so before anything is ranked
        return self.relevance.equal(start, stop)


def _runs_of_equal_scores(tied: npt.NDArray[np.bool_]) -> TiedRuns:
    run_of_rank = np.cumsum(~tied, axis=1) - 1
    sizes = np.zeros((len(tied), run_of_rank[:, -1].max() + 1), np.int64)
    for row, runs in zip(sizes, run_of_rank, strict=True):
        row += np.bincount(runs, minlength=len(row))
    return TiedRuns(sizes)


def is_by_labels(query_labels: Any, database_labels: Any, relevance: Any) -> bool:
    """Tell whether labels say what is relevant, or a matrix: one of them must be there, and not both."""
    if relevance is None and (query_labels is None or database_labels is None):
        raise InputError("pass query_labels and database_labels, or relevance")
    if relevance is not None and not (query_labels is None and database_labels is None):
        raise InputError("pass either labels or relevance, not both")
    return relevance is None


def check_queries(queries: npt.ArrayLike, database: tuple[int, ...]) -> Array:
    """Return queries as packed codes, or as projections in single precision, for a database of some shape."""
    raise_if_masked(queries, "queries")
    asked, (n_items, width) = np.asarray(queries), database
    if asked.dtype.kind != "f":
        asked = check_codes(asked, "queries")
        if asked.shape[1] != width:
            raise InputError(f"queries have codes of {asked.shape[1]} bytes but the database has {width}")
    elif asked.ndim != 2 or n_bytes(asked.shape[1]) != width:
        raise InputError(f"queries are projections of shape {asked.shape}, but the database has codes of {width} bytes")
    elif not np.isfinite(asked).all():
        raise InputError(f"queries have NaN or infinity in row {np.argwhere(~np.isfinite(asked))[0][0]}")
    else:
        asked = _in_single_precision(asked)
    if 0 in (len(asked), n_items):
        raise InputError(f"nothing to evaluate: {len(asked)} queries and {n_items} database items")
    return asked


def _in_single_precision(projections: Array) -> npt.NDArray[np.float32]:
    """Return projections whose rankings are the same: the scale of a query must not overflow."""
    if projections.dtype.itemsize < 4:
        projections = projections.astype(np.float32)
    largest = np.abs(projections).max(axis=1, keepdims=True, initial=0)
    exponents = np.frexp(largest)[1] * ((largest > 1e18) | (largest < 1e-18))
    return np.ascontiguousarray(np.ldexp(projections, -exponents), np.float32)
