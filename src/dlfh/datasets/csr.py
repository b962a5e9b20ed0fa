"""Sparse matrices in files: the arrays of the CSR format, checked before compiled code uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array
from dlfh._sparse import compressed_rows, rows_from_parts

_PARTS = ("data", "indices", "indptr", "shape")


def csr_from_parts(name: str, data: Any, indices: Any, indptr: Any, shape: Any, layout: str = "csr") -> sp.csr_array:
    """Build a CSR matrix with sorted, unique column indices; invalid parts raise InputError."""
    rows = rows_from_parts(repr(name), {"data": data, "indices": indices, "indptr": indptr}, np.ravel(shape), layout)
    rows.sum_duplicates()
    return rows


def as_csr(name: str, matrix: Any) -> sp.csr_array:
    """Convert any sparse matrix to CSR with sorted, unique column indices, all within its shape."""
    rows = compressed_rows(matrix, repr(name))
    rows.sum_duplicates()
    return rows


def split_csr(name: str, matrix: sp.csr_array) -> dict[str, Array]:
    """Return the arrays of a matrix, for `join_csr_parts`."""
    parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape, np.int64))
    return {f"{name}_{part}": array for part, array in zip(_PARTS, parts, strict=True)}


def join_csr_parts(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Combine ``name_data``, ``name_indices``, ``name_indptr`` and ``name_shape`` into one matrix ``name``."""
    joined: dict[str, Any] = {}
    for name, array in arrays.items():
        stem, _, part = name.rpartition("_")
        if part not in _PARTS or any(f"{stem}_{other}" not in arrays for other in _PARTS):
            joined[name] = array
        elif part == _PARTS[0]:
            joined[stem] = csr_from_parts(stem, *(arrays[f"{stem}_{other}"] for other in _PARTS))
    return joined
