"""Arrays from and to files, by the files' suffix: NumPy, MATLAB, HDF5 and Parquet.

Files come from anywhere: nothing is ever unpickled, and whatever is wrong with a file is said in one
sentence that names it. Files are written to a temporary sibling and renamed, so that a file is whole or
was never there.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from dlfh._limits import Budget, check_regular_file
from dlfh._persistence.outputs import write_output
from dlfh._sparse import rows_from_parts
from dlfh.datasets.csr import as_csr, join_csr_parts, split_csr
from dlfh.datasets.hdf5 import read_hdf5
from dlfh.datasets.matlab import read_matlab, write_matlab
from dlfh.datasets.parquet import read_parquet, write_parquet
from dlfh.errors import InputError

__all__ = ["Arrays", "read_array", "read_arrays", "write_arrays"]

#: Arrays by name: ndarrays, and csr_arrays where the file holds sparse matrices.
Arrays: TypeAlias = dict[str, Any]

# The name of what stands alone in a file.
_ONLY = "array"


def read_arrays(path: str | os.PathLike[str]) -> Arrays:
    """Read every array in a file.

    Parameters
    ----------
    path : path of a file
        ``.npy`` (one array, called ``"array"``); ``.npz`` of NumPy, of ``scipy.sparse.save_npz`` (one matrix,
        called ``"array"``), or with sparse matrices as ``name_data``, ``name_indices``, ``name_indptr`` and
        ``name_shape``; ``.mat`` of MATLAB up to 7 and of MATLAB 7.3; ``.h5`` or ``.hdf5``; ``.parquet``, whose
        list columns become matrices.

    Returns
    -------
    dict of str to ndarray or csr_array
        As they are in the file: MATLAB's vectors have two dimensions and its cell arrays of text are
        arrays of str. Fields of structures are called ``"structure.field"``.

    Raises
    ------
    InputError
        If the file is not there, is no such file, is damaged, holds pickled objects, or asks for more memory than
        ``DLFH_MAX_BYTES`` allows.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
    >>> write_arrays(path, {"image": np.zeros((3, 2)), "text": sp.csr_array(np.eye(3))})
    >>> {name: array.shape for name, array in read_arrays(path).items()}
    {'image': (3, 2), 'text': (3, 3)}
    """
    file = Path(path)
    try:
        kind, read = _choose(_READERS, file)
        check_regular_file(file)
        try:
            with open(file, "rb"):  # what may not be read is said in the system's words
                pass
            return read(file, Budget.of_file(file))
        except InputError:
            raise
        except PermissionError as error:
            raise InputError(str(error.strerror)) from None
        except MemoryError:
            raise InputError("it takes more memory than there is, or is damaged") from None
        except Exception:  # parsers of damaged files raise whatever they stumble over
            raise InputError(f"it is damaged, cut short or not {kind}{_looks_like(file)}") from None
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None


def read_array(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Read one array of a file: the one called ``name``, or the only one there is.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "image.npy")
    >>> write_arrays(path, {"image": np.zeros((3, 2))})
    >>> read_array(path).shape
    (3, 2)
    """
    arrays = read_arrays(path)
    if name is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if name is None:
        raise InputError(f"{path} holds {len(arrays)} arrays, so say which one: {_listed(arrays)}")
    if name not in arrays:
        raise InputError(f"{path} holds no array {name!r}, but {_listed(arrays)}")
    return arrays[name]


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any], *, overwrite: bool = True) -> None:
    """Write arrays to a file that `read_arrays` reads, in one step.

    Parameters
    ----------
    path : path of a file
        ``.npz``; ``.npy`` for a single dense array; ``.mat`` (MATLAB 5: half precision becomes single, sparse
        matrices become double and vectors columns); ``.parquet`` for arrays with one row per point.
    arrays : dict of str to array-like or sparse matrix
        Numbers, booleans or strings.
    overwrite : bool
        Whether a file that is there is replaced; if not, it is a reason to raise InputError.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data.mat")
    >>> write_arrays(path, {"L_tr": np.array([1, 2, 3])})
    >>> read_arrays(path)["L_tr"].shape
    (3, 1)
    """
    file = Path(path)
    try:
        _, write = _choose(_WRITERS, file)
        content = write({name: _checked(name, array) for name, array in arrays.items()})
        if file.is_dir():
            raise InputError("it is a folder")
    except InputError as error:
        raise InputError(f"cannot write {file}: {error}") from None
    try:
        write_output(file, [content], overwrite=overwrite)
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}") from None


def _choose(table: Mapping[str, tuple[str, Callable[..., Any]]], file: Path) -> tuple[str, Callable[..., Any]]:
    suffix = file.suffix.lower()
    if suffix not in table:
        raise InputError(f"its name must end in {', '.join(table)}, not in {suffix!r}")
    return table[suffix]


def _looks_like(file: Path) -> str:
    """Name the format whose first bytes the file has, if it is one that users mix up."""
    with open(file, "rb") as stream:
        head = stream.read(520)
    if not head:
        return ": it is empty"
    for kind, found in (
        ("a NumPy array (.npy)", head.startswith(b"\x93NUMPY")),
        ("a zip or NumPy archive (.npz)", head.startswith(b"PK")),
        ("a Parquet table (.parquet)", head.startswith(b"PAR1")),
        ("a MATLAB file (.mat)", head.startswith(b"MATLAB")),
        ("an HDF5 file (.h5)", head.startswith(b"\x89HDF")),
    ):
        if found and file.suffix not in kind:
            return f"; it looks like {kind}"
    return ""


def _listed(arrays: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in sorted(arrays)) or "none at all"


def _checked(name: str, array: Any) -> Any:
    if not isinstance(name, str) or not name:
        raise InputError(f"arrays must be named by non-empty strings, got {name!r}")
    if sp.issparse(array):
        if array.ndim != 2:
            raise InputError(f"the sparse array {name!r} must be two-dimensional, got shape {array.shape}")
        return as_csr(name, array.copy())
    try:
        values = np.asarray(array)
    except ValueError:
        raise InputError(f"array {name!r} has rows of different lengths") from None
    if values.dtype == object and all(isinstance(value, str) for value in values.ravel()):
        values = values.astype(str)
    if values.dtype.kind not in "biufcU":
        raise InputError(f"array {name!r} must hold numbers, booleans or strings, got type {values.dtype}")
    return values


def _read_npy(file: Path, budget: Budget) -> Arrays:
    with open(file, "rb") as stream:
        return {_ONLY: _unpickled(_ONLY, stream, file.stat().st_size, budget)}


def _read_npz(file: Path, budget: Budget) -> Arrays:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        budget.take_objects(len(members))
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{member.filename!r} is compressed in a way that NumPy has not")
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                arrays[name] = _unpickled(name, stream, member.file_size, budget)
    if {"format", "shape", "data"} <= set(arrays):
        return {_ONLY: _matrix_of_scipy(arrays)}
    return join_csr_parts(arrays)


def _matrix_of_scipy(arrays: Arrays) -> sp.csr_array:
    """Return the matrix that `scipy.sparse.save_npz` took apart."""
    stored = arrays["format"].item()
    layout = stored.decode() if isinstance(stored, bytes) else str(stored)
    parts = {name: array for name, array in arrays.items() if name not in ("format", "shape", "_is_array")}
    rows = rows_from_parts(
        repr(_ONLY), parts, arrays["shape"], layout.decode() if isinstance(layout, bytes) else layout
    )
    rows.sum_duplicates()
    return rows


def _unpickled(name: str, stream: Any, size: int, budget: Budget) -> Any:
    """Return an array of NumPy's, of a stream that has ``size`` bytes: no more room is made than those fill."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    n_values = math.prod(shape)
    if dtype.hasobject:
        raise InputError(f"array {name!r} holds pickled Python objects, which are never loaded")
    if n_values * max(dtype.itemsize, 1) > size or any(abs(side) >= 1 << 63 for side in shape):
        raise InputError(f"array {name!r} states shape {shape}, and is cut short")
    budget.take_bytes(n_values * dtype.itemsize)
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _write_npy(arrays: Arrays) -> bytes:
    if len(arrays) != 1 or sp.issparse(next(iter(arrays.values()))):
        raise InputError(f"a .npy file holds one dense array, got {_listed(arrays)}; use .npz")
    content = io.BytesIO()
    np.lib.format.write_array(content, next(iter(arrays.values())), allow_pickle=False)
    return content.getvalue()


def _write_npz(arrays: Arrays) -> bytes:
    parts: Arrays = {}
    for name, array in arrays.items():
        own = split_csr(name, array) if sp.issparse(array) else {name: array}
        for clash in own.keys() & parts.keys():
            raise InputError(f"two arrays would both be stored as {clash!r}; rename one")
        parts.update(own)
    content = io.BytesIO()
    # Not numpy.savez: it has no room for an array called "file", and puts the time of day into the file.
    with zipfile.ZipFile(content, "w", allowZip64=True) as archive:
        for name, array in parts.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()


_READERS: dict[str, tuple[str, Callable[[Path, Budget], Arrays]]] = {
    ".npz": ("a NumPy archive", _read_npz),
    ".npy": ("a NumPy array", _read_npy),
    ".mat": ("a MATLAB file", read_matlab),
    ".h5": ("an HDF5 file", read_hdf5),
    ".hdf5": ("an HDF5 file", read_hdf5),
    ".parquet": ("a Parquet table", read_parquet),
}
_WRITERS: dict[str, tuple[str, Callable[[Arrays], bytes]]] = {
    ".npz": ("a NumPy archive", _write_npz),
    ".npy": ("a NumPy array", _write_npy),
    ".mat": ("a MATLAB file", write_matlab),
    ".parquet": ("a Parquet table", write_parquet),
}
