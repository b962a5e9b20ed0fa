"""Sparse matrices as files keep them: the parts of compressed rows, checked before anything walks along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh.errors import InputError

__all__ = ["as_csr", "csr_from_parts", "join_csr_parts", "split_csr"]

# A file by columns may state any number of rows, and each takes memory by rows.
_PLAUSIBLE_ROWS = 10_000_000
_PARTS = ("data", "indices", "indptr", "shape")


def csr_from_parts(name: str, data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_array:
    """Return the matrix that the parts describe, or say that they describe none.

    Examples
    --------
    >>> csr_from_parts("text", [5.0], [2], [0, 0, 1], (2, 3)).toarray()
    array([[0., 0., 0.],
           [0., 0., 5.]])
    """
    numbers = (np.asarray(indices), np.asarray(indptr), np.asarray(shape).ravel())
    if len(numbers[2]) != 2 or any(part.size and part.dtype.kind not in "iu" for part in numbers):
        raise InputError(f"the parts of {name!r} are not those of a sparse matrix")
    try:
        size = (int(numbers[2][0]), int(numbers[2][1]))
        return as_csr(name, sp.csr_array((np.asarray(data), numbers[0], numbers[1]), shape=size))
    except ValueError as error:
        raise InputError(f"the parts of {name!r} are not those of a sparse matrix: {error}") from None


def as_csr(name: str, matrix: Any) -> sp.csr_array:
    """Return any sparse matrix as compressed rows with sorted, unique column indices, all within its shape."""
    try:
        if matrix.format in ("csr", "csc"):
            matrix.check_format(full_check=True)  # compiled code trusts them, and what is in a file may be anything
        if matrix.format != "csr" and matrix.shape[0] > _PLAUSIBLE_ROWS + 1000 * matrix.nnz:
            raise ValueError(f"{matrix.nnz} entries in {matrix.shape[0]} rows")
        rows = sp.csr_array(matrix)
        rows.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"the sparse matrix {name!r} is damaged: {error}") from None
    rows.sum_duplicates()
    return rows


def split_csr(name: str, matrix: sp.csr_array) -> dict[str, npt.NDArray[Any]]:
    """Return the parts of a matrix, as `join_csr_parts` puts them together again."""
    parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape, np.int64))
    return {f"{name}_{part}": array for part, array in zip(_PARTS, parts, strict=True)}


def join_csr_parts(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Put ``name_data``, ``name_indices``, ``name_indptr`` and ``name_shape`` together to one matrix ``name``.

    Examples
    --------
    >>> joined = join_csr_parts(split_csr("text", sp.csr_array(np.eye(3))))
    >>> joined["text"].shape
    (3, 3)
    """
    joined: dict[str, Any] = {}
    for name, array in arrays.items():
        stem, _, part = name.rpartition("_")
        if part not in _PARTS or any(f"{stem}_{other}" not in arrays for other in _PARTS):
            joined[name] = array
        elif part == _PARTS[0]:
            joined[stem] = csr_from_parts(stem, *(arrays[f"{stem}_{other}"] for other in _PARTS))
    return joined
