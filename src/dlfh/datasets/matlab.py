"""MATLAB files of every version: 4 (through SciPy), 5 to 7 (read here) and 7.3 (HDF5).

A file of versions 5 to 7 is a sequence of elements, each with a type and a length. A matrix is an element that contains
a sequence of elements, and a compressed element contains one matrix. SciPy's compiled reader trusts the file, so a
single wrong byte can crash the process; this reader checks everything, because files are untrusted.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._limits import MAX_DEPTH, Budget
from dlfh._sparse import compressed_rows, rows_from_parts
from dlfh.datasets.hdf5 import cell_array, read_hdf5
from dlfh.errors import InputError

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR, _SPARSE = 1, 2, 4, 5
_CLASSES = dict(enumerate(("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), start=6))
_LOGICAL, _COMPLEX = 1 << 9, 1 << 11


def is_matlab73(file: Path) -> bool:
    """Return whether a MATLAB file is an HDF5 file."""
    with open(file, "rb") as stream:
        head = stream.read(520)
    return head.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:])


def read_matlab(file: Path, budget: Budget) -> dict[str, Any]:
    """Return the variables of a MATLAB file of any version, with the types they have in MATLAB."""
    if is_matlab73(file):
        return read_hdf5(file, budget, column_major=True)
    content = file.read_bytes()
    if not content.startswith(b"MATLAB"):
        return _read_matlab4(content)
    order = {b"IM": "<", b"MI": ">"}[content[126:128]]
    return dict(_Matlab5(order, budget).variables(memoryview(content)[128:]))


def _read_matlab4(content: bytes) -> dict[str, Any]:
    import scipy.io.matlab

    # SciPy would allocate all values that a matrix declares, so the file must contain as many.
    place, order = 0, "<" if 0 <= int.from_bytes(content[:4], "little") <= 5000 else ">"  # as SciPy decides
    while place < len(content):
        kind, n_rows, n_columns, imaginary, name_length = struct.unpack_from(order + "5i", content, place)
        width = {0: 8, 1: 4, 2: 4, 3: 2, 4: 2, 5: 1}[kind // 10 % 10]
        if min(n_rows, n_columns, name_length) < 0:
            raise ValueError("negative matrix size")
        place += 20 + name_length + n_rows * n_columns * width * (2 if imaginary == 1 else 1)
    if place > len(content):
        raise ValueError("truncated matrix")
    if scipy.io.matlab.matfile_version(io.BytesIO(content), appendmat=False)[0] != 0:
        raise ValueError("not a MATLAB 4 file")
    with np.errstate(invalid="raise"):  # a NaN index in a sparse matrix
        variables = scipy.io.loadmat(io.BytesIO(content), appendmat=False)
    return {
        name: compressed_rows(value, repr(name)) if sp.issparse(value) else value
        for name, value in variables.items()
        if not name.startswith("__")
    }


class _Element(NamedTuple):
    kind: int
    content: memoryview


class _Matlab5(NamedTuple):
    """Reader of files of versions 5 to 7; a damaged file raises ValueError or another exception."""

    order: str  # byte order, as for `struct`
    budget: Budget

    def variables(self, content: memoryview) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of each variable; fields of structures become separate variables."""
        for element in self._elements(content):
            if element.kind == _COMPRESSED:
                (element,) = self._elements(memoryview(self._decompressed(element.content)))
            if element.kind != _MATRIX:
                raise ValueError("not a matrix element")
            name, value = self._matrix(element.content, 0)
            if name:  # unnamed variables are internal to MATLAB
                yield from _fields(name, value)

    def _decompressed(self, content: memoryview) -> bytes:
        """Decompress one element after checking its declared size against the budget."""
        unpacking = zlib.decompressobj()
        head = unpacking.decompress(content, 8)
        _, stated = struct.unpack(self.order + "II", head)
        self.budget.check_bytes(stated)
        unpacked = head + unpacking.decompress(unpacking.unconsumed_tail, stated + 8)
        if not unpacking.eof and unpacking.decompress(unpacking.unconsumed_tail, 1):
            raise ValueError("more than one element")
        if not unpacking.eof:
            raise ValueError("truncated element")
        return unpacked

    def _elements(self, content: memoryview) -> Iterator[_Element]:
        place = 0
        while place < len(content):
            kind, size = struct.unpack_from(self.order + "II", content, place)
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

    def _matrix(self, content: memoryview, depth: int) -> tuple[str, Any]:
        """Return name and value; the value is None if NumPy has no equivalent type."""
        self.budget.take_objects()
        if len(content) == 0:  # an empty cell
            return "", np.zeros((0, 0))
        if depth > MAX_DEPTH:
            raise InputError(f"cells and structures are nested more than {MAX_DEPTH} levels deep")
        elements = self._elements(content)
        flags = int(self._numbers(next(elements))[0])
        kind = flags & 0xFF
        if kind not in _CLASSES and kind not in (_CELL, _STRUCT, _CHAR, _SPARSE):
            return "", None
        shape = tuple(int(size) for size in self._numbers(next(elements)))
        name = bytes(next(elements).content).decode()
        if len(shape) < 2 or min(shape) < 0:
            raise ValueError("matrix without dimensions")
        if kind == _CHAR:
            return name, self._texts(next(elements), shape)
        if kind == _CELL:
            return name, self._cells(elements, shape, depth)
        if kind == _STRUCT:
            return name, self._structure(elements, shape, depth)
        if kind == _SPARSE:
            return name, self._sparse(elements, shape, flags)
        values = self._values(elements, np.dtype(_CLASSES[kind]), flags)
        return name, np.array(values.reshape(shape[::-1]).T, order="C")  # a copy, to release the file's memory

    def _numbers(self, element: _Element) -> Any:
        return np.frombuffer(element.content, self.order + _TYPES[element.kind])

    def _values(self, elements: Iterator[_Element], dtype: Any, flags: int) -> Any:
        """Return numbers in the type of their MATLAB class; the file may store them in a smaller type."""
        stored = self._numbers(next(elements))
        self.budget.take_bytes(stored.size * dtype.itemsize * (2 if flags & _COMPLEX else 1))
        if flags & _LOGICAL:
            return stored.astype(bool)
        with np.errstate(invalid="raise", over="raise"):  # NaN as an integer, or overflow
            values = stored.astype(dtype, copy=False)
            if not flags & _COMPLEX:
                return values
            whole = np.zeros(values.shape, np.result_type(dtype, np.complex64))  # (1j * infinity would be NaN)
            whole.real, whole.imag = values, self._numbers(next(elements)).astype(dtype)
            return whole

    def _texts(self, element: _Element, shape: tuple[int, ...]) -> Any:
        n_rows, suffix = shape[0], {"<": "-le", ">": "-be"}[self.order] if element.kind in (4, 17, 18) else ""
        self.budget.take_bytes(16 * len(element.content))  # one Python string per character
        text = bytes(element.content).decode(_ENCODINGS[element.kind] + suffix)
        if n_rows <= 1:
            return np.array([text] if n_rows else [], dtype=str)
        self.budget.take_bytes(64 * n_rows)  # empty rows are strings, too
        rows = np.array(list(text), dtype="U1").reshape(shape[::-1]).T
        return np.array(["".join(row).rstrip() for row in rows])  # MATLAB pads rows to equal length

    def _cells(self, elements: Iterator[_Element], shape: tuple[int, ...], depth: int) -> Any:
        contents = [self._matrix(element.content, depth + 1)[1] for element in elements if element.kind == _MATRIX]
        if len(contents) != math.prod(shape):
            raise ValueError("incomplete cell array")
        return cell_array(contents, shape, self.budget)

    def _structure(self, elements: Iterator[_Element], shape: tuple[int, ...], depth: int) -> dict[str, Any] | None:
        """Return the fields by name; arrays of structures are skipped."""
        length = int(self._numbers(next(elements))[0])
        names = bytes(next(elements).content)
        if length < 1:
            raise ValueError("structure without field names")
        self.budget.take_objects(len(names) // length)
        fields = [names[start : start + length].split(b"\0")[0].decode() for start in range(0, len(names), length)]
        if math.prod(shape) != 1:
            return None
        values = [self._matrix(element.content, depth + 1)[1] for element in elements]
        return dict(zip(fields, values, strict=True))

    def _sparse(self, elements: Iterator[_Element], shape: tuple[int, ...], flags: int) -> sp.csr_array:
        rows, starts = self._numbers(next(elements)), self._numbers(next(elements))
        values = self._values(elements, np.dtype("f8"), flags)
        used = int(starts[-1])  # the arrays may be longer than needed
        parts = {"data": values[:used], "indices": rows[:used], "indptr": starts}
        return rows_from_parts("a matrix", parts, shape, "csc")


def _fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for field, content in value.items():
            yield from _fields(f"{name}.{field}", content)
    elif value is not None:
        yield name, value


def write_matlab(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of a MATLAB 5 file."""
    import scipy.io

    content = io.BytesIO()
    scipy.io.savemat(content, {name: _for_matlab(name, array) for name, array in arrays.items()}, oned_as="column")
    return content.getvalue()


def _for_matlab(name: str, array: Any) -> Any:
    """Return an array in the nearest MATLAB type: single or double precision; sparse matrices are double or logical."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise InputError(f"{name!r} is not a valid MATLAB variable name")
    if array.dtype.kind == "U":
        return np.atleast_1d(array).astype(object)
    dtype: Any = array.dtype
    if dtype.kind == "c":
        dtype = np.complex128
    elif dtype.kind != "b" and (sp.issparse(array) or dtype.itemsize > 8):
        dtype = np.float64
    elif dtype == np.float16:
        dtype = np.float32
    stored = array.astype(dtype, copy=False)
    size = (stored.data if sp.issparse(stored) else stored).nbytes / 2**30
    if size >= 2:
        raise InputError(f"array {name!r} takes {size:.1f} GB, but MATLAB 5 stores at most 2 GB per array; use .npz")
    return stored
