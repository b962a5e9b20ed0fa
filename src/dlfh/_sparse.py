"""Validate sparse matrices from users and files before compiled code indexes them.

An index outside the matrix crashes the process, and SciPy's own check is incomplete: it accepts a matrix whose last row
pointer is 0, and does not check block matrices. This module therefore checks all parts first, with NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array
from dlfh.errors import InputError

#: Maximum number of rows or columns of an empty matrix: a file can declare any number, and they take memory.
_MAX_EMPTY_SIDE = 10_000_000
Shape = tuple[int, int]
#: SciPy's names of the parts of each layout.
_PARTS: dict[str, tuple[str, ...]] = {"coo": ("data", "row", "col"), "dia": ("data", "offsets")}
_PARTS |= dict.fromkeys(("csr", "csc", "bsr"), ("data", "indices", "indptr"))


def compressed_rows(matrix: Any, called: str) -> sp.csr_array:
    """Return a two-dimensional sparse matrix, named ``called`` in error messages, as a valid CSR array.

    Valid parts are shared, not copied; column indices need not be sorted or unique.
    """
    return sp.csr_array(checked_sparse(matrix, called))


def checked_sparse(matrix: Any, called: str) -> Any:
    """Check the parts of a two-dimensional sparse matrix, and return it in the same layout."""
    shape = _checked_shape(called, matrix.shape)
    if matrix.format not in _PARTS:
        matrix = sp.csr_array(matrix)  # LIL and DOK, which Python itself bounds-checks
    parts = [getattr(matrix, name) for name in _PARTS[matrix.format]]
    checked = _checked_parts(called, shape, matrix.format, parts)
    if all(new is old for new, old in zip(checked, parts, strict=True)):
        return matrix
    return _made(matrix.format, checked, shape)


def rows_from_parts(called: str, parts: Mapping[str, Any], shape: Any, layout: str = "csr") -> sp.csr_array:
    """Return a CSR array with sorted, unique column indices from its parts; raise InputError if they are invalid.

    called: Name of the matrix in error messages.
    parts: SciPy's attributes: ``data`` with ``indices`` and ``indptr``, with ``row`` and ``col``, or with ``offsets``.
    """
    size = _checked_shape(called, shape)
    if layout not in _PARTS or not all(name in parts for name in _PARTS[layout]):
        raise _damaged(called, f"unknown layout {layout!r} with parts {', '.join(sorted(parts))}")
    arrays = [np.asarray(parts[name]) for name in _PARTS[layout]]
    rows = sp.csr_array(_made(layout, _checked_parts(called, size, layout, arrays), size))
    rows.sum_duplicates()
    return rows


def _made(layout: str, parts: tuple[Any, ...], shape: Shape) -> Any:
    return getattr(sp, f"{layout}_array")((parts[0], parts[1:]) if layout == "coo" else parts, shape=shape)


def _checked_parts(called: str, shape: Shape, layout: str, parts: list[Array]) -> tuple[Any, ...]:
    """Return the parts in native types after checking that every index is within the matrix."""
    values, n_dimensions = parts[0], {"bsr": 3, "dia": 2}.get(layout, 1)
    if values.ndim != n_dimensions or values.dtype.kind not in "biufc":
        plural = "" if n_dimensions == 1 else "s"
        raise _damaged(called, f"data must be numbers in {n_dimensions} dimension{plural}, got {_described(values)}")
    if values.dtype == np.float16:  # SciPy accepts it but cannot slice rows
        values = values.astype(np.float32)
    elif not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    for side, name in zip(shape, ("rows", "columns"), strict=True):
        if side > _MAX_EMPTY_SIDE + 1000 * values.size:
            raise _damaged(called, f"it declares {side} {name} for {values.size} entries")
    if layout == "coo":
        rows = _checked_indices(called, "rows", parts[1], shape[0])
        columns = _checked_indices(called, "columns", parts[2], shape[1])
        if not len(values) == len(rows) == len(columns):
            raise _damaged(called, f"it has {len(values)} values but {len(rows)} row and {len(columns)} column indices")
        return values, rows, columns
    if layout == "dia":
        return _checked_diagonals(called, shape, values, *parts[1:])
    return _checked_compressed(called, shape, layout, values, *parts[1:])


def _checked_diagonals(called: str, shape: Shape, values: Array, offsets: Array) -> tuple[Any, ...]:
    if offsets.ndim != 1 or len(offsets) != len(values) or (offsets.size and offsets.dtype.kind not in "iu"):
        raise _damaged(called, f"it has {len(values)} diagonals but {offsets.size} offsets")
    if len(np.unique(offsets)) != len(offsets):
        raise _damaged(called, "it has a duplicate diagonal")
    if offsets.size and not (-shape[0] <= offsets.min() and offsets.max() <= shape[1]):
        raise _damaged(called, f"it has a diagonal outside its shape {shape}")
    return values, offsets if _is_plain_index(offsets) else offsets.astype(np.int64)


def _checked_compressed(
    called: str, shape: Shape, layout: str, values: Array, indices: Array, indptr: Array
) -> tuple[Any, ...]:
    # The number of compressed rows (or columns), and the upper bound of the indices.
    major, minor = (shape[1], shape[0]) if layout == "csc" else shape
    if layout == "bsr":
        height, width = values.shape[1:]
        if not height or not width or major % height or minor % width:
            raise _damaged(called, f"blocks of {height} x {width} do not tile a matrix of {major} x {minor}")
        major, minor = major // height, minor // width
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or len(indptr) != major + 1:
        raise _damaged(called, f"indptr must be {major + 1} integers, got {_described(indptr)}")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(called, "indptr must start at 0 and not decrease")
    checked = _checked_indices(called, "indices", indices, minor)
    if not (end := int(indptr[-1])) == len(values) == len(checked):
        raise _damaged(called, f"indptr ends at {end} but there are {len(values)} values and {len(checked)} indices")
    if _is_plain_index(indptr) and indptr.dtype == checked.dtype:
        return values, checked, indptr
    dtype = np.int32 if max(len(checked), minor) <= np.iinfo(np.int32).max else np.int64
    return values, checked.astype(dtype), indptr.astype(dtype)


def _checked_indices(called: str, name: str, indices: Array, length: int) -> Array:
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise _damaged(called, f"{name} must be one-dimensional integers, got {_described(indices)}")
    if indices.size:
        least, greatest = int(indices.min()), int(indices.max())
        if least < 0 or greatest >= length:
            raise _damaged(called, f"{name} must be from 0 to {length - 1}, found {least if least < 0 else greatest}")
    return indices if _is_plain_index(indices) else indices.astype(np.int64)


def _is_plain_index(indices: Array) -> bool:
    return indices.dtype in (np.int32, np.int64) and indices.dtype.isnative


def _checked_shape(called: str, shape: Any) -> tuple[int, int]:
    sides = np.asarray(shape)
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or sides.min() < 0:
        raise _damaged(called, "its shape must be two non-negative integers")
    return int(sides[0]), int(sides[1])


def _described(array: Array) -> str:
    return f"type {array.dtype} and shape {array.shape}"


def _damaged(called: str, reason: str) -> InputError:
    return InputError(f"{called} is a damaged sparse matrix: {reason}")
