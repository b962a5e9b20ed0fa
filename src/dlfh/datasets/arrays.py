"""Reading and writing arrays: NumPy, MATLAB, HDF5 and Parquet files, by suffix.

Files are untrusted: nothing is ever unpickled, and a damaged file raises an InputError that names it.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from dlfh._limits import Budget, reading
from dlfh._persistence.outputs import write_output
from dlfh._sparse import compressed_rows, rows_from_parts
from dlfh.blocks import open_blocks, opening
from dlfh.datasets.arrow import read_parquet, write_parquet
from dlfh.datasets.hdf5 import read_hdf5
from dlfh.datasets.image_files import IMAGE_SUFFIXES
from dlfh.datasets.matlab import is_matlab73, read_matlab, write_matlab
from dlfh.errors import InputError, prefixed

Arrays: TypeAlias = dict[str, Any]  #: Arrays by name: ndarrays, and csr_arrays where the file stores sparse matrices.
_ONLY = "array"  # name of the only array in a file that stores no names
_PARTS = ("data", "indices", "indptr", "shape")  # suffixes of the names of the arrays that store a sparse matrix


def read_arrays(path: str | os.PathLike[str]) -> Arrays:
    """Read all arrays in a file.

    Parameters
    ----------
    path : path of a file
        ``.npy`` (one array, called ``"array"``); ``.npz`` written by NumPy, by ``scipy.sparse.save_npz`` (one matrix,
        called ``"array"``), or with sparse matrices stored as ``name_data``, ``name_indices``, ``name_indptr`` and
        ``name_shape``; ``.mat`` of any MATLAB version; ``.h5`` or ``.hdf5``; ``.safetensors``; ``.parquet``, whose list
        columns become matrices. Or a folder of such files, whose arrays are read together; an array without a name gets
        the name of its file.

    Returns
    -------
    dict of str to ndarray or csr_array
        MATLAB vectors keep two dimensions, cell arrays of text become arrays of str, and fields of structures are
        called ``"structure.field"``.

    Raises
    ------
    InputError
        If the file does not exist, has another format, is damaged, contains pickled objects, or needs more memory than
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
    if is_array_folder(file):
        return _read_folder(file)
    with prefixed(f"cannot read {file}"):
        kind, read = _by_suffix(_READERS, file)
    with reading(file, kind) as budget:
        return read(file, budget)


def is_array_folder(path: Path) -> bool:
    """Return whether a folder contains array files, but no images or subfolders."""
    if not path.is_dir() or path.suffix.lower() in _READERS:
        return False
    inside = [each for each in path.iterdir() if not each.name.startswith(".")]
    suffixes = {each.suffix.lower() for each in inside}
    # A folder of Parquet files is one table.
    others = any(each.is_dir() for each in inside) or suffixes & {".parquet", *IMAGE_SUFFIXES}
    return bool(suffixes & set(_READERS)) and not others


def _read_folder(folder: Path) -> Arrays:
    arrays: Arrays = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in _READERS and not file.name.startswith("."):
            found = read_arrays(file)
            for name, array in ({file.stem: found[_ONLY]} if set(found) == {_ONLY} else found).items():
                if name in arrays:
                    raise InputError(f"cannot read {folder}: two of its files contain {name!r}; pass one file")
                arrays[name] = array
    return arrays


def read_array(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Read one array of a file: the one called ``name``, or the only one."""
    arrays = read_arrays(path)
    if name is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if name is None:
        raise InputError(f"{path} contains {len(arrays)} arrays; name one of them: {listed(arrays)}")
    if name not in arrays:
        raise InputError(f"{path} contains no array {name!r}, only {listed(arrays)}")
    return arrays[name]


def open_matrix(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Open a matrix in a file in blocks of rows, or read it if its format does not support blocks."""
    return open_blocks(path, name) if _has_blocks(Path(path)) else read_array(path, name)


def matrix_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names that `open_matrix` accepts for a file or folder; empty for formats that hold one matrix."""
    return opening.matrix_names(path) if _has_blocks(Path(path)) else list(read_arrays(path))


def _has_blocks(path: Path) -> bool:
    suffix = path.suffix.lower()
    is_older = suffix == ".mat" and path.is_file() and not is_matlab73(path)
    return not is_older and suffix not in (".npz", ".safetensors") and not is_array_folder(path)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any], *, overwrite: bool = True) -> None:
    """Write arrays to a file atomically, for `read_arrays`.

    Parameters
    ----------
    path : path of a file
        ``.npz``; ``.npy`` for a single dense array; ``.mat`` (MATLAB 5: half precision becomes single, sparse
        matrices become double, vectors become columns); ``.parquet`` for arrays with one row per point.
    arrays : dict of str to array-like or sparse matrix
        Numbers, booleans or strings.
    overwrite : bool
        Whether to replace an existing file; otherwise it raises InputError.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data.mat")
    >>> write_arrays(path, {"L_tr": np.array([1, 2, 3])})
    >>> read_arrays(path)["L_tr"].shape
    (3, 1)
    """
    file = Path(path)
    with prefixed(f"cannot write {file}"):
        write = _by_suffix(_WRITERS, file)
        content = write({name: _checked(name, array) for name, array in arrays.items()})
        if file.is_dir():
            raise InputError("it is a folder")
    try:
        write_output(file, [content], overwrite=overwrite)
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}") from None


def listed(names: Iterable[str]) -> str:
    """Return the names sorted and in quotes, for messages."""
    return ", ".join(repr(name) for name in sorted(names)) or "nothing"


def _by_suffix(table: Mapping[str, Any], file: Path) -> Any:
    suffix = file.suffix.lower()
    if suffix not in table:
        raise InputError(f"its name must end in {', '.join(table)}, not in {suffix!r}")
    return table[suffix]


def _checked(name: str, array: Any) -> Any:
    if not isinstance(name, str) or not name:
        raise InputError(f"names of arrays must be non-empty strings, got {name!r}")
    if sp.issparse(array):
        if array.ndim != 2:
            raise InputError(f"the sparse array {name!r} must be two-dimensional, got shape {array.shape}")
        rows = compressed_rows(array.copy(), repr(name))
        rows.sum_duplicates()
        return rows
    try:
        values = np.asarray(array)
    except ValueError:
        raise InputError(f"array {name!r} has rows of different lengths") from None
    if values.dtype == object and all(isinstance(value, str) for value in values.ravel()):
        values = values.astype(str)
    if values.dtype.kind not in "biufcU":
        raise InputError(f"array {name!r} must contain numbers, booleans or strings, got type {values.dtype}")
    return values


def _read_npy(file: Path, budget: Budget) -> Arrays:
    with open(file, "rb") as stream:
        return {_ONLY: _read_npy_stream(_ONLY, stream, file.stat().st_size, budget)}


def _read_npz(file: Path, budget: Budget) -> Arrays:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        budget.take_objects(len(members))
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{member.filename!r} is compressed with a method that NumPy does not use")
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                arrays[name] = _read_npy_stream(name, stream, member.file_size, budget)
    if not {"format", "shape", "data"} <= set(arrays):
        return _join_sparse(arrays)
    stored = arrays["format"].item()  # written by scipy.sparse.save_npz
    layout = stored.decode() if isinstance(stored, bytes) else str(stored)
    return {_ONLY: rows_from_parts(repr(_ONLY), arrays, arrays["shape"], layout)}


def _read_safetensors(file: Path, budget: Budget) -> Arrays:
    import safetensors.numpy

    budget.take_bytes(file.stat().st_size)
    return dict(safetensors.numpy.load_file(file))


def _join_sparse(arrays: Arrays) -> Arrays:
    """Combine ``name_data``, ``name_indices``, ``name_indptr`` and ``name_shape`` into one matrix ``name``."""
    joined: Arrays = {}
    for name, array in arrays.items():
        stem, _, part = name.rpartition("_")
        parts: Arrays = {other: arrays.get(f"{stem}_{other}") for other in _PARTS}
        if part not in _PARTS or any(other is None for other in parts.values()):
            joined[name] = array
        elif part == _PARTS[0]:
            joined[stem] = rows_from_parts(repr(stem), parts, np.ravel(parts["shape"]))
    return joined


def _read_npy_stream(name: str, stream: Any, size: int, budget: Budget) -> Any:
    """Read an array in the .npy format from ``size`` bytes, without allocating more than these bytes can fill."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    n_values = math.prod(shape)
    if dtype.hasobject:
        raise InputError(f"array {name!r} contains pickled Python objects, which are never loaded")
    if n_values * max(dtype.itemsize, 1) > size or any(abs(side) >= 1 << 63 for side in shape):
        raise InputError(f"array {name!r} is truncated: it declares shape {shape}")
    budget.take_bytes(n_values * dtype.itemsize)
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _write_npy(arrays: Arrays) -> bytes:
    if len(arrays) != 1 or sp.issparse(next(iter(arrays.values()))):
        raise InputError(f"a .npy file stores one dense array, got {listed(arrays)}; use .npz")
    content = io.BytesIO()
    np.lib.format.write_array(content, next(iter(arrays.values())), allow_pickle=False)
    return content.getvalue()


def _write_npz(arrays: Arrays) -> bytes:
    parts: Arrays = {}
    for name, array in arrays.items():
        stored = {name: array}
        if sp.issparse(array):
            values = (array.data, array.indices, array.indptr, np.array(array.shape, np.int64))
            stored = {f"{name}_{part}": piece for part, piece in zip(_PARTS, values, strict=True)}
        for clash in stored.keys() & parts.keys():
            raise InputError(f"two arrays would both be stored as {clash!r}; rename one")
        parts.update(stored)
    content = io.BytesIO()
    # numpy.savez cannot store an array called "file", and writes the current time into the archive.
    with zipfile.ZipFile(content, "w", allowZip64=True) as archive:
        for name, array in parts.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()


_READERS: dict[str, tuple[str, Callable[[Path, Budget], Arrays]]] = {
    ".npz": ("a NumPy archive", _read_npz),
    ".npy": ("a NumPy array", _read_npy),
    ".mat": ("a MATLAB file", read_matlab),
    **dict.fromkeys((".h5", ".hdf5"), ("an HDF5 file", lambda file, budget: _join_sparse(read_hdf5(file, budget)))),
    ".parquet": ("a Parquet table", read_parquet),
    ".safetensors": ("a safetensors file", _read_safetensors),
}
_WRITERS: dict[str, Callable[[Arrays], bytes]]
_WRITERS = {".npz": _write_npz, ".npy": _write_npy, ".mat": write_matlab, ".parquet": write_parquet}
