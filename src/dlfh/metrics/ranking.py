"""Exact rankings of a database in blocks; a database in memory is one block.

An item's rank is the number of nearer items plus the number of equally near items that precede it. Both follow from
the number of items that each block has at each distance: one pass over the blocks counts them, a second ranks each
block's items within the whole database and adds up the sums that measures need. Sums that need no ranks (all sums, with
``ties="expected"``) are computed in the first pass. A single block needs only one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, starmap
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh._validation import raise_if_masked
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import as_blocks
from dlfh.codes import as_words, by_word, check_codes, n_bytes
from dlfh.errors import InputError
from dlfh.metrics.relevance import Relevance, by_labels, by_matrix, check_matrix, n_grades_of, read_labels
from dlfh.metrics.sums import Aggregation, RankedBlock, RankingInfo, RankOffsets, Sum, Ties, finalize_all

Counts = npt.NDArray[np.int32]
_BATCH_ITEMS = 1 << 20  # items times queries that a thread ranks at once: a few megabytes
#: Memory limit, in bytes, for counts by block, query and distance; more queries take more passes.
_COUNT_BYTES = 256 << 20
#: Sums that the first of two passes counts by block.
_COUNTED = (Sum(RankedBlock.run_sizes), Sum(RankedBlock.run_hits, ("any",)))


@dataclass(frozen=True)
class Ranker:
    """Checked queries, the blocks of a database, and the relevance of each block's items."""

    queries: Array
    database: Blocks
    judgements: Blocks  # labels of each block's items, or their grades for all queries
    relevance_of: Callable[[Any], Relevance]  # the relevance of a block's items, from its judgements
    rankings: RankingInfo
    n_jobs: int | None

    @classmethod
    def prepare(
        cls, queries: Any, database: Any, labels: tuple[Any, Any], relevance: Any, ties: Ties, n_jobs: int | None
    ) -> Ranker:
        items = _blocks_of_codes(database)
        checked = _check_queries(queries, items)
        n_labels = sum(each is not None for each in labels)
        if relevance is None and n_labels < 2:
            raise InputError("pass query_labels and database_labels, or relevance")
        if relevance is not None and n_labels:
            raise InputError("pass either labels or relevance, not both")
        relevance_of: Callable[[Any], Relevance] = by_matrix
        if relevance is not None:
            matrix, n_grades = check_matrix(relevance, len(checked), len(items))
            if sp.issparse(matrix) and items.n_blocks > 1:
                matrix = sp.csc_array(matrix)  # fast to divide by columns
            judgements: Blocks = _PerBlock.of(items, matrix)
        else:
            sets = read_labels(labels[0], "query_labels", len(checked), "queries")
            blocks = as_blocks(labels[1], "database_labels")
            if blocks is None:
                item_sets = read_labels(labels[1], "database_labels", len(items), "database items")
                sets, item_sets = sets.aligned_with(item_sets, name="query_labels", other_name="database_labels")
                sets, item_sets = replace(sets, names=None), replace(item_sets, names=None)
                judgements = _PerBlock.of(items, item_sets)
            else:
                judgements = blocks.split_like(items)
                items = items.split_like(judgements)
            relevance_of, n_grades = partial(by_labels, sets), n_grades_of(sets)
        n_items, width = items.shape
        is_asymmetric = checked.dtype == np.float32
        rankings = RankingInfo(len(checked), n_items, 8 * width, ties, is_asymmetric, relevance is None, n_grades)
        return cls(checked, items, judgements, relevance_of, rankings, n_jobs)

    def values(self, aggregations: Sequence[Aggregation]) -> list[Floats]:
        if _is_whole(self.database):
            task = _BlockTask(
                self.queries, 0, self.relevance_of, self.n_jobs, lambda block: finalize_all(aggregations, block.compute)
            )
            return self.database.map_reduce(task.compute, _add, self.judgements)
        n = len(self.queries)
        if any(each.needs_ranks for aggregation in aggregations for each in aggregation.sums):
            n = max(1, _COUNT_BYTES // (24 * self.database.n_blocks * (8 * self.database.shape[1] + 1)))
        batches = [slice(start, start + n) for start in range(0, len(self.queries), n)]
        found = [finalize_all(aggregations, partial(self._compute, rows)) for rows in batches]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _compute(self, rows: slice, sums: list[Sum]) -> list[Array]:
        if any(each.method is RankedBlock.ideal_gains for each in sums):
            raise InputError("nDCG over a database in several blocks needs integer grades from 0 to 1000")
        first = [each for each in sums if not each.needs_ranks]
        second = [each for each in sums if each.needs_ranks]

        def task(sums: list[Sum]) -> _BlockTask:
            n_jobs = self.n_jobs if self.database.is_local else 1
            compute = partial(RankedBlock.compute, sums=sums)
            return _BlockTask(self.queries[rows], rows.start, self.relevance_of, n_jobs, compute)

        if not second:
            return self.database.map_reduce(task(first).compute, _add, self.judgements)
        counted = self.database.persist(partial(task([*_COUNTED, *first]).count, len(first)), self.judgements)
        offsets = counted.combine(_rank_offsets).transpose(self.database.n_blocks, itemgetter(0)).values
        before = _PerBlock(offsets, self.database)
        ranked = self.database.map_reduce(task(second).compute, _add, self.judgements, before)
        found = dict(zip(second, ranked, strict=True))
        found |= zip(first, counted.map_reduce(itemgetter(1), _add), strict=True)
        return [found[each] for each in sums]


@dataclass(frozen=True)
class _BlockTask:
    """A function to apply to each block, ranked for a batch of queries; ``first`` is the number of the first query."""

    queries: Array
    first: int
    relevance_of: Callable[[Any], Relevance]
    n_jobs: int | None
    function: Callable[[RankedBlock], list[Array]]

    def compute(self, _: int, codes: Codes, judgements: Any, offsets: RankOffsets | None = None) -> list[Array]:
        """Return the values of the function by query; parts of the batch are computed in parallel."""
        relevance, n_queries = self.relevance_of(judgements), len(self.queries)
        rank = (_rank_by_score if self.queries.dtype == np.float32 else _rank_by_distance)(self.queries, codes)

        def of_part(start: int, stop: int) -> list[Array]:
            ranks, tied_runs = rank(start, stop)
            rows = self.first + start, self.first + stop
            equal = None if relevance.equal is None else partial(relevance.equal, *rows)
            own_offsets = None if offsets is None else RankOffsets(*(each[start:stop] for each in offsets))
            return self.function(RankedBlock(ranks, relevance.grades(*rows), tied_runs, equal, own_offsets))

        with Workers(self.n_jobs) as workers:
            step = max(1, min(_BATCH_ITEMS // len(codes), -(-n_queries // workers.n_jobs)))
            found = workers.map_blocks(of_part, n_queries, step)
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def count(self, n_others: int, start: int, codes: Codes, judgements: Any) -> tuple[Counts, list[Any]]:
        """Return counts of items and relevant items by distance (2, queries, distances), and the other sums."""
        if not len(codes):
            return np.zeros((2, len(self.queries), 8 * codes.shape[1] + 1), np.int32), [0] * n_others
        found = self.compute(start, codes, judgements)
        return np.stack(found[: len(_COUNTED)]).astype(np.int32), found[len(_COUNTED) :]


#: Ranks of all items for some queries, and a function that returns the sizes of the runs of ties.
_Ranked = tuple[npt.NDArray[np.uint32], Callable[[], Integers]]


def _rank_by_distance(queries: Codes, codes: Codes) -> Callable[[int, int], _Ranked]:
    """Return a function that ranks the items for a range of queries."""
    query_words, item_words = as_words(queries), by_word(codes)
    n_bits = 8 * codes.shape[1]

    def rank(start: int, stop: int) -> _Ranked:
        ranks = np.empty((stop - start, len(codes)), np.uint32)
        sizes = np.empty((stop - start, n_bits + 1), np.int64)
        _kernels.rank_by_distance(query_words[start:stop], item_words, n_bits, ranks, sizes)
        return ranks, lambda: sizes

    return rank


def _rank_by_score(queries: Array, codes: Codes) -> Callable[[int, int], _Ranked]:
    """Rank by projections (queries, n_bits), or by score tables (queries, bytes, 256)."""
    items = np.ascontiguousarray(codes)

    def rank(start: int, stop: int) -> _Ranked:
        shape = (stop - start, len(items))
        ranks, tied = np.empty(shape, np.uint32), np.empty(shape, np.bool_)
        tables = queries[start:stop] if queries.ndim == 3 else byte_tables(queries[start:stop])
        _kernels.rank_by_score(tables, items, ranks, tied)
        return ranks, partial(_runs_of_equal_scores, tied)

    return rank


def byte_tables(projections: Singles) -> Singles:
    """Return, for each query, byte position and byte value, the term of the inner product with a +-1 code."""
    n, n_bits = projections.shape
    bits = np.zeros((n, n_bytes(n_bits), 8), np.float32)
    bits.reshape(n, -1)[:, :n_bits] = projections
    tables = np.empty((*bits.shape[:2], 256), np.float32)
    tables[:, :, 0] = -np.add.accumulate(bits, axis=2)[:, :, -1]
    for k in range(8):
        tables[:, :, 128 >> k :: 256 >> k] = tables[:, :, :: 256 >> k] + 2 * bits[:, :, k, None]
    return tables


def _runs_of_equal_scores(tied: Mask) -> Integers:
    run_of_rank = np.cumsum(~tied, axis=1) - 1
    sizes = np.zeros((len(tied), run_of_rank[:, -1].max() + 1), np.int64)
    for row, runs in zip(sizes, run_of_rank, strict=True):
        row += np.bincount(runs, minlength=len(row))
    return sizes


class _PerBlock(ArrayBlocks):
    """One value of any type for each block of a database; values on a cluster stay there."""

    def __init__(self, values: Sequence[Any], database: Blocks) -> None:
        super().__init__(database, database.starts, "values")
        self.rows = values

    @classmethod
    def of(cls, database: Blocks, whole: Any) -> _PerBlock:
        """Divide label sets, or the columns of a grade matrix, into the blocks of a database."""

        def part(start: int, stop: int) -> Any:
            if isinstance(whole, LabelSets):
                return whole.take(np.arange(start, stop))
            return sp.csr_array(whole[:, start:stop]) if sp.issparse(whole) else whole[:, start:stop]

        starts = database.starts.tolist()
        return cls([whole] if database.n_blocks == 1 else list(starmap(part, pairwise(starts))), database)

    def read(self, number: int) -> Any:
        return self.rows[number]


def _is_whole(database: Blocks) -> bool:
    """Return whether a database is a single block, ranked by this process."""
    return database.n_blocks == 1 and database.is_local


def _blocks_of_codes(database: Any) -> Blocks:
    blocks = as_blocks(database, "database")
    if blocks is None:
        codes = check_codes(database, "database")
        return ArrayBlocks(codes, [0, len(codes)], "database")
    if blocks.ndim != 2 or blocks.dtype != np.uint8:
        given = f"type {blocks.dtype} and shape {blocks.shape}"
        raise InputError(f"database must be packed codes (uint8, two-dimensional), got {given}")
    return blocks


def _check_queries(queries: npt.ArrayLike, database: Blocks) -> Array:
    """Return queries as packed codes, or as projections or score tables in single precision."""
    raise_if_masked(queries, "queries")
    checked, (n_items, width) = np.asarray(queries), database.shape
    if checked.dtype.kind != "f":
        checked = check_codes(checked, "queries")
        if checked.shape[1] != width:
            raise InputError(f"queries have codes of {checked.shape[1]} bytes but the database has {width}")
    elif checked.shape[1:] != (width, 256) and (checked.ndim != 2 or n_bytes(checked.shape[1]) != width):
        kind = "score tables" if checked.ndim == 3 else "projections"
        raise InputError(f"queries are {kind} of shape {checked.shape}, but the database has {width} bytes per item")
    elif not np.isfinite(checked).all():
        raise InputError(f"queries have NaN or infinity in row {np.argwhere(~np.isfinite(checked))[0][0]}")
    elif not _is_whole(database):
        expected = "packed codes (uint8) if the database comes in several blocks"
        raise InputError(f"queries must be {expected}; got real numbers")
    elif checked.ndim == 3:
        checked = np.ascontiguousarray(checked, np.float32)
    else:  # rescale rows that would overflow or vanish in single precision; rankings stay the same
        projections = checked.astype(np.float32) if checked.dtype.itemsize < 4 else checked
        largest = np.abs(projections).max(axis=1, keepdims=True, initial=0)
        exponents = np.frexp(largest)[1] * ((largest > 1e18) | (largest < 1e-18))
        checked = np.ascontiguousarray(np.ldexp(projections, -exponents), np.float32)
    if 0 in (len(checked), n_items):
        raise InputError(f"nothing to evaluate: {len(checked)} queries and {n_items} database items")
    return checked


def _add(first: list[Array], second: list[Array]) -> list[Array]:
    return [a + b for a, b in zip(first, second, strict=True)]


def _rank_offsets(counted: list[tuple[Counts, list[Any]]]) -> list[RankOffsets]:
    """Return each block's rank offsets from the counts of all blocks."""
    total = sum(counts.astype(np.int64) for counts, _ in counted)
    before: Any = accumulate((counts for counts, _ in counted[:-1]), initial=np.cumsum(total, axis=-1) - total)
    return [RankOffsets(*each) for each in before]
