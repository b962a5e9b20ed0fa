"""Label matrices as BATCH, LEMON and DOCH use them, over points or over distinct label sets."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._factorization.label_rows import LabelRows

Floats = npt.NDArray[np.float64]


class LabelMatrices:
    """Labels L of rows as 0 and 1, and G scaled to rows of length 1; rows without labels are 0.

    rows: Points, or distinct label sets.
    weights (rows,): Number of points of each row.
    """

    def __init__(self, rows: LabelRows) -> None:
        self.rows = rows
        self.weights: Floats = rows.weights.astype(np.float64)

    @cached_property
    def L(self) -> sp.csr_array:
        return self.rows.labels.rows()[self.rows.set_of_row]

    @cached_property
    def G(self) -> sp.csr_array:
        return self.rows.labels.unit_rows()[self.rows.set_of_row]

    def sums(self, left: Any, right: Floats) -> Floats:
        """Return left' right, summed over the points."""
        return left.T @ (self.weights[:, None] * right)
