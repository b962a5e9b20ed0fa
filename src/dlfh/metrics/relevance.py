"""Relevance grades of items, from labels or from a matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes
from dlfh._labels import LabelSets
from dlfh._sparse import compressed_rows
from dlfh._validation import raise_if_masked
from dlfh.errors import InputError

#: Returns an array (stop - start, items) for the queries ``start:stop``, with items in database order.
QueryRows = Callable[[int, int], Array]
_MAX_COUNTED_GRADE = 1000  # items are counted by grade up to this grade; 2 to this power is finite


class Relevance(NamedTuple):
    """Relevance of some items to all queries."""

    grades: QueryRows  # 0 is not relevant
    equal: QueryRows | None = None  # 1 for items whose label set equals the query's; None without labels


def by_labels(queries: LabelSets, labels: Any) -> Relevance:
    """Grade an item by the number of labels that it shares with the query."""
    if not isinstance(labels, LabelSets):
        labels = LabelSets.from_labels(labels, name="database_labels", allow_empty=True)
    queries, items = queries.aligned_with(labels, name="query_labels", other_name="database_labels")
    lists = items.inverted_lists()
    set_of_item = items.set_of_point.astype(np.int32)
    highest = min(n_grades_of(sets) for sets in (queries, items)) - 1
    dtype = np.uint8 if highest <= 255 else np.int32  # small, because grades are permuted item by item

    def grades(start: int, stop: int) -> Array:
        shared = np.empty((stop - start, len(set_of_item)), dtype)
        rows = queries.set_of_point[start:stop]
        _kernels.shared_labels(rows, queries.lists, lists, set_of_item, items.n_sets, items.n_labels, shared)
        return shared

    @cache
    def equal_set_of_query() -> npt.NDArray[np.int32]:
        number_of = {items.labels_of(number): number for number in range(items.n_sets)} | {(): -1}
        numbers = [number_of.get(queries.labels_of(number), -1) for number in range(queries.n_sets)]
        return np.array(numbers, np.int32)[queries.set_of_point]

    def equal(start: int, stop: int) -> Codes:
        return (equal_set_of_query()[start:stop, None] == set_of_item).view(np.uint8)

    return Relevance(grades, equal)


def by_matrix(matrix: Any) -> Relevance:
    """Take grades from a checked matrix (queries, items)."""

    def grades(start: int, stop: int) -> Array:
        rows = matrix[start:stop]
        return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows)

    return Relevance(grades)


def read_labels(labels: Any, name: str, n_rows: int, counted: str) -> LabelSets:
    """Return the label sets of ``n_rows`` points; ``counted`` is their name in error messages."""
    sets = LabelSets.from_labels(labels, name=name, allow_empty=True)
    if sets.n_points != n_rows:
        raise InputError(f"{name} has {sets.n_points} rows but there are {n_rows} {counted}")
    return sets


def n_grades_of(sets: LabelSets) -> int:
    """Return the number of possible grades: 0 to the size of the largest label set."""
    return int(np.diff(sets.starts).max(initial=0)) + 1


def check_matrix(relevance: Any, n_queries: int, n_items: int) -> tuple[Any, int | None]:
    """Return a grade matrix, of small integers where possible, and the number of possible grades in that case."""
    raise_if_masked(relevance, "relevance")
    if sp.issparse(relevance):
        matrix: Any = compressed_rows(relevance, "relevance")
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        matrix = np.asarray(relevance)
    if matrix.shape != (n_queries, n_items):
        raise InputError(f"relevance must have shape {(n_queries, n_items)} (queries x items), got {matrix.shape}")

    def with_values(values: Array) -> Any:
        if sp.issparse(matrix):
            return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        return values

    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("relevance must contain finite, non-negative numbers")
    highest = values.max(initial=0)
    if highest <= _MAX_COUNTED_GRADE:
        whole = values.astype(np.uint8 if highest <= 255 else np.int32, copy=False)
        if np.array_equal(whole, values):
            return with_values(whole), int(highest) + 1
    return with_values(values.astype(np.float64, copy=False)), None
