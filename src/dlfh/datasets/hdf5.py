"""HDF5 files, plain and as written by MATLAB 7.3.

MATLAB stores arrays transposed (it is column-major), text as numbers, cell arrays as references, sparse matrices as
groups of CSC arrays, and empty arrays as their shape. An attribute of each object names its MATLAB class.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dlfh._imports import require
from dlfh._limits import MAX_DEPTH, Budget
from dlfh._sparse import rows_from_parts
from dlfh.errors import InputError

_NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
# Strings read before the budget is checked again: many references may share one string in the file.
_BLOCK_TEXTS = 256
# Reference to a variable-length string: its length, the address of its heap, and its number there.
_TEXT_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
# Headers of a global heap, and of each object in it: number (0 for free space) and size.
_HEAP, _TEXT = struct.Struct("<4s4xQ"), struct.Struct("<H6xQ")


def read_hdf5(file: Path, budget: Budget, *, column_major: bool = False) -> dict[str, Any]:
    """Return the arrays in an HDF5 file; set ``column_major`` if MATLAB wrote it."""
    h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
    with h5py.File(file, "r") as root:
        return dict(_Reader(h5py, root, column_major, budget).arrays_in(root, "", 0))


class _Reader:
    def __init__(self, h5py: Any, root: Any, column_major: bool, budget: Budget) -> None:
        self.h5py, self.root, self.column_major, self.budget = h5py, root, column_major, budget
        self._groups: set[int] = set()  # addresses of the groups, and of the string heaps, that were read
        self._heaps: set[int] = set()
        self._cells_read: dict[int, Any] = {}  # by address

    def arrays_in(self, group: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
        # Refuse groups that contain each other or occur twice, because every path through them would be read.
        address = self._address(group)
        if address in self._groups:
            raise InputError(f"the group {group.name} occurs more than once")
        if depth > MAX_DEPTH:
            raise InputError(f"groups are nested more than {MAX_DEPTH} levels deep")
        self._groups.add(address)
        for key in group:
            self.budget.take_objects()
            if key.startswith("#"):  # MATLAB's group of cell contents
                continue
            item, name = self._item(group, key), prefix + key
            kind = _class_of(item)
            if isinstance(item, self.h5py.Dataset):
                if kind == "cell" or self.h5py.check_ref_dtype(item.dtype) is None:
                    yield name, self.array(item, depth)
            elif "MATLAB_sparse" in item.attrs:
                yield name, self._sparse(name, item)
            elif kind in ("struct", ""):
                yield from self.arrays_in(item, name + ("." if self.column_major else "/"), depth + 1)

    def _item(self, group: Any, key: str) -> Any:
        """Return a member of a group; raise InputError if it links to another file."""
        if isinstance(group.get(key, getlink=True), self.h5py.ExternalLink):
            raise InputError(f"{key!r} in the group {group.name} is a link to another file, which is not followed")
        return group[key]

    def _address(self, item: Any) -> int:
        return int(self.h5py.h5o.get_info(item.id).addr)

    def _values(self, dataset: Any) -> Any:
        """Return stored values, after checking their location and size."""
        if dataset.external is not None or dataset.is_virtual:
            raise InputError(f"{dataset.name} is stored in another file, which is not read")
        chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
        self.budget.take_bytes(max(dataset.nbytes, chunk))
        if dataset.dtype.kind != "O" or dataset.ndim == 0 or self.h5py.check_ref_dtype(dataset.dtype) is not None:
            return dataset[()]
        self._check_texts(dataset)
        values = np.empty(dataset.shape, object)
        step = max(1, _BLOCK_TEXTS * dataset.shape[0] // max(dataset.size, 1))
        for start in range(0, dataset.shape[0], step):
            values[start : start + step] = dataset[start : start + step]
            self.budget.take_bytes(sum(len(value) for value in values[start : start + step].ravel()))
        return values

    def _check_texts(self, dataset: Any) -> None:
        """Refuse strings longer than the file, and heaps that HDF5 would traverse endlessly; skip compressed data."""
        stored = dataset.id
        if stored.get_create_plist().get_nfilters():
            return
        if dataset.chunks is None:
            parts = [(stored.get_offset(), stored.get_storage_size())]
        else:
            chunks = [stored.get_chunk_info(number) for number in range(stored.get_num_chunks())]
            parts = [(chunk.byte_offset, chunk.size) for chunk in chunks]
        n_bytes = os.path.getsize(self.root.filename)
        with open(self.root.filename, "rb") as file:
            for start, size in parts:
                if start is None:  # nothing is stored
                    continue
                file.seek(start)
                raw = file.read(size)
                whole = len(raw) // _TEXT_REFERENCE.itemsize * _TEXT_REFERENCE.itemsize
                references = np.frombuffer(raw[:whole], _TEXT_REFERENCE)
                if references["length"].max(initial=0) > n_bytes:
                    raise InputError(f"it is damaged: {dataset.name} has a string longer than the file")
                for address in set(references["address"].tolist()) - self._heaps:
                    if not _heap_ends(file, address):
                        raise InputError(f"it is damaged: {dataset.name} refers to a string heap that does not end")
                    self._heaps.add(address)

    def array(self, dataset: Any, depth: int) -> Any:
        kind = _class_of(dataset)
        if self.h5py.check_string_dtype(dataset.dtype) is not None:
            values = np.asarray(self._values(dataset))
            texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel()]
            return self.budget.strings(texts).reshape(values.shape)
        if kind == "cell":
            return self._cells(dataset, depth)
        values = self._values(dataset)
        if _attribute(dataset, "MATLAB_empty", 0):
            shape = tuple(int(size) for size in values.ravel())
            if 0 not in shape:
                raise InputError(f"it is damaged: {dataset.name} is marked as empty but has shape {shape}")
            values = np.zeros(shape, _type_of(kind, np.dtype(np.float64)))
        else:
            values = _complex(values)
            if kind or self.column_major:
                values = np.ascontiguousarray(np.asarray(values).T)
        if kind == "char":
            return _texts(values, self.budget)
        dtype = _type_of(kind, values.dtype)
        self.budget.take_bytes(values.size * max(0, dtype.itemsize - values.dtype.itemsize))
        return _cast(np.asarray(values), dtype)

    def _cells(self, dataset: Any, depth: int) -> Any:
        if _attribute(dataset, "MATLAB_empty", 0):
            return np.zeros(0, str)
        if depth > MAX_DEPTH:
            raise InputError(f"cells are nested more than {MAX_DEPTH} levels deep")
        self.budget.take_objects(dataset.size)
        references, cells = self._values(dataset), []
        for target in (self.root[reference] for reference in references.ravel()):
            address = self._address(target)
            if address not in self._cells_read:  # several cells may refer to the same array
                self._cells_read[address] = self.array(target, depth + 1)
            cells.append(self._cells_read[address])
        return cell_array(cells, references.shape[::-1], self.budget)

    def _sparse(self, name: str, group: Any) -> Any:
        n_rows, starts = int(_attribute(group, "MATLAB_sparse", 0)), self._values(self._item(group, "jc")).ravel()
        # A matrix without entries has no 'data' and 'ir'.
        values = _complex(self._values(self._item(group, "data")).ravel()) if "data" in group else np.zeros(0)
        rows = self._values(self._item(group, "ir")).ravel() if "ir" in group else np.zeros(0, np.int64)
        values = _cast(values, _type_of(_class_of(group), values.dtype))
        parts = {"data": values, "indices": rows, "indptr": starts}
        return rows_from_parts(repr(name), parts, (n_rows, len(starts) - 1), "csc")


def cell_array(cells: Sequence[Any], shape: tuple[int, ...], budget: Budget) -> Any:
    """Return cells, in column-major order, as an array of strings if all are texts, and otherwise of objects."""
    if all(isinstance(cell, np.ndarray) and cell.dtype.kind == "U" and cell.size <= 1 for cell in cells):
        array = budget.strings([str(cell.item()) if cell.size else "" for cell in cells])
    else:
        array = np.empty(len(cells), object)
        for place, cell in enumerate(cells):
            array[place] = cell.ravel() if isinstance(cell, np.ndarray) and 1 in cell.shape else cell
    return array if 1 in shape else array.reshape(shape[::-1]).T


def _cast(values: Any, dtype: Any) -> Any:
    with np.errstate(invalid="raise"):  # NaN in the file for an integer
        return values.astype(dtype, copy=False)


def _attribute(item: Any, name: str, default: Any) -> Any:
    """Return an attribute if it has a fixed size, as MATLAB's do; reading others can make HDF5 loop endlessly."""
    if name not in item.attrs:
        return default
    if item.attrs.get_id(name).dtype.kind == "O":
        raise InputError(f"the attribute {name} of {item.name} has a type that MATLAB does not write")
    return item.attrs[name]


def _class_of(item: Any) -> str:
    name = _attribute(item, "MATLAB_class", b"")
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


def _type_of(kind: str, stored: Any) -> Any:
    if kind not in _NUMBERS or np.dtype(stored).kind == "c":
        return stored
    return np.dtype({"double": "float64", "single": "float32", "logical": "bool"}.get(kind, kind))


def _complex(values: Any) -> Any:
    names = getattr(values.dtype, "names", None)
    return values["real"] + 1j * values["imag"] if names == ("real", "imag") else values


def _texts(characters: Any, budget: Budget) -> Any:
    """Return the rows of a matrix of UTF-16 code units as strings."""
    matrix = np.atleast_2d(characters)
    budget.take_objects(len(matrix))  # a compressed matrix of characters may have millions of rows
    rows = [row.astype("<u2").tobytes().decode("utf-16-le", "replace") for row in matrix]
    # MATLAB pads rows to equal length.
    return budget.strings([row.rstrip() for row in rows] if len(rows) > 1 else rows)


def _heap_ends(file: BinaryIO, address: int) -> bool:
    """Return whether traversing a global heap ends; True for anything else, which HDF5 checks itself."""
    file.seek(min(address, 1 << 62))
    head = file.read(_HEAP.size)
    if len(head) < _HEAP.size or not head.startswith(b"GCOL"):
        return True
    size = _HEAP.unpack(head)[1]
    heap = file.read(min(size, os.fstat(file.fileno()).st_size))
    place = 0
    while place + _TEXT.size <= min(len(heap), size - _HEAP.size):
        number, length = _TEXT.unpack_from(heap, place)
        step = length if number == 0 else _TEXT.size + -(-length // 8) * 8
        if step == 0:
            return False
        place += step
    return True
