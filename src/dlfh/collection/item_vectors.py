"""Items on their way to an index: their vectors, and their codes, in the modalities that they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import Features
from dlfh.codes import Codes
from dlfh.datasets.problem import Problem

__all__ = ["ItemCodes", "ItemVectors", "Training"]

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ItemVectors:
    """The vectors of some items, by modality, and which items they are of.

    Attributes
    ----------
    n_items : int
    matrices : dict of str to ndarray or CSR matrix
        A row for each item that has the modality, and has it in a form that can be read.
    positions : dict of str to ndarray of int64
        The items of these rows, ascending.
    problems : list of Problem
        What could not be read, and why.
    contents : list of dict
        By item, hashes of what its images and vectors were made of, taken before these were read.
    """

    n_items: int
    matrices: dict[str, Features]
    positions: dict[str, Positions]
    problems: list[Problem]
    contents: list[dict[str, str]]

    def present(self, modality: str) -> Mask:
        """Return which items have a vector in a modality."""
        mask = np.zeros(self.n_items, bool)
        mask[self.positions[modality]] = True
        return mask

    def take(self, modality: str, items: Positions) -> Features:
        """Return the vectors of some items, all of which have the modality."""
        return self.matrices[modality][np.searchsorted(self.positions[modality], items)]

    def take_padded(self, modality: str, items: Positions) -> Features:
        """Return a row for each of some items, in ascending order; zeros for those that lack the modality."""
        present = self.present(modality)[items]
        matrix = self.take(modality, items[present])
        if present.all():
            return matrix
        if sp.issparse(matrix):
            lengths = np.zeros(len(items), matrix.indptr.dtype)
            lengths[present] = np.diff(matrix.indptr)
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(matrix.indptr.dtype)
            return sp.csr_array((matrix.data, matrix.indices, starts), shape=(len(items), matrix.shape[1]))
        padded = np.zeros((len(items), matrix.shape[1]), matrix.dtype)
        padded[present] = matrix
        return padded


@dataclass(frozen=True)
class ItemCodes:
    """The codes of some items, by modality.

    Attributes
    ----------
    hashed : dict of str to ndarray of uint8 (items, bytes)
        What the hash function makes of each; zeros for an item that lacks the modality.
    present : dict of str to ndarray of bool (items,)
        Whether an item has the modality.
    learned : dict of str to ndarray of uint8 (items, bytes)
        What training learned for it, or for its labels; zeros where there is no such code.
    is_learned : dict of str to ndarray of bool (items,)
        Whether there is.
    """

    hashed: dict[str, Codes]
    present: dict[str, Mask]
    learned: dict[str, Codes]
    is_learned: dict[str, Mask]


@dataclass(frozen=True)
class Training:
    """What an encoder learned from.

    Attributes
    ----------
    vectors : ItemVectors
        Those of all items that it was given.
    items : ndarray of int64
        The items that it learned from, ascending: row i of the model's ``codes_`` is of the i-th of them.
    learned : dict of str to ndarray of bool (items,)
        By modality, which of all items have a code there that training learned.
    n_incomplete : int
        How many of the items that it learned from lack a modality or, if it learns from labels, these.
    left_out : dict of str to ndarray of float32 (learned, n_bits)
        By modality, what hash functions that were not fitted to them make of these; none by methods that cannot tell.
    """

    vectors: ItemVectors
    items: Positions
    learned: dict[str, Mask]
    n_incomplete: int
    left_out: dict[str, npt.NDArray[np.float32]]

    def __len__(self) -> int:
        return len(self.items)
