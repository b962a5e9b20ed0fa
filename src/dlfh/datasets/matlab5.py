"""MATLAB's files of versions 5 to 7, read element by element.

A file is a list of elements, each with its type and length; a matrix is an element whose content is a list of
elements, and a compressed element holds one matrix. (SciPy has a reader, which is compiled and trusts what a
file states: a single wrong byte can end the process. Files come from anywhere, so this one checks.)
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dlfh._limits import DEEPEST, Budget
from dlfh._sparse import rows_from_parts
from dlfh.errors import InputError

__all__ = ["read_matlab5"]

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
    """Return the variables of a file, with the types that they have in MATLAB.

    Structures are dicts (of single structures; arrays of them are left out), cell arrays are arrays of objects,
    text is an array of one string per row. Raises ValueError, or whatever it stumbles over, if the file is damaged.
    """
    order = {b"IM": "<", b"MI": ">"}[file[126:128]]
    variables = {}
    for element in _elements(memoryview(file)[128:], order):
        if element.kind == _COMPRESSED:
            (element,) = _elements(memoryview(_decompressed(element.content, order, budget)), order)
        if element.kind != _MATRIX:
            raise ValueError("an element that is no matrix")
        name, value = _matrix(element.content, order, 0, budget)
        if name and value is not None:  # what has no name is MATLAB's own
            variables[name] = value
    return variables


def _decompressed(content: memoryview, order: str, budget: Budget) -> bytes:
    """Return the one element that is compressed in some bytes; what it states to take is asked before it is taken."""
    unpacking = zlib.decompressobj()
    head = unpacking.decompress(content, 8)
    _, stated = struct.unpack(order + "II", head)
    if stated > budget.bytes_left:
        budget.take_bytes(stated)  # which says so
    unpacked = head + unpacking.decompress(unpacking.unconsumed_tail, stated + 8)
    if not unpacking.eof and unpacking.decompress(unpacking.unconsumed_tail, 1):
        raise ValueError("more than an element")
    if not unpacking.eof:
        raise ValueError("a cut element")
    return unpacked


def _elements(content: memoryview, order: str) -> Iterator[_Element]:
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from(order + "II", content, place)
        start = place + 8
        if kind >> 16:  # a small element: length and type share a word, and four bytes of content follow
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            if size > 4:
                raise ValueError("a small element that is not small")
            place += 8
        else:
            place = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(content):
            raise ValueError("a cut element")
        yield _Element(kind, content[start : start + size])


def _matrix(content: memoryview, order: str, depth: int, budget: Budget) -> tuple[str, Any]:
    """Return name and value; the value is None where NumPy has no type for it."""
    budget.take_objects()
    if len(content) == 0:  # how an empty cell is written
        return "", np.zeros((0, 0))
    if depth > DEEPEST:
        raise InputError(f"its cells and structures are nested more than {DEEPEST} deep")
    elements = _elements(content, order)
    flags = int(_numbers(next(elements), order)[0])
    kind = flags & 0xFF
    if kind not in _CLASSES and kind not in (_CELL, _STRUCT, _CHAR, _SPARSE):
        return "", None
    shape = tuple(int(size) for size in _numbers(next(elements), order))
    name = bytes(next(elements).content).decode()
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError("a matrix without dimensions")
    if kind == _CHAR:
        return name, _texts(next(elements), shape, order, budget)
    if kind == _CELL:
        return name, _cells(elements, shape, order, depth, budget)
    if kind == _STRUCT:
        return name, _structure(elements, shape, order, depth, budget)
    if kind == _SPARSE:
        return name, _sparse(elements, shape, flags, order, budget)
    values = _values(elements, np.dtype(_CLASSES[kind]), flags, order, budget)
    return name, np.array(values.reshape(shape[::-1]).T, order="C")  # a copy: the rest of the file may go


def _numbers(element: _Element, order: str) -> Any:
    return np.frombuffer(element.content, order + _TYPES[element.kind])


def _values(elements: Iterator[_Element], dtype: Any, flags: int, order: str, budget: Budget) -> Any:
    """Return numbers in the type of their class: files keep them in the smallest type that holds them."""
    stored = _numbers(next(elements), order)
    budget.take_bytes(stored.size * dtype.itemsize * (2 if flags & _COMPLEX else 1))
    if flags & _LOGICAL:
        return stored.astype(bool)
    with np.errstate(invalid="raise", over="raise"):  # NaN as a whole number, or more than the type can hold
        values = stored.astype(dtype, copy=False)
        if not flags & _COMPLEX:
            return values
        whole = np.zeros(values.shape, np.result_type(dtype, np.complex64))  # (1j * infinity would not be a number)
        whole.real, whole.imag = values, _numbers(next(elements), order).astype(dtype)
        return whole


def _texts(element: _Element, shape: tuple[int, ...], order: str, budget: Budget) -> Any:
    encoding = _ENCODINGS[element.kind] + ({"<": "-le", ">": "-be"}[order] if element.kind in (4, 17, 18) else "")
    budget.take_bytes(16 * len(element.content))  # characters, one by one
    text = bytes(element.content).decode(encoding)
    if shape[0] <= 1:
        return np.array([text] if shape[0] else [], dtype=str)
    budget.take_bytes(64 * shape[0])  # rows without characters are strings, too
    rows = np.array(list(text), dtype="U1").reshape(shape[::-1]).T
    return np.array(["".join(row).rstrip() for row in rows])  # MATLAB pads rows to one length


def _cells(elements: Iterator[_Element], shape: tuple[int, ...], order: str, depth: int, budget: Budget) -> Any:
    contents = [
        _matrix(element.content, order, depth + 1, budget)[1] for element in elements if element.kind == _MATRIX
    ]
    if len(contents) != math.prod(shape):
        raise ValueError("a cell array without all of its cells")
    cells = np.empty(len(contents), object)
    for place, cell in enumerate(contents):
        cells[place] = cell
    return cells.reshape(shape[::-1]).T


def _structure(elements: Iterator[_Element], shape: tuple[int, ...], order: str, depth: int, budget: Budget) -> Any:
    length = int(_numbers(next(elements), order)[0])
    names = bytes(next(elements).content)
    if length < 1:
        raise ValueError("a structure without names of its fields")
    budget.take_objects(len(names) // length)
    fields = [names[start : start + length].split(b"\0")[0].decode() for start in range(0, len(names), length)]
    if math.prod(shape) != 1:
        return None
    values = [_matrix(element.content, order, depth + 1, budget)[1] for element in elements]
    return dict(zip(fields, values, strict=True))


def _sparse(elements: Iterator[_Element], shape: tuple[int, ...], flags: int, order: str, budget: Budget) -> Any:
    rows, starts = _numbers(next(elements), order), _numbers(next(elements), order)
    values = _values(elements, np.dtype("f8"), flags, order, budget)
    used = int(starts[-1])  # there may be room for more entries than there are
    parts = {"data": values[:used], "indices": rows[:used], "indptr": starts}
    return rows_from_parts("a matrix", parts, shape, "csc")
