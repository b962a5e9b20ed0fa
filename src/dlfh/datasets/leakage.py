"""Detect leaks: points of two sets that are identical in every modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Integers

_Words = npt.NDArray[np.uint64]
_BLOCK = 4096


def shared_points(queries: Mapping[str, Any], database: Mapping[str, Any]) -> tuple[Integers, Integers]:
    """Return the rows of all identical pairs of a query and a database item, in ascending order of queries."""
    # Equal rows have equal fingerprints; the few pairs with equal fingerprints are then compared in full.
    of_query, of_item = (fingerprints([points[name] for name in queries]) for points in (queries, database))
    order = np.argsort(of_item, kind="stable")
    first = np.searchsorted(of_item[order], of_query, side="left")
    counts = np.searchsorted(of_item[order], of_query, side="right") - first
    query_rows = np.repeat(np.arange(len(of_query)), counts)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    database_rows = order[np.repeat(first, counts) + place]
    same = np.ones(len(query_rows), bool)
    for name in queries:
        for start in range(0, len(same), _BLOCK):
            block = slice(start, start + _BLOCK)
            pairs = queries[name][query_rows[block]], database[name][database_rows[block]]
            a, b = (rows.toarray() if sp.issparse(rows) else rows for rows in pairs)
            same[block] &= np.asarray((a == b).all(axis=1))
    return query_rows[same], database_rows[same]


def fingerprints(matrices: Sequence[Any]) -> _Words:
    """Return a 64-bit hash of every point: the sum of hashes of (column, value) over its non-zero entries."""
    n = matrices[0].shape[0]
    total = np.zeros(n, np.uint64)
    for number, matrix in enumerate(matrices):
        for start in range(0, n, _BLOCK):
            block = sp.csr_array(matrix[start : start + _BLOCK])
            # Double precision, so that the storage type does not matter; -0.0 + 0.0 is 0.0.
            values = (np.asarray(block.data, np.float64) + 0.0).view(np.uint64)
            columns = block.indices.astype(np.uint64) * np.uint64(31) + np.uint64(number)
            entries = _mix(values ^ _mix(columns))
            entries[values == 0] = 0
            running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
            total[start : start + _BLOCK] += running[block.indptr[1:]] - running[block.indptr[:-1]]
    return total


def _mix(words: _Words) -> _Words:
    """Mix the bits of words (finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
