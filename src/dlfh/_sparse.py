"""Validate sparse matrices from users and files before compiled code indexes them.

An index outside the matrix crashes the process, and SciPy's own check skips what it deems slow or unlikely: it accepts
a matrix whose last row pointer is 0, and never looks at blocks. So NumPy checks the parts first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh.errors import InputError

#: A file can declare any number of rows and columns, and empty ones take memory, too.
_MAX_EMPTY_SIDE = 10_000_000

Array = npt.NDArray[Any]
Shape = tuple[int, int]

_COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}


def compressed_rows(matrix: Any, called: str) -> sp.csr_array:
    """Return a two-dimensional sparse matrix as a valid CSR array.

    Valid parts are shared, not copied; column indices need not be sorted or unique.

    Parameters
    ----------
    matrix : sparse matrix or array
    called : str
        Name of the matrix in error messages.

    Examples
    --------
    >>> matrix = sp.csr_array(np.eye(3))
    >>> matrix.indices[1] = 7
    >>> compressed_rows(matrix, "modality 'text'")
    Traceback (most recent call last):
    dlfh.errors.InputError: modality 'text' is a damaged sparse matrix: indices must be from 0 to 2, found 7
    """
    return sp.csr_array(checked_sparse(matrix, called))


def checked_sparse(matrix: Any, called: str) -> Any:
    """Return a two-dimensional sparse matrix in its layout after checking its parts."""
    layout, shape = matrix.format, _checked_shape(called, matrix.shape)
    if layout == "coo":
        parts = (matrix.data, matrix.row, matrix.col)
        return _unless_same(matrix, parts, _checked_coordinates(called, shape, *parts), _make_coordinates)
    if layout == "dia":
        diagonals = (matrix.data, matrix.offsets)
        return _unless_same(matrix, diagonals, _checked_diagonals(called, shape, *diagonals), sp.dia_array)
    if layout not in _COMPRESSED:
        matrix, layout = sp.csr_array(matrix), "csr"  # LIL and DOK, which Python itself bounds-checks
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return _unless_same(matrix, parts, _checked_parts(called, shape, layout, *parts), _COMPRESSED[layout])


def rows_from_parts(called: str, parts: Mapping[str, Any], shape: Any, layout: str = "csr") -> sp.csr_array:
    """Return the CSR array with the given parts, or raise an InputError that says what is wrong with them.

    Parameters
    ----------
    called : str
        Name of the matrix in error messages.
    parts : dict of str to array-like
        SciPy's attributes: ``data`` with ``indices`` and ``indptr``, with ``row`` and ``col``, or with ``offsets``.
    shape : (int, int)
    layout : {"csr", "csc", "bsr", "coo", "dia"}

    Examples
    --------
    >>> rows_from_parts("text", {"data": [5.0], "indices": [2], "indptr": [0, 0, 1]}, (2, 3)).toarray()
    array([[0., 0., 0.],
           [0., 0., 5.]])
    """
    size = _checked_shape(called, shape)
    names = {"coo": ("data", "row", "col"), "dia": ("data", "offsets")}.get(layout, ("data", "indices", "indptr"))
    if (layout not in _COMPRESSED and layout not in ("coo", "dia")) or not all(name in parts for name in names):
        raise _damaged(called, f"unknown layout {layout!r} with parts {', '.join(sorted(parts))}")
    arrays: Any = [np.asarray(parts[name]) for name in names]
    if layout == "coo":
        return sp.csr_array(_make_coordinates(_checked_coordinates(called, size, *arrays), shape=size))
    if layout == "dia":
        return sp.csr_array(sp.dia_array(_checked_diagonals(called, size, *arrays), shape=size))
    return sp.csr_array(_COMPRESSED[layout](_checked_parts(called, size, layout, *arrays), shape=size))


def _unless_same(matrix: Any, parts: tuple[Any, ...], checked: tuple[Any, ...], make: Callable[..., Any]) -> Any:
    """Return the matrix itself if its parts needed no conversion."""
    if all(new is old for new, old in zip(checked, parts, strict=True)):
        return matrix
    return make(checked, shape=matrix.shape)


def _make_coordinates(parts: tuple[Any, Any, Any], shape: Shape) -> sp.coo_array:
    return sp.coo_array((parts[0], parts[1:]), shape=shape)


def _checked_coordinates(called: str, shape: Shape, data: Array, row: Array, column: Array) -> tuple[Any, ...]:
    values = _checked_values(called, data, 1)
    rows = _checked_places(called, "rows", row, shape[0])
    columns = _checked_places(called, "columns", column, shape[1])
    if not len(values) == len(rows) == len(columns):
        raise _damaged(called, f"it has {len(values)} values but {len(rows)} row and {len(columns)} column indices")
    _check_sides(called, shape, values.size)
    return values, rows, columns


def _checked_diagonals(called: str, shape: Shape, data: Array, offsets: Array) -> tuple[Any, ...]:
    values = _checked_values(called, data, 2)
    if offsets.ndim != 1 or len(offsets) != len(values) or (offsets.size and offsets.dtype.kind not in "iu"):
        raise _damaged(called, f"it has {len(values)} diagonals but {offsets.size} offsets")
    if len(np.unique(offsets)) != len(offsets):
        raise _damaged(called, "it has a duplicate diagonal")
    if offsets.size and not (-shape[0] <= offsets.min() and offsets.max() <= shape[1]):
        raise _damaged(called, f"it has a diagonal outside its shape {shape}")
    _check_sides(called, shape, values.size)
    return values, offsets if _is_plain_index(offsets) else offsets.astype(np.int64)


def _checked_parts(
    called: str, shape: Shape, layout: str, data: Array, indices: Array, indptr: Array
) -> tuple[Any, ...]:
    """Return the parts in native types after checking that every index is within the matrix."""
    values = _checked_values(called, data, 3 if layout == "bsr" else 1)
    major, minor = _sides(called, values, shape, layout)
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or len(indptr) != major + 1:
        raise _damaged(called, f"indptr must be {major + 1} integers, got {_described(indptr)}")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(called, "indptr must start at 0 and not decrease")
    places = _checked_places(called, "indices", indices, minor)
    if not int(indptr[-1]) == len(values) == len(places):
        raise _damaged(called, f"indptr ends at {indptr[-1]} but it has {len(values)} values and {len(places)} indices")
    _check_sides(called, shape, values.size)
    if _is_plain_index(indptr) and indptr.dtype == places.dtype:
        return values, places, indptr
    width = np.int32 if max(len(places), minor) <= np.iinfo(np.int32).max else np.int64
    return values, places.astype(width), indptr.astype(width)


def _sides(called: str, values: Array, shape: Shape, layout: str) -> tuple[int, int]:
    """Return the number of compressed rows (or columns) and the bound of the indices."""
    if layout != "bsr":
        return shape if layout == "csr" else (shape[1], shape[0])
    height, width = values.shape[1:]
    if not height or not width or shape[0] % height or shape[1] % width:
        raise _damaged(called, f"blocks of {height} x {width} do not tile a matrix of {shape[0]} x {shape[1]}")
    return shape[0] // height, shape[1] // width


def _checked_values(called: str, data: Array, n_axes: int) -> Array:
    if data.ndim != n_axes or data.dtype.kind not in "biufc":
        axes = "one dimension" if n_axes == 1 else f"{n_axes} dimensions"
        raise _damaged(called, f"data must be numbers with {axes}, got {_described(data)}")
    if data.dtype == np.float16:  # SciPy accepts it but cannot slice rows
        return data.astype(np.float32)
    return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))


def _checked_places(called: str, name: str, places: Array, length: int) -> Array:
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise _damaged(called, f"{name} must be one-dimensional integers, got {_described(places)}")
    if places.size:
        least, greatest = int(places.min()), int(places.max())
        if least < 0 or greatest >= length:
            found = least if least < 0 else greatest
            raise _damaged(called, f"{name} must be from 0 to {length - 1}, found {found}")
    return places if _is_plain_index(places) else places.astype(np.int64)


def _is_plain_index(places: Array) -> bool:
    return places.dtype in (np.int32, np.int64) and places.dtype.isnative


def _checked_shape(called: str, shape: Any) -> tuple[int, int]:
    sides = np.asarray(shape)
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or sides.min() < 0:
        raise _damaged(called, "its shape must be two non-negative integers")
    return int(sides[0]), int(sides[1])


def _check_sides(called: str, shape: Shape, n_entries: int) -> None:
    for side, name in zip(shape, ("rows", "columns"), strict=True):
        if side > _MAX_EMPTY_SIDE + 1000 * n_entries:
            raise _damaged(called, f"it declares {side} {name} for {n_entries} entries")


def _described(array: Array) -> str:
    return f"type {array.dtype} and shape {array.shape}"


def _damaged(called: str, reason: str) -> InputError:
    return InputError(f"{called} is a damaged sparse matrix: {reason}")
