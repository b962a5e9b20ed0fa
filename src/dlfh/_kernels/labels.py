"""Inverted lists of labels, and counts of shared labels."""

from __future__ import annotations

import numpy as np

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared


@Kernel
def invert_lists(starts, labels, chosen, n_labels):
    """Return inverted lists (starts, members): for each label, the indices in ``chosen`` of label sets that have it."""
    list_starts = np.zeros(n_labels + 1, np.int64)
    for g in chosen:
        for p in range(starts[g], starts[g + 1]):
            list_starts[labels[p] + 1] += 1
    list_starts = np.cumsum(list_starts)
    members = np.empty(list_starts[n_labels], np.int32)
    free = list_starts.copy()
    for q in range(chosen.size):
        g = chosen[q]
        for p in range(starts[g], starts[g + 1]):
            members[free[labels[p]]] = q
            free[labels[p]] += 1
    return list_starts, members


@Kernel
def shared_labels(set_of_query, label_lists, inverted_lists, set_of_item, n_sets, limit, shared):
    """Fill ``shared[i, j]`` with the number of labels that query i and item j share, at most ``limit``."""
    by_set = np.zeros(n_sets, np.int32)
    grades = np.zeros(n_sets, shared.dtype)  # a small type, because it is read once per item
    for i in range(set_of_query.size):
        count_shared(label_lists, set_of_query[i], inverted_lists, by_set)
        for g in range(n_sets):
            grades[g] = min(by_set[g], limit)
        for j in range(set_of_item.size):
            shared[i, j] = grades[set_of_item[j]]
