"""MATLAB files: up to version 7 by SciPy, 7.3 as the HDF5 files they are."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.datasets.csr import as_csr
from dlfh.datasets.hdf5 import read_hdf5
from dlfh.errors import InputError

__all__ = ["read_matlab", "write_matlab"]

_LARGEST = 2**31 - 1


def read_matlab(file: Path) -> dict[str, Any]:
    """Return the variables of a MATLAB file of any version, with the types that they have in MATLAB."""
    with open(file, "rb") as stream:
        head = stream.read(520)
    if head.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
        return read_hdf5(file, column_major=True)
    import scipy.io

    with warnings.catch_warnings():
        # SciPy warns of a variable it cannot read, and puts the warning's text in its place.
        warnings.simplefilter("error")
        variables = scipy.io.loadmat(file, appendmat=False, mat_dtype=True)
        kinds = {name: kind for name, _, kind in scipy.io.whosmat(file, appendmat=False)}
    for name, value in variables.items():
        # MATLAB has sparse doubles and logicals alone, and stores both in as few bytes as it can.
        if sp.issparse(value) and value.dtype.kind != "c":
            variables[name] = value.astype(bool if kinds[name] == "logical" else np.float64)
    return {
        name: array
        for variable, value in variables.items()
        if not variable.startswith("__")
        for name, array in _arrays_of(variable, value)
    }


def _arrays_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a variable holds: itself, the fields of a structure, or nothing that NumPy has a type for."""
    if sp.issparse(value):
        yield name, as_csr(name, value)
    elif value.dtype.names is not None:
        if value.size == 1 and type(value) is np.ndarray:
            for field in value.dtype.names:
                yield from _arrays_of(f"{name}.{field}", value.item()[value.dtype.names.index(field)])
    elif value.dtype == object:
        yield name, _cells(value)
    elif value.dtype.kind == "U":
        yield name, np.char.rstrip(value) if value.size > 1 else value  # MATLAB pads rows to one length
    else:
        yield name, value


def _cells(cells: Any) -> Any:
    """Return a cell array of texts as strings, and any other as an array of arrays."""
    flat = cells.ravel() if 1 in cells.shape else cells
    texts = [_text(cell) for cell in flat.ravel()]
    if all(text is not None for text in texts):
        return np.array(texts, dtype=str).reshape(flat.shape)
    arrays = np.empty(flat.size, object)
    for place, cell in enumerate(flat.ravel()):
        arrays[place] = cell.ravel() if isinstance(cell, np.ndarray) and 1 in cell.shape else cell
    return arrays.reshape(flat.shape)


def _text(cell: Any) -> str | None:
    if not isinstance(cell, np.ndarray) or cell.dtype.kind != "U" or cell.size > 1:
        return None
    return str(cell.item()) if cell.size else ""


def write_matlab(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a MATLAB 5 file."""
    import scipy.io

    content = io.BytesIO()
    scipy.io.savemat(content, {name: _for_matlab(name, array) for name, array in arrays.items()}, oned_as="column")
    return content.getvalue()


def _for_matlab(name: str, array: Any) -> Any:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise InputError(f"{name!r} cannot be the name of a variable in MATLAB")
    if sp.issparse(array):  # MATLAB has sparse matrices of doubles and of logicals only
        stored = array.astype(bool if array.dtype == bool else complex if array.dtype.kind == "c" else np.float64)
        size = stored.data.nbytes
    elif array.dtype.kind == "U":
        return np.atleast_1d(array).astype(object)
    else:
        stored = (
            array.astype({2: np.float32, 16: np.float64}.get(array.dtype.itemsize, array.dtype))
            if (array.dtype.kind == "f")
            else array
        )
        size = stored.nbytes
    if size > _LARGEST:
        raise InputError(f"array {name!r} takes {size / 2**30:.1f} GB, and MATLAB 5 files hold 2 GB each; use .npz")
    return stored
