"""Measures over a database in blocks, equal to those of the whole: exact ranks without a ranking of everything.

An item's rank is how many items are nearer, plus how many are as near and come before it. Both are known from how many
items each block has at each distance: one pass counts them, and with all counts at hand a second pass ranks each
block's items among all. Measures are functions of sums over items, so every block adds its own. Sums that need no
ranks, all that there are if ties are in expectation, are made in the first pass, and there is no second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh.blocks import ArrayBlocks, Blocks, as_blocks
from dlfh.codes import Codes
from dlfh.errors import InputError
from dlfh.metrics.ranking import Ranker, check_queries, is_by_labels
from dlfh.metrics.relevance import Relevance, check_matrix, n_grades_of, read_labels
from dlfh.metrics.sums import About, Array, Before, Floats, RankedBlock, Sum, Taken, Ties, values_of

__all__ = ["BlockRanker"]

Counts = npt.NDArray[np.int32]

#: Bytes of counts by block, query and distance that are in one place at once: more queries take passes of their own.
_COUNT_BYTES = 256 << 20

#: What the first pass counts by block, if there is a second.
_COUNTED = (Sum(RankedBlock.sizes), Sum(RankedBlock.relevant, ("any",)))


@dataclass(frozen=True)
class BlockRanker:
    """Checked queries, a database in blocks, and what is relevant in each.

    Attributes
    ----------
    queries : ndarray of uint8 (queries, bytes)
    database : Blocks
    beside : Blocks
        Labels of the database, or grades of its items for all queries, in the same blocks.
    judge : callable
        Returns the relevance of a block's items from what is beside it.
    n_grades : int or None
        Grades are whole numbers below this; None where they are real numbers.
    has_labels : bool
    n_jobs : int or None
    """

    queries: Codes
    database: Blocks
    beside: Blocks
    judge: Callable[[Any], Relevance]
    n_grades: int | None
    has_labels: bool
    n_jobs: int | None

    @classmethod
    def prepare(
        cls,
        queries: npt.ArrayLike,
        database: Blocks,
        query_labels: Any,
        database_labels: Any,
        relevance: Any,
        n_jobs: int | None,
    ) -> BlockRanker:
        """Check what users pass in, and return what ranks it."""
        if database.ndim != 2 or database.dtype != np.uint8:
            raise InputError(
                f"database must be packed codes, uint8 with two dimensions, got type {database.dtype} and shape "
                f"{database.shape}"
            )
        asked = check_queries(queries, database.shape)
        if asked.dtype != np.uint8:
            raise InputError("over a database in blocks, queries must be packed codes (uint8), not projections")
        if is_by_labels(query_labels, database_labels, relevance):
            sets = read_labels(query_labels, "query_labels", len(asked), "queries")
            sets, beside = _labels_beside(database, sets, database_labels)
            judge = functools.partial(_by_labels, sets)
            return cls(asked, database.cut_like(beside), beside, judge, n_grades_of(sets), True, n_jobs)
        matrix, n_grades = check_matrix(relevance, len(asked), len(database))
        columns = sp.csr_array(matrix.T) if sp.issparse(matrix) else matrix.T
        beside = ArrayBlocks(columns, database.starts, "relevance")
        return cls(asked, database, beside, functools.partial(_by_matrix, n_grades), n_grades, False, n_jobs)

    def about(self, ties: Ties) -> About:
        """Return what measures know of the rankings."""
        n_items, width = self.database.shape
        return About(len(self.queries), n_items, 8 * width, ties, False, self.has_labels, self.n_grades)

    def values(self, taken: Sequence[Taken]) -> list[Floats]:
        """Return the values of measures by query."""
        n = len(self.queries)
        if any(each.is_by_rank for own in taken for each in own.sums):
            n = max(1, _COUNT_BYTES // (24 * self.database.n_blocks * (8 * self.database.shape[1] + 1)))
        some = [slice(start, start + n) for start in range(0, len(self.queries), n)]
        found = [values_of(taken, functools.partial(self._sums, rows)) for rows in some]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _sums(self, rows: slice, wanted: list[Sum]) -> list[Array]:
        """Return sums over all items for some queries, in one pass or two."""
        if any(each.method is RankedBlock.best_gains for each in wanted):
            raise InputError("over a database in blocks, nDCG takes grades that are whole numbers up to 1000")
        first = [each for each in wanted if not each.is_by_rank]
        second = [each for each in wanted if each.is_by_rank]
        n_jobs = self.n_jobs if self.database.is_here else 1
        asked = functools.partial(_Asked, self.queries[rows], rows.start, self.judge, n_jobs)
        if not second:
            return self.database.map_reduce(asked(first).add_up, _add, self.beside)
        counted = self.database.hold(asked(first).count, self.beside)
        before = _Values(counted.join(_before).turn(self.database.n_blocks, _only).values, self.database)
        sums = self.database.map_reduce(asked(second).add_up, _add, self.beside, before)
        found = dict(zip(second, sums, strict=True))
        found |= zip(first, counted.map_reduce(_sums_of, _add), strict=True)
        return [found[each] for each in wanted]


@dataclass(frozen=True)
class _Asked:
    """What is asked of each block: sums for the queries from ``first`` on."""

    queries: Codes
    first: int
    judge: Callable[[Any], Relevance]
    n_jobs: int | None
    wanted: list[Sum]

    def add_up(self, _: int, codes: Codes, beside: Any, before: Before | None = None) -> list[Array]:
        """Return the sums over a block's items, by query."""
        relevance = self.judge(beside).from_query(self.first)
        return Ranker(self.queries, np.ascontiguousarray(codes), relevance, self.n_jobs, before).sums(self.wanted)

    def count(self, start: int, codes: Codes, beside: Any) -> tuple[Counts, list[Any]]:
        """Return a block's counts by distance, of items and relevant ones (2, queries, distances), and the sums."""
        if not len(codes):
            return np.zeros((2, len(self.queries), 8 * codes.shape[1] + 1), np.int32), [0] * len(self.wanted)
        sums = replace(self, wanted=[*_COUNTED, *self.wanted]).add_up(start, codes, beside)
        return np.stack(sums[:2]).astype(np.int32), sums[2:]


class _Values(ArrayBlocks):
    """A value for each block, whatever it is, and wherever: what a cluster's workers have stays there."""

    def __init__(self, values: Sequence[Any], beside: Blocks) -> None:
        super().__init__(beside, beside.starts, "values")
        self.rows = values

    def read(self, number: int) -> Any:
        return self.rows[number]


def _labels_beside(database: Blocks, queries: LabelSets, labels: Any) -> tuple[LabelSets, Blocks]:
    """Return the queries' labels and the database's: as they come if they are in blocks, or numbered alike."""
    blocks = as_blocks(labels, "database_labels")
    if blocks is not None:
        return queries, blocks.cut_like(database)
    items = read_labels(labels, "database_labels", len(database), "database items")
    queries, items = queries.aligned_with(items, name="query_labels", other_name="database_labels")
    parts = np.ones(len(items.labels), np.int8), items.labels, items.starts
    rows = sp.csr_array(parts, shape=(items.n_sets, items.n_labels))[items.set_of_point]
    return replace(queries, names=None), ArrayBlocks(rows, database.starts, "database_labels")


def _by_labels(queries: LabelSets, labels: Any) -> Relevance:
    sets = LabelSets.from_labels(labels, name="database_labels", allow_empty=True)
    return Relevance.by_labels(queries, sets)


def _by_matrix(n_grades: int | None, columns: Any) -> Relevance:
    return Relevance.by_matrix(sp.csr_array(columns.T) if sp.issparse(columns) else columns.T, n_grades)


def _add(first: list[Array], second: list[Array]) -> list[Array]:
    return [a + b for a, b in zip(first, second, strict=True)]


def _sums_of(counted: tuple[Counts, list[Any]]) -> list[Any]:
    return counted[1]


def _before(counted: list[tuple[Counts, list[Any]]]) -> list[Before]:
    """Return, for each block, how many items of all blocks come before its first at each distance."""
    total = sum(counts.astype(np.int64) for counts, _ in counted)
    before = np.cumsum(total, axis=-1) - total
    found = []
    for counts, _ in counted:
        found.append(Before(*before))
        before = before + counts
    return found


def _only(values: list[Before]) -> Before:
    return values[0]
