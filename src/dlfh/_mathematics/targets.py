"""Regression targets: a code for each point, stored as distinct codes and the row of each point among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers
from dlfh.codes import unpack


@dataclass(frozen=True)
class Targets:
    """The codes that a hash function predicts: distinct codes, and the row of each point among them."""

    codes: Array
    row_of_point: Integers
    n_bits: int

    def rows(self, start: int, stop: int) -> Floats:
        """Return distinct codes as -1.0 and +1.0."""
        return unpack(self.codes[start:stop], self.n_bits).astype(np.float64)

    def points(self, start: int, stop: int) -> Array:
        """Return points' codes as -1 and +1."""
        return unpack(self.codes[self.row_of_point[start:stop]], self.n_bits)

    def mean(self) -> Floats:
        """Return the mean code."""
        counts = np.bincount(self.row_of_point, minlength=len(self.codes)).astype(np.float64)
        total = np.zeros(self.n_bits)
        for start in range(0, len(self.codes), 4096):
            total += counts[start : start + 4096] @ self.rows(start, start + 4096)
        return total / counts.sum()


@dataclass(frozen=True)
class RealTargets(Targets):
    """Real values instead of codes, for regressions: ``codes`` (rows, n_bits) holds floats."""

    def rows(self, start: int, stop: int) -> Floats:
        """Return distinct rows of values."""
        return np.asarray(self.codes[start:stop], np.float64)

    def points(self, start: int, stop: int) -> Array:
        """Return points' values."""
        return self.codes[self.row_of_point[start:stop]]


@dataclass(frozen=True)
class LabelledTargets(Targets):
    """Codes and labels side by side: one regression predicts both.

    labels (rows, n_labels): Indicator matrix of the labels of each distinct code.
    n_bits: Number of targets: bits, then labels.
    """

    labels: sp.csr_array

    def rows(self, start: int, stop: int) -> Floats:
        """Return distinct codes as -1.0 and +1.0, and their labels as 0.0 and 1.0."""
        return self._values(slice(start, stop)).astype(np.float64)

    def points(self, start: int, stop: int) -> Array:
        """Return points' codes as -1 and +1, and their labels as 0 and 1."""
        return self._values(self.row_of_point[start:stop])

    def _values(self, rows: Any) -> npt.NDArray[np.int8]:
        labels = self.labels[rows].toarray().astype(np.int8)
        n_code_bits = self.n_bits - labels.shape[1]
        return np.hstack([unpack(self.codes[rows], n_code_bits), labels]) if n_code_bits else labels
