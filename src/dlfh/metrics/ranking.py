"""Exact rankings of a database in blocks; a database in memory is one block.

An item's rank is the number of nearer items plus the number of equally near items that precede it. Both follow from
the number of items that each block has at each distance: one pass over the blocks counts them, a second ranks each
block's items within the whole database and adds up the sums that measures need. Sums that need no ranks (all of them
if ties are in expectation) are computed in the first pass, and a single block is ranked in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Mask, Singles
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._validation import raise_if_masked
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import as_blocks
from dlfh.codes import as_words, by_word, check_codes, n_bytes
from dlfh.errors import InputError
from dlfh.metrics.relevance import Relevance, check_matrix, n_grades_of, read_labels
from dlfh.metrics.sums import Aggregation, RankedBlock, RankingInfo, RankOffsets, Sum, TiedRuns, Ties, finalize_all

Counts = npt.NDArray[np.int32]

#: Items times queries that a thread ranks at once: a few megabytes.
_BATCH_ITEMS = 1 << 20

#: Bytes of counts by block, query and distance held at once; further queries take further passes.
_COUNT_BYTES = 256 << 20

#: Sums that the first of two passes counts by block.
_COUNTED = (Sum(RankedBlock.run_sizes), Sum(RankedBlock.run_hits, ("any",)))


@dataclass(frozen=True)
class Ranker:
    """Checked queries, the blocks of a database, and the relevance of each block's items.

    judgements: Labels of each block's items, or their grades for all queries.
    relevance_of: Returns the relevance of a block's items from its judgements.
    n_grades: Grades are whole numbers below this; None if they are real numbers.
    """

    queries: Array
    database: Blocks
    judgements: Blocks
    relevance_of: Callable[[Any], Relevance]
    n_grades: int | None
    has_labels: bool
    n_jobs: int | None

    @classmethod
    def prepare(
        cls,
        queries: npt.ArrayLike,
        database: Any,
        query_labels: Any,
        database_labels: Any,
        relevance: Any,
        n_jobs: int | None,
    ) -> Ranker:
        """Check the arguments of `evaluate` and return their ranker."""
        items = _blocks_of_codes(database)
        checked = _check_queries(queries, items)
        if relevance is None and (query_labels is None or database_labels is None):
            raise InputError("pass query_labels and database_labels, or relevance")
        if relevance is not None and not (query_labels is None and database_labels is None):
            raise InputError("pass either labels or relevance, not both")
        if relevance is not None:
            matrix, n_grades = check_matrix(relevance, len(checked), len(items))
            judgements = _PerBlock(_column_blocks(matrix, items), items)
            return cls(checked, items, judgements, partial(_by_matrix, n_grades), n_grades, False, n_jobs)
        sets = read_labels(query_labels, "query_labels", len(checked), "queries")
        labels = as_blocks(database_labels, "database_labels")
        if labels is None:
            item_sets = read_labels(database_labels, "database_labels", len(items), "database items")
            sets, item_sets = sets.aligned_with(item_sets, name="query_labels", other_name="database_labels")
            sets, item_sets = replace(sets, names=None), replace(item_sets, names=None)
            labels = _PerBlock(_set_blocks(item_sets, items), items)
        else:
            labels = labels.split_like(items)
            items = items.split_like(labels)
        return cls(checked, items, labels, partial(_by_labels, sets), n_grades_of(sets), True, n_jobs)

    def info(self, ties: Ties) -> RankingInfo:
        """Return the properties of the rankings that measures depend on."""
        n_items, width = self.database.shape
        is_asymmetric = self.queries.dtype == np.float32
        return RankingInfo(len(self.queries), n_items, 8 * width, ties, is_asymmetric, self.has_labels, self.n_grades)

    def values(self, aggregations: Sequence[Aggregation]) -> list[Floats]:
        """Return the values of each aggregation by query."""
        if _is_whole(self.database):

            def finalized(_: int, codes: Codes, judgements: Any) -> list[Floats]:
                relevance = self.relevance_of(judgements)
                rank = partial(finalize_all, aggregations)
                return _map_ranked(self.queries, codes, relevance, self.n_jobs, lambda block: rank(block.compute))

            return self.database.map_reduce(finalized, _add, self.judgements)
        n = len(self.queries)
        if any(each.needs_ranks for aggregation in aggregations for each in aggregation.sums):
            n = max(1, _COUNT_BYTES // (24 * self.database.n_blocks * (8 * self.database.shape[1] + 1)))
        batches = [slice(start, start + n) for start in range(0, len(self.queries), n)]
        found = [finalize_all(aggregations, partial(self._compute, rows)) for rows in batches]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _compute(self, rows: slice, sums: list[Sum]) -> list[Array]:
        """Return sums over all blocks for a batch of queries."""
        if any(each.method is RankedBlock.ideal_gains for each in sums):
            raise InputError(
                "nDCG over a database in several blocks takes whole-number grades up to 1000; got other numbers"
            )
        first = [each for each in sums if not each.needs_ranks]
        second = [each for each in sums if each.needs_ranks]
        n_jobs = self.n_jobs if self.database.is_local else 1
        task = partial(_BlockTask, self.queries[rows], rows.start, self.relevance_of, n_jobs)
        if not second:
            return self.database.map_reduce(task(first).compute, _add, self.judgements)
        counted = self.database.persist(task(first).count, self.judgements)
        offsets = _PerBlock(
            counted.combine(_rank_offsets).transpose(self.database.n_blocks, _only).values, self.database
        )
        ranked = self.database.map_reduce(task(second).compute, _add, self.judgements, offsets)
        found = dict(zip(second, ranked, strict=True))
        found |= zip(first, counted.map_reduce(_counted_sums, _add), strict=True)
        return [found[each] for each in sums]


@dataclass(frozen=True)
class _BlockTask:
    """Sums to compute in each block for a batch of queries, the first of which has number ``first``."""

    queries: Codes
    first: int
    relevance_of: Callable[[Any], Relevance]
    n_jobs: int | None
    sums: list[Sum]

    def compute(self, _: int, codes: Codes, judgements: Any, offsets: RankOffsets | None = None) -> list[Array]:
        """Return the sums over a block's items by query."""
        relevance = self.relevance_of(judgements).from_query(self.first)
        return _map_ranked(self.queries, codes, relevance, self.n_jobs, lambda block: block.compute(self.sums), offsets)

    def count(self, start: int, codes: Codes, judgements: Any) -> tuple[Counts, list[Any]]:
        """Return counts of items and relevant items by distance (2, queries, distances), and the sums."""
        if not len(codes):
            return np.zeros((2, len(self.queries), 8 * codes.shape[1] + 1), np.int32), [0] * len(self.sums)
        found = replace(self, sums=[*_COUNTED, *self.sums]).compute(start, codes, judgements)
        return np.stack(found[:2]).astype(np.int32), found[2:]


def _map_ranked(
    queries: Array,
    codes: Codes,
    relevance: Relevance,
    n_jobs: int | None,
    function: Callable[[RankedBlock], list[Array]],
    offsets: RankOffsets | None = None,
) -> list[Array]:
    """Return ``function`` of a block ranked for all queries, computed for batches of queries in parallel."""
    rank = _rank_by_score(queries, codes) if queries.dtype == np.float32 else _rank_by_distance(queries, codes)

    def of_batch(start: int, stop: int) -> list[Array]:
        ranks, tied_runs = rank(start, stop)
        own_offsets = None if offsets is None else RankOffsets(*(each[start:stop] for each in offsets))

        def equal() -> Codes:
            assert relevance.equal is not None  # measures that compare labels check this before ranking
            return relevance.equal(start, stop)

        return function(RankedBlock(ranks, relevance.grades(start, stop), tied_runs, equal, own_offsets))

    with Workers(n_jobs) as workers:
        batch = max(1, min(_BATCH_ITEMS // len(codes), -(-len(queries) // workers.n_jobs)))
        found = workers.map_blocks(of_batch, len(queries), batch)
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


#: Returns the ranks of all items for the queries ``start:stop``, and a function that returns the runs of ties.
_Rank = Callable[[int, int], tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]]


def _rank_by_distance(queries: Codes, codes: Codes) -> _Rank:
    query_words, item_words = as_words(queries), by_word(codes)
    n_bits = 8 * codes.shape[1]

    def rank(start: int, stop: int) -> tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]:
        ranks = np.empty((stop - start, len(codes)), np.uint32)
        sizes = np.empty((stop - start, n_bits + 1), np.int64)
        _kernels.rank_by_distance(query_words[start:stop], item_words, n_bits, ranks, sizes)
        return ranks, lambda: TiedRuns(sizes)

    return rank


def _rank_by_score(queries: Array, codes: Codes) -> _Rank:
    """Rank by projections (queries, n_bits), or by score tables (queries, bytes, 256)."""
    items = np.ascontiguousarray(codes)

    def rank(start: int, stop: int) -> tuple[npt.NDArray[np.uint32], Callable[[], TiedRuns]]:
        shape = (stop - start, len(items))
        ranks, tied = np.empty(shape, np.uint32), np.empty(shape, np.bool_)
        tables = queries[start:stop] if queries.ndim == 3 else byte_tables(queries[start:stop])
        _kernels.rank_by_score(tables, items, ranks, tied)
        return ranks, partial(_runs_of_equal_scores, tied)

    return rank


def byte_tables(projections: Singles) -> Singles:
    """Return, for each query, byte of a code and its value, their part in the inner product with a +-1 code."""
    n, n_bits = projections.shape
    bits = np.zeros((n, n_bytes(n_bits), 8), np.float32)
    bits.reshape(n, -1)[:, :n_bits] = projections
    tables = np.empty((*bits.shape[:2], 256), np.float32)
    tables[:, :, 0] = -np.add.accumulate(bits, axis=2)[:, :, -1]
    for k in range(8):
        tables[:, :, 128 >> k :: 256 >> k] = tables[:, :, :: 256 >> k] + 2 * bits[:, :, k, None]
    return tables


def _runs_of_equal_scores(tied: Mask) -> TiedRuns:
    run_of_rank = np.cumsum(~tied, axis=1) - 1
    sizes = np.zeros((len(tied), run_of_rank[:, -1].max() + 1), np.int64)
    for row, runs in zip(sizes, run_of_rank, strict=True):
        row += np.bincount(runs, minlength=len(row))
    return TiedRuns(sizes)


class _PerBlock(ArrayBlocks):
    """One value of any type for each block of a database; values on a cluster stay there."""

    def __init__(self, values: Sequence[Any], database: Blocks) -> None:
        super().__init__(database, database.starts, "values")
        self.rows = values

    def read(self, number: int) -> Any:
        return self.rows[number]


def _is_whole(database: Blocks) -> bool:
    """Return whether a database is one block that this process ranks."""
    return database.n_blocks == 1 and database.is_local


def _blocks_of_codes(database: Any) -> Blocks:
    blocks = as_blocks(database, "database")
    if blocks is None:
        codes = check_codes(database, "database")
        return ArrayBlocks(codes, [0, len(codes)], "database")
    if blocks.ndim != 2 or blocks.dtype != np.uint8:
        raise InputError(
            f"database must be packed codes (uint8, two-dimensional), got type {blocks.dtype} and shape {blocks.shape}"
        )
    return blocks


def _check_queries(queries: npt.ArrayLike, database: Blocks) -> Array:
    """Return queries as packed codes, or as projections or score tables in single precision."""
    raise_if_masked(queries, "queries")
    checked, (n_items, width) = np.asarray(queries), database.shape
    if checked.dtype.kind != "f":
        checked = check_codes(checked, "queries")
        if checked.shape[1] != width:
            raise InputError(f"queries have codes of {checked.shape[1]} bytes but the database has {width}")
    elif checked.ndim == 3 and checked.shape[1:] != (width, 256):
        raise InputError(
            f"queries are score tables of shape {checked.shape}, but the database has {width} bytes per item"
        )
    elif checked.ndim != 3 and (checked.ndim != 2 or n_bytes(checked.shape[1]) != width):
        raise InputError(
            f"queries are projections of shape {checked.shape}, but the database has codes of {width} bytes"
        )
    elif not np.isfinite(checked).all():
        raise InputError(f"queries have NaN or infinity in row {np.argwhere(~np.isfinite(checked))[0][0]}")
    elif not _is_whole(database):
        raise InputError(
            "queries must be packed codes (uint8) if the database comes in several blocks; got real numbers"
        )
    elif checked.ndim == 3:
        checked = np.ascontiguousarray(checked, np.float32)
    else:
        checked = _in_single_precision(checked)
    if 0 in (len(checked), n_items):
        raise InputError(f"nothing to evaluate: {len(checked)} queries and {n_items} database items")
    return checked


def _in_single_precision(projections: Array) -> Singles:
    """Return float32 projections with the same rankings; rows that would overflow or vanish are rescaled."""
    if projections.dtype.itemsize < 4:
        projections = projections.astype(np.float32)
    largest = np.abs(projections).max(axis=1, keepdims=True, initial=0)
    exponents = np.frexp(largest)[1] * ((largest > 1e18) | (largest < 1e-18))
    return np.ascontiguousarray(np.ldexp(projections, -exponents), np.float32)


def _column_blocks(matrix: Any, database: Blocks) -> list[Any]:
    """Return the columns of a grade matrix that belong to each block."""
    if database.n_blocks == 1:
        return [matrix]
    columns = sp.csc_array(matrix) if sp.issparse(matrix) else matrix
    bounds = zip(database.starts, database.starts[1:], strict=False)
    parts = [columns[:, int(start) : int(stop)] for start, stop in bounds]
    return [sp.csr_array(part) if sp.issparse(part) else part for part in parts]


def _set_blocks(sets: LabelSets, database: Blocks) -> list[LabelSets]:
    """Return the label sets of each block's items."""
    if database.n_blocks == 1:
        return [sets]
    bounds = zip(database.starts, database.starts[1:], strict=False)
    return [sets.take(np.arange(start, stop)) for start, stop in bounds]


def _by_labels(queries: LabelSets, labels: Any) -> Relevance:
    if not isinstance(labels, LabelSets):
        labels = LabelSets.from_labels(labels, name="database_labels", allow_empty=True)
    return Relevance.by_labels(queries, labels)


def _by_matrix(n_grades: int | None, grades: Any) -> Relevance:
    return Relevance.by_matrix(grades, n_grades)


def _add(first: list[Array], second: list[Array]) -> list[Array]:
    return [a + b for a, b in zip(first, second, strict=True)]


def _counted_sums(counted: tuple[Counts, list[Any]]) -> list[Any]:
    return counted[1]


def _rank_offsets(counted: list[tuple[Counts, list[Any]]]) -> list[RankOffsets]:
    """Return each block's rank offsets from the counts of all blocks."""
    total = sum(counts.astype(np.int64) for counts, _ in counted)
    before = np.cumsum(total, axis=-1) - total
    offsets = []
    for counts, _ in counted:
        offsets.append(RankOffsets(*before))
        before = before + counts
    return offsets


def _only(values: list[RankOffsets]) -> RankOffsets:
    return values[0]
