"""Which label sets share labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._reference.matrices import label_matrix, members

Array = npt.NDArray[Any]


def invert_lists(starts: Array, labels: Array, chosen: Array, n_labels: int) -> tuple[Array, Array]:
    member, label = np.nonzero(label_matrix(starts, labels, n_labels)[chosen])
    order = np.argsort(label, kind="stable")
    list_starts = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_labels))])
    return list_starts.astype(np.int64), member[order].astype(np.int32)


def equal_labels(wanted_sets: Array, set_of_item: Array, equal: Array) -> None:
    equal[:] = wanted_sets[:, None] == set_of_item


def shared_labels(
    query_sets: Array,
    set_starts: Array,
    set_labels: Array,
    list_starts: Array,
    list_members: Array,
    set_of_item: Array,
    n_sets: int,
    at_most: int,
    shared: Array,
) -> None:
    queries = label_matrix(set_starts, set_labels, len(list_starts) - 1)[query_sets]
    counts = queries @ members(list_starts, list_members, n_sets)
    shared[:] = np.minimum(counts, at_most)[:, set_of_item]
