"""MATLAB files of every version: 4 (through SciPy), 5 to 7 (`matlab5`) and 7.3 (HDF5)."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._limits import Budget
from dlfh.datasets.csr import as_csr
from dlfh.datasets.hdf5 import cell_array, read_hdf5
from dlfh.datasets.matlab5 import read_matlab5
from dlfh.errors import InputError

_LARGEST = 2**31 - 1


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
    variables = read_matlab5(content, budget) if content.startswith(b"MATLAB") else _read_matlab4(content)
    return {name: array for variable, value in variables.items() for name, array in _arrays_of(variable, value, budget)}


def _read_matlab4(content: bytes) -> dict[str, Any]:
    import scipy.io.matlab

    _check_sizes4(content)
    if scipy.io.matlab.matfile_version(io.BytesIO(content), appendmat=False)[0] != 0:
        raise ValueError("not a MATLAB 4 file")
    with np.errstate(invalid="raise"):  # a NaN index in a sparse matrix
        variables = scipy.io.loadmat(io.BytesIO(content), appendmat=False)
    return {name: value for name, value in variables.items() if not name.startswith("__")}


def _check_sizes4(content: bytes) -> None:
    """Check that no matrix declares more values than the file contains: SciPy would allocate them first."""
    place, order = 0, "<" if 0 <= int.from_bytes(content[:4], "little") <= 5000 else ">"  # as SciPy decides
    while place < len(content):
        kind, n_rows, n_columns, imaginary, name_length = struct.unpack_from(order + "5i", content, place)
        width = {0: 8, 1: 4, 2: 4, 3: 2, 4: 2, 5: 1}[kind // 10 % 10]
        if min(n_rows, n_columns, name_length) < 0:
            raise ValueError("negative matrix size")
        place += 20 + name_length + n_rows * n_columns * width * (2 if imaginary == 1 else 1)
    if place > len(content):
        raise ValueError("truncated matrix")


def _arrays_of(name: str, value: Any, budget: Budget) -> Iterator[tuple[str, Any]]:
    """Yield a variable, or the fields of a structure, with their names."""
    if isinstance(value, dict):
        for field, content in value.items():
            yield from _arrays_of(f"{name}.{field}", content, budget)
    elif sp.issparse(value):
        yield name, as_csr(name, value)
    elif value is not None:
        yield name, cell_array(list(value.ravel()), value.shape, budget) if value.dtype == object else value


def write_matlab(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of a MATLAB 5 file."""
    import scipy.io

    content = io.BytesIO()
    scipy.io.savemat(content, {name: _for_matlab(name, array) for name, array in arrays.items()}, oned_as="column")
    return content.getvalue()


def _for_matlab(name: str, array: Any) -> Any:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise InputError(f"{name!r} is not a valid MATLAB variable name")
    if array.dtype.kind == "U":
        return np.atleast_1d(array).astype(object)
    stored = array.astype(_type_in_matlab(array), copy=False)
    size = (stored.data if sp.issparse(stored) else stored).nbytes
    if size > _LARGEST:
        raise InputError(
            f"array {name!r} takes {size / 2**30:.1f} GB, but MATLAB 5 stores at most 2 GB per array; use .npz"
        )
    return stored


def _type_in_matlab(array: Any) -> Any:
    """Return the nearest MATLAB type: single or double precision; sparse matrices are double or logical."""
    if array.dtype.kind == "c":
        return np.complex128
    if sp.issparse(array) or array.dtype.itemsize > 8:
        return array.dtype if array.dtype == bool else np.float64
    return np.float32 if array.dtype == np.float16 else array.dtype
