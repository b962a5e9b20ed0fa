"""Inverted lists of labels, and counts of shared labels."""

from __future__ import annotations

import numpy as np

from dlfh._reference.matrices import label_matrix, members


def invert_lists(starts, labels, chosen, n_labels):
    member, label = np.nonzero(label_matrix(starts, labels, n_labels)[chosen])
    order = np.argsort(label, kind="stable")
    list_starts = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_labels))])
    return list_starts.astype(np.int64), member[order].astype(np.int32)


def equal_labels(set_of_query, set_of_item, equal):
    equal[:] = set_of_query[:, None] == set_of_item


def shared_labels(set_of_query, label_lists, inverted_lists, set_of_item, n_sets, limit, shared):
    queries = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[set_of_query]
    counts = queries @ members(*inverted_lists, n_sets)
    shared[:] = np.minimum(counts, limit)[:, set_of_item]
