"""Which label sets share labels: inverted lists, and counts by them."""

from __future__ import annotations

import numpy as np

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared


@Kernel
def invert_lists(starts, labels, chosen, n_labels):
    """Return, for each label, which of the ``chosen`` label sets have it (CSR to inverted lists)."""
    list_starts = np.zeros(n_labels + 1, np.int64)
    for g in chosen:
        for p in range(starts[g], starts[g + 1]):
            list_starts[labels[p] + 1] += 1
    for label in range(n_labels):
        list_starts[label + 1] += list_starts[label]
    members = np.empty(list_starts[n_labels], np.int32)
    free = np.empty(n_labels, np.int64)
    for label in range(n_labels):
        free[label] = list_starts[label]
    for q in range(chosen.size):
        g = chosen[q]
        for p in range(starts[g], starts[g + 1]):
            members[free[labels[p]]] = q
            free[labels[p]] += 1
    return list_starts, members


@Kernel
def equal_labels(wanted_sets, set_of_item, equal):
    """Fill ``equal[i, j]`` with 1 where item j has the label set that query i asks for, with 0 elsewhere."""
    for i in range(wanted_sets.size):
        wanted = wanted_sets[i]
        for j in range(set_of_item.size):
            equal[i, j] = set_of_item[j] == wanted


@Kernel
def shared_labels(query_sets, set_starts, set_labels, list_starts, list_members, set_of_item, n_sets, at_most, shared):
    """Fill ``shared[i, j]`` with how many labels query i and item j have in common, or ``at_most``."""
    by_set = np.zeros(n_sets, np.int32)
    grades = np.zeros(n_sets, shared.dtype)  # as small as can be: it is looked up once per item
    for i in range(query_sets.size):
        count_shared(set_starts, set_labels, query_sets[i], list_starts, list_members, by_set)
        for g in range(n_sets):
            grades[g] = min(by_set[g], at_most)
        for j in range(set_of_item.size):
            shared[i, j] = grades[set_of_item[j]]
