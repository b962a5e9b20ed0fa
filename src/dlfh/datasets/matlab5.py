"""MATLAB files of versions 5 to 7.

A file is a sequence of elements, each with a type and a length. A matrix is an element that contains a sequence of
elements, and a compressed element contains one matrix. SciPy's compiled reader trusts the file, and a single wrong byte
can crash the process; this reader checks everything, because files may come from anywhere.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dlfh._limits import MAX_DEPTH, Budget
from dlfh._sparse import rows_from_parts
from dlfh.errors import InputError

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR, _SPARSE = 1, 2, 4, 5
_CLASSES = dict(enumerate(("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), start=6))
_LOGICAL, _COMPLEX = 1 << 9, 1 << 11


class _Element(NamedTuple):
    kind: int
    content: memoryview


def read_matlab5(file: bytes, budget: Budget) -> dict[str, Any]:
    """Return the variables of a file, with the types they have in MATLAB.

    A structure becomes a dict (arrays of structures are skipped), a cell array an object array, and text an array with
    one string per row. A damaged file raises ValueError or another exception.
    """
    order = {b"IM": "<", b"MI": ">"}[file[126:128]]
    variables = {}
    for element in _elements(memoryview(file)[128:], order):
        if element.kind == _COMPRESSED:
            (element,) = _elements(memoryview(_decompressed(element.content, order, budget)), order)
        if element.kind != _MATRIX:
            raise ValueError("not a matrix element")
        name, value = _matrix(element.content, order, 0, budget)
        if name and value is not None:  # unnamed variables are internal to MATLAB
            variables[name] = value
    return variables


def _decompressed(content: memoryview, order: str, budget: Budget) -> bytes:
    """Decompress one element; its stated size is checked against the budget first."""
    unpacking = zlib.decompressobj()
    head = unpacking.decompress(content, 8)
    _, stated = struct.unpack(order + "II", head)
    if stated > budget.bytes_left:
        budget.take_bytes(stated)  # which raises
    unpacked = head + unpacking.decompress(unpacking.unconsumed_tail, stated + 8)
    if not unpacking.eof and unpacking.decompress(unpacking.unconsumed_tail, 1):
        raise ValueError("more than one element")
    if not unpacking.eof:
        raise ValueError("truncated element")
    return unpacked


def _elements(content: memoryview, order: str) -> Iterator[_Element]:
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from(order + "II", content, place)
        start = place + 8
        if kind >> 16:  # a small element: length and type share a word, followed by up to four bytes of content
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            if size > 4:
                raise ValueError("small element too long")
            place += 8
        else:
            place = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(content):
            raise ValueError("truncated element")
        yield _Element(kind, content[start : start + size])


def _matrix(content: memoryview, order: str, depth: int, budget: Budget) -> tuple[str, Any]:
    """Return name and value; the value is None if NumPy has no equivalent type."""
    budget.take_objects()
    if len(content) == 0:  # an empty cell
        return "", np.zeros((0, 0))
    if depth > MAX_DEPTH:
        raise InputError(f"cells and structures are nested more than {MAX_DEPTH} levels deep")
    elements = _elements(content, order)
    flags = int(_numbers(next(elements), order)[0])
    kind = flags & 0xFF
    if kind not in _CLASSES and kind not in (_CELL, _STRUCT, _CHAR, _SPARSE):
        return "", None
    shape = tuple(int(size) for size in _numbers(next(elements), order))
    name = bytes(next(elements).content).decode()
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError("matrix without dimensions")
    if kind == _CHAR:
        return name, _texts(next(elements), shape, order, budget)
    if kind == _CELL:
        return name, _cells(elements, shape, order, depth, budget)
    if kind == _STRUCT:
        return name, _structure(elements, shape, order, depth, budget)
    if kind == _SPARSE:
        return name, _sparse(elements, shape, flags, order, budget)
    values = _values(elements, np.dtype(_CLASSES[kind]), flags, order, budget)
    return name, np.array(values.reshape(shape[::-1]).T, order="C")  # a copy, to release the file's memory


def _numbers(element: _Element, order: str) -> Any:
    return np.frombuffer(element.content, order + _TYPES[element.kind])


def _values(elements: Iterator[_Element], dtype: Any, flags: int, order: str, budget: Budget) -> Any:
    """Return numbers in the type of their class; files store them in the smallest sufficient type."""
    stored = _numbers(next(elements), order)
    budget.take_bytes(stored.size * dtype.itemsize * (2 if flags & _COMPLEX else 1))
    if flags & _LOGICAL:
        return stored.astype(bool)
    with np.errstate(invalid="raise", over="raise"):  # NaN as an integer, or overflow
        values = stored.astype(dtype, copy=False)
        if not flags & _COMPLEX:
            return values
        whole = np.zeros(values.shape, np.result_type(dtype, np.complex64))  # (1j * infinity would be NaN)
        whole.real, whole.imag = values, _numbers(next(elements), order).astype(dtype)
        return whole


def _texts(element: _Element, shape: tuple[int, ...], order: str, budget: Budget) -> Any:
    encoding = _ENCODINGS[element.kind] + ({"<": "-le", ">": "-be"}[order] if element.kind in (4, 17, 18) else "")
    budget.take_bytes(16 * len(element.content))  # one Python string per character
    text = bytes(element.content).decode(encoding)
    if shape[0] <= 1:
        return np.array([text] if shape[0] else [], dtype=str)
    budget.take_bytes(64 * shape[0])  # empty rows are strings, too
    rows = np.array(list(text), dtype="U1").reshape(shape[::-1]).T
    return np.array(["".join(row).rstrip() for row in rows])  # MATLAB pads rows to equal length


def _cells(elements: Iterator[_Element], shape: tuple[int, ...], order: str, depth: int, budget: Budget) -> Any:
    contents = [
        _matrix(element.content, order, depth + 1, budget)[1] for element in elements if element.kind == _MATRIX
    ]
    if len(contents) != math.prod(shape):
        raise ValueError("incomplete cell array")
    cells = np.empty(len(contents), object)
    for place, cell in enumerate(contents):
        cells[place] = cell
    return cells.reshape(shape[::-1]).T


def _structure(elements: Iterator[_Element], shape: tuple[int, ...], order: str, depth: int, budget: Budget) -> Any:
    length = int(_numbers(next(elements), order)[0])
    names = bytes(next(elements).content)
    if length < 1:
        raise ValueError("structure without field names")
    budget.take_objects(len(names) // length)
    fields = [names[start : start + length].split(b"\0")[0].decode() for start in range(0, len(names), length)]
    if math.prod(shape) != 1:
        return None
    values = [_matrix(element.content, order, depth + 1, budget)[1] for element in elements]
    return dict(zip(fields, values, strict=True))


def _sparse(elements: Iterator[_Element], shape: tuple[int, ...], flags: int, order: str, budget: Budget) -> Any:
    rows, starts = _numbers(next(elements), order), _numbers(next(elements), order)
    values = _values(elements, np.dtype("f8"), flags, order, budget)
    used = int(starts[-1])  # the arrays may be longer than needed
    parts = {"data": values[:used], "indices": rows[:used], "indptr": starts}
    return rows_from_parts("a matrix", parts, shape, "csc")
