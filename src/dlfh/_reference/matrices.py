"""Packed codes and inverted lists as plain matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def bits(words, n_bits):
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, count=n_bits)


def label_matrix(starts, labels, n_labels):
    shape = (len(starts) - 1, n_labels)
    return sp.csr_array((np.ones(len(labels), np.int64), labels, starts), shape=shape).toarray()


def members(list_starts, list_members, n_members):
    """Return inverted lists as an indicator matrix (labels, members)."""
    return label_matrix(list_starts, list_members, n_members)
