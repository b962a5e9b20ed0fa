"""Measures over a database in blocks, equal to those of the whole: exact ranks without a ranking of everything.

An item's rank is how many items are nearer, plus how many are as near and come before it. Both are known from how many
items each block has at each distance: one pass counts them, and with all counts at hand a second pass gives every
relevant item its rank among all.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh.blocks import ArrayBlocks, Blocks, as_blocks
from dlfh.codes import Codes, check_codes, hamming_distances
from dlfh.errors import InputError
from dlfh.metrics._measures import AveragePrecision, Measure, Precision, Recall
from dlfh.metrics._ranking import Floats, Integers, _judges_by_labels

__all__ = ["values_by_blocks"]

#: Queries that are looked at together: distances and grades of a block take a few bytes for each pair.
_QUERIES = 64


def values_by_blocks(
    measures: list[Measure], queries: Any, database: Blocks, query_labels: Any, database_labels: Any
) -> dict[Measure, Floats]:
    """Return the values of each query, NaN for those without a relevant item."""
    asked = check_codes(queries, "queries")
    if database.ndim != 2 or database.dtype != np.uint8 or database.shape[1] != asked.shape[1]:
        raise InputError(
            f"queries have codes of {asked.shape[1]} bytes but the database has type {database.dtype} and shape "
            f"{database.shape}"
        )
    for each in measures:
        known = isinstance(each, (AveragePrecision, Recall)) or (isinstance(each, Precision) and each.match == "any")
        if not known:
            raise InputError(f"over a database in blocks there are AP, P and R, at any cut, not {each}")
    labels = _labels_beside(database, database_labels)
    of_all: Any = SimpleNamespace(n_items=database.shape[0])
    depths = {each: each.depth(of_all) for each in measures}
    count = functools.partial(_count, asked, query_labels)
    counts = database.map_reduce(count, _join, labels)
    cuts = sorted(set(depths.values()))
    starts = database.starts[:-1][np.diff(database.starts) > 0]  # of blocks that have items
    rank = functools.partial(_rank, asked, query_labels, _before(counts), starts, np.array(cuts))
    found = database.map_reduce(rank, np.add, labels)
    n_relevant = counts[:, 1].sum(axis=(0, 2))
    values = {}
    for each, k in depths.items():
        sums, hits = found[:, cuts.index(k)]
        if isinstance(each, AveragePrecision):
            possible = hits if each.normalize == "retrieved" else np.minimum(k, n_relevant)
            own = sums / np.maximum(possible, 1)
        else:
            own = hits / (k if isinstance(each, Precision) else np.maximum(n_relevant, 1))
        values[each] = np.where(n_relevant > 0, own, np.nan)
    return values


def _labels_beside(database: Blocks, labels: Any) -> Blocks:
    found = as_blocks(labels, "database_labels")
    if found is not None:
        return found.cut_like(database)
    if not (sp.issparse(labels) or isinstance(labels, np.ndarray)):
        raise InputError("database_labels of a database in blocks must be an array, a sparse matrix, or in blocks too")
    rows = sp.csr_array(labels) if sp.issparse(labels) else labels
    return ArrayBlocks(rows, database.starts, "database_labels")


def _distances_and_marks(queries: Codes, query_labels: Any, codes: Codes, labels: Any) -> Any:
    """Yield, for some queries at a time, their slice, distances to a block's items, and which items are relevant."""
    judge, _ = _judges_by_labels(query_labels, labels, len(queries), len(codes))
    for start in range(0, len(queries), _QUERIES):
        stop = min(start + _QUERIES, len(queries))
        distances = hamming_distances(queries[start:stop], np.asarray(codes), n_jobs=1)
        yield slice(start, stop), distances, judge(start, stop) > 0


def _count(queries: Codes, query_labels: Any, _: int, codes: Codes, labels: Any) -> Integers:
    """Return how many items, and how many relevant ones, a block has at each distance: (1, 2, queries, distances)."""
    n_distances = 8 * queries.shape[1] + 1
    counts = np.zeros((1, 2, len(queries), n_distances), np.int64)
    for own, distances, relevant in _distances_and_marks(queries, query_labels, codes, labels):
        for row, (distance, marks) in enumerate(zip(distances, relevant, strict=True), own.start):
            counts[0, 0, row] = np.bincount(distance, minlength=n_distances)
            counts[0, 1, row] = np.bincount(distance[marks], minlength=n_distances)
    return counts


def _join(first: Integers, second: Integers) -> Integers:
    return np.concatenate([first, second])


def _before(counts: Integers) -> Integers:
    """Return, by block and distance, how many items of all blocks come before the block's first at that distance."""
    total = counts.sum(axis=0)
    nearer = np.cumsum(total, axis=-1) - total
    return nearer + np.cumsum(counts, axis=0) - counts


def _rank(
    queries: Codes,
    query_labels: Any,
    before: Integers,
    starts: Integers,
    cuts: Integers,
    start: int,
    codes: Codes,
    labels: Any,
) -> Floats:
    """Return sums of precisions at relevant items' ranks, and hits, within each cut: (2, cuts, queries)."""
    items_before, relevant_before = before[int(np.searchsorted(starts, start, side="right")) - 1]
    found = np.zeros((2, len(cuts), len(queries)))
    for own, distances, relevant in _distances_and_marks(queries, query_labels, codes, labels):
        for row, (distance, marks) in enumerate(zip(distances, relevant, strict=True), own.start):
            order = np.argsort(distance, kind="stable")
            ranked, hit = distance[order], marks[order]
            ranks = items_before[row, ranked] + _places(np.ones_like(hit, np.int64), ranked)
            hits = relevant_before[row, ranked] + _places(hit.astype(np.int64), ranked)
            ranks, hits = ranks[hit], hits[hit]
            for number, cut in enumerate(cuts):
                within = ranks <= cut
                found[0, number, row] = (hits[within] / ranks[within]).sum()
                found[1, number, row] = np.count_nonzero(within)
    return found


def _places(values: Integers, groups: npt.NDArray[Any]) -> Integers:
    """Return running sums that begin anew with each group of equal neighbours."""
    running = np.cumsum(values)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(first, len(groups)))
    return running - np.repeat(running[first] - values[first], lengths)
