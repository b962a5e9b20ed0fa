"""Packed codes and inverted lists as plain matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]


def bits(words: Array, nbits: int) -> Array:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, count=nbits)


def label_matrix(starts: Array, labels: Array, n_labels: int) -> Array:
    shape = (len(starts) - 1, n_labels)
    return sp.csr_array((np.ones(len(labels), np.int64), labels, starts), shape=shape).toarray()


def members(list_starts: Array, listmembers: Array, nmembers: int) -> Array:
    """Return inverted lists as an indicator matrix (labels, members)."""
    return label_matrix(list_starts, listmembers, nmembers)
