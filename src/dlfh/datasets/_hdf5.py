"""HDF5 files, plain and as MATLAB 7.3 writes them.

MATLAB stores the transposes of its arrays (it counts columns first), keeps text as numbers, cell arrays as
references, sparse matrices as groups of their parts by column, and of an empty array only its shape. An
attribute of each object says what it is in MATLAB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._optional import require
from dlfh.datasets._csr import csr_from_parts, join_csr_parts
from dlfh.errors import InputError

__all__ = ["read_hdf5"]

# What is never written is not stored, and compression has its limits: beyond them a stated shape is wrong.
_PLAUSIBLE_BYTES = 2**28
_NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


def read_hdf5(file: Path, *, column_major: bool = False) -> dict[str, Any]:
    """Return the arrays of an HDF5 file; ``column_major`` says that MATLAB or the like wrote it."""
    h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
    with h5py.File(file, "r") as root:
        arrays = dict(_Reader(h5py, root, column_major).arrays_in(root, ""))
    return arrays if column_major else join_csr_parts(arrays)


class _Reader:
    """What one file holds."""

    def __init__(self, h5py: Any, root: Any, column_major: bool) -> None:
        self.h5py = h5py
        self.root = root
        self.column_major = column_major

    def arrays_in(self, group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        for key in group:
            if key.startswith("#"):  # where MATLAB keeps the cells of cell arrays
                continue
            item, name = group[key], prefix + key
            kind = _class_of(item)
            if isinstance(item, self.h5py.Dataset):
                if kind == "cell" or self.h5py.check_ref_dtype(item.dtype) is None:
                    yield name, self.array(item)
            elif "MATLAB_sparse" in item.attrs:
                yield name, _sparse(name, item)
            elif kind in ("struct", ""):
                yield from self.arrays_in(item, name + ("." if self.column_major else "/"))

    def array(self, dataset: Any) -> Any:
        kind = _class_of(dataset)
        if self.h5py.check_string_dtype(dataset.dtype) is not None:
            return np.asarray(dataset.asstr()[()]).astype(str)
        if kind == "cell":
            return self._cells(dataset)
        if dataset.nbytes > _PLAUSIBLE_BYTES + 5000 * dataset.id.get_storage_size():
            raise InputError(f"{dataset.name} states shape {dataset.shape} and is all but empty: the file is damaged")
        if dataset.attrs.get("MATLAB_empty", 0):
            shape = tuple(int(size) for size in dataset[()].ravel())
            if 0 not in shape:
                raise InputError(f"{dataset.name} is marked as empty and has shape {shape}: the file is damaged")
            values = np.zeros(shape, _type_of(kind, np.dtype(np.float64)))
        else:
            values = _complex(dataset[()])
            if kind or self.column_major:
                values = np.ascontiguousarray(np.asarray(values).T)
        return _texts(values) if kind == "char" else np.asarray(values).astype(_type_of(kind, values.dtype), copy=False)

    def _cells(self, dataset: Any) -> Any:
        if dataset.attrs.get("MATLAB_empty", 0):
            return np.zeros(0, str)
        references = dataset[()].T
        kinds = {_class_of(self.root[reference]) for reference in references.ravel()}
        shape = (references.size,) if 1 in references.shape else references.shape
        cells = [self.array(self.root[reference]) for reference in references.ravel()]
        if kinds == {"char"} and all(cell.size <= 1 for cell in cells):
            return np.array([cell.item() if cell.size else "" for cell in cells], dtype=str).reshape(shape)
        arrays = np.empty(len(cells), object)
        for place, cell in enumerate(cells):
            arrays[place] = cell.ravel() if 1 in cell.shape else cell
        return arrays.reshape(shape)


def _class_of(item: Any) -> str:
    name = item.attrs.get("MATLAB_class", b"")
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


def _type_of(kind: str, stored: Any) -> Any:
    """Return the NumPy type of a MATLAB class; numbers of no class are what they are stored as."""
    if kind not in _NUMBERS or np.dtype(stored).kind == "c":
        return stored
    return np.dtype({"double": "float64", "single": "float32", "logical": "bool"}.get(kind, kind))


def _complex(values: Any) -> Any:
    names = getattr(values.dtype, "names", None)
    return values["real"] + 1j * values["imag"] if names == ("real", "imag") else values


def _texts(characters: Any) -> Any:
    """Return the rows of a matrix of UTF-16 units as strings."""
    rows = [row.astype("<u2").tobytes().decode("utf-16-le", "replace") for row in np.atleast_2d(characters)]
    # MATLAB pads rows to one length.
    return np.array([row.rstrip() for row in rows] if len(rows) > 1 else rows, dtype=str)


def _sparse(name: str, group: Any) -> Any:
    n_rows, starts = int(group.attrs["MATLAB_sparse"]), group["jc"][()].ravel()
    # Without entries there is nothing but the starts of the columns.
    values = _complex(group["data"][()].ravel()) if "data" in group else np.zeros(0)
    rows = group["ir"][()].ravel() if "ir" in group else np.zeros(0, np.int64)
    values = values.astype(_type_of(_class_of(group), values.dtype), copy=False)
    return csr_from_parts(name, values, rows, starts, (n_rows, len(starts) - 1), "csc")
