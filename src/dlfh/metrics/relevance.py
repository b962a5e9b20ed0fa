"""What is relevant to what: grades of items for queries, from labels or from a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._labels import LabelSets
from dlfh._sparse import compressed_rows
from dlfh._validation import raise_if_masked
from dlfh.errors import InputError

__all__ = ["Relevance", "check_matrix", "n_grades_of", "read_labels"]

#: Gives something of the queries from ``start`` to ``stop``, by item in database order.
Judge = Callable[[int, int], npt.NDArray[Any]]

#: Whole numbers up to this are counted as grades; 2 to the power of this is still a number.
_HIGHEST_COUNTED = 1000


@dataclass(frozen=True)
class Relevance:
    """Grades of items, or of a part of them, for all queries.

    Attributes
    ----------
    grades : callable
        Gives grades, where 0 is not relevant.
    n_grades : int or None
        Grades are whole numbers below this; None where they are real numbers.
    equal : callable or None
        Gives 1 for items with the labels of the query, all of them and no others; None where there are no labels.
    """

    grades: Judge
    n_grades: int | None
    equal: Judge | None

    @classmethod
    def by_labels(cls, queries: LabelSets, items: LabelSets) -> Relevance:
        """Grade an item by the number of labels that it shares with the query."""
        queries, items = queries.aligned_with(items, name="query_labels", other_name="database_labels")
        lists = _kernels.invert_lists(items.starts, items.labels, np.arange(items.n_sets), items.n_labels)
        set_of_item = items.set_of_point.astype(np.int32)
        most = min(n_grades_of(sets) for sets in (queries, items)) - 1
        dtype = np.uint8 if most <= 255 else np.int32  # as small as can be: it is put in rank order item by item

        def grades(start: int, stop: int) -> npt.NDArray[Any]:
            shared = np.empty((stop - start, len(set_of_item)), dtype)
            _kernels.shared_labels(
                queries.set_of_point[start:stop],
                queries.starts,
                queries.labels,
                *lists,
                set_of_item,
                items.n_sets,
                items.n_labels,
                shared,
            )
            return shared

        @cache
        def wanted_sets() -> npt.NDArray[np.int32]:
            number_of = {labels: number for number, labels in enumerate(_each_set(items)) if labels}
            wanted = [number_of.get(labels, -1) for labels in _each_set(queries)]
            return np.array(wanted, np.int32)[queries.set_of_point]

        def equal(start: int, stop: int) -> npt.NDArray[np.uint8]:
            marks = np.empty((stop - start, len(set_of_item)), np.uint8)
            _kernels.equal_labels(wanted_sets()[start:stop], set_of_item, marks)
            return marks

        return cls(grades, n_grades_of(queries), equal)

    @classmethod
    def by_matrix(cls, matrix: Any, n_grades: int | None) -> Relevance:
        """Take grades from a matrix (queries, items) that was checked."""

        def grades(start: int, stop: int) -> npt.NDArray[Any]:
            rows = matrix[start:stop]
            return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows)

        return cls(grades, n_grades, None)

    def from_query(self, first: int) -> Relevance:
        """Return the same for the queries from one on."""

        def later(judge: Judge) -> Judge:
            return lambda start, stop: judge(first + start, first + stop)

        return replace(self, grades=later(self.grades), equal=None if self.equal is None else later(self.equal))


def read_labels(labels: Any, name: str, n_points: int, what: str) -> LabelSets:
    """Return the label sets of as many points as there are."""
    sets = LabelSets.from_labels(labels, name=name, allow_empty=True)
    if sets.n_points != n_points:
        raise InputError(f"{name} has {sets.n_points} rows but there are {n_points} {what}")
    return sets


def n_grades_of(sets: LabelSets) -> int:
    """Return how many different numbers of labels may be shared with one of these sets, none among them."""
    return int(np.diff(sets.starts).max(initial=0)) + 1


def check_matrix(relevance: Any, n_queries: int, n_items: int) -> tuple[Any, int | None]:
    """Return a matrix of grades, as small integers if it can be, and how many different ones there may be then."""
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
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError("relevance must hold finite numbers of at least 0")
    highest = values.max(initial=0)
    if highest <= _HIGHEST_COUNTED:
        whole = values.astype(np.uint8 if highest <= 255 else np.int32, copy=False)
        if np.array_equal(whole, values):
            return _with_values(matrix, whole), int(highest) + 1
    return _with_values(matrix, values.astype(np.float64, copy=False)), None


def _with_values(matrix: Any, values: npt.NDArray[Any]) -> Any:
    if not sp.issparse(matrix):
        return values
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _each_set(sets: LabelSets) -> Iterator[frozenset[int]]:
    labels = sets.labels.tolist()
    return (frozenset(labels[start:stop]) for start, stop in pairwise(sets.starts.tolist()))
