"""Paired modalities with labels, as every data set comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._sparse import compressed_rows
from dlfh._validation import check_integer, check_random_state
from dlfh.errors import InputError

__all__ = ["Paired"]


@dataclass(frozen=True)
class Paired:
    """Points that are described in several modalities and labelled.

    Attributes
    ----------
    modalities : dict of str to ndarray or CSR matrix (n, features)
    labels : ndarray, CSR matrix or list
        In any form that ``fit`` takes, one entry or row per point.
    label_names : tuple of str, optional
        The names of the columns of an indicator matrix.

    Examples
    --------
    >>> data = Paired({"image": np.eye(4), "text": np.eye(4)}, ["a", "b", "a", "b"])
    >>> train, test = data.split(test_size=1)
    >>> len(train), len(test)
    (3, 1)
    """

    modalities: dict[str, Any]
    labels: Any
    label_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self.labels.shape[0] if hasattr(self.labels, "shape") else len(self.labels)

    def take(self, rows: npt.NDArray[np.int64]) -> Paired:
        """Return the points in ``rows``."""
        labels = _take(self.labels, rows, "labels")
        taken = {name: _take(matrix, rows, f"modality {name!r}") for name, matrix in self.modalities.items()}
        return Paired(taken, labels, self.label_names)

    def split(self, test_size: int, random_state: int | None = 0) -> tuple[Paired, Paired]:
        """Return a random split into training points and ``test_size`` test points."""
        check_integer(test_size, "test_size", 1)
        if test_size >= len(self):
            raise InputError(f"test_size is {test_size} but there are only {len(self)} points")
        order = check_random_state(random_state).permutation(len(self))
        return self.take(np.sort(order[test_size:])), self.take(np.sort(order[:test_size]))


def _take(values: Any, rows: npt.NDArray[np.int64], called: str) -> Any:
    if not hasattr(values, "shape"):
        return [values[row] for row in rows]
    return (compressed_rows(values, called) if sp.issparse(values) else values)[rows]
