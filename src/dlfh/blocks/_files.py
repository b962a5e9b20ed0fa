"""Files by blocks: NumPy's arrays, HDF5 and MATLAB 7.3, Zarr, and Parquet.

Blocks are read, not mapped: what was read and is done with takes no memory.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import check_regular_file
from dlfh._optional import require
from dlfh._sparse import rows_from_parts
from dlfh.blocks._base import Blocks, block_starts
from dlfh.errors import InputError

__all__ = ["FILES", "Hdf5Blocks", "NpyBlocks", "ParquetBlocks", "ZarrBlocks"]


class _FileBlocks(Blocks):
    """A dense array in a file: how it is cut, and what is said of what is no such array."""

    is_sparse = False

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], row_multiple: int = 1) -> None:
        self.path = path.absolute()  # for workers, wherever they were started
        self.called, self.shape, self.dtype = str(path), tuple(shape), dtype
        if len(shape) not in (1, 2) or 0 in shape or dtype.kind not in "biuf":
            raise InputError(f"{path} does not hold a matrix of numbers: shape {shape}, type {dtype}")
        row_bytes = dtype.itemsize * math.prod(shape[1:])
        self.starts = block_starts(shape[0], row_bytes)
        step = int(self.starts[1]) // row_multiple * row_multiple
        if step > 0 and self.n_blocks > 1:  # whole chunks of the file
            self.starts = np.append(np.arange(0, shape[0], step), shape[0]).astype(np.int64)

    def cut_like(self, other: Blocks) -> Blocks:
        if self.shape[0] != other.shape[0]:
            return self
        cut = copy.copy(self)
        cut.starts = other.starts
        return cut

    def _bounds(self, number: int) -> tuple[int, int]:
        return int(self.starts[number]), int(self.starts[number + 1])


class NpyBlocks(_FileBlocks):
    """An array in NumPy's format, or the part of a file that a memory-mapped array is of."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> None:
        super().__init__(path, shape, dtype)
        self.offset = offset

    @classmethod
    def open(cls, path: Path) -> NpyBlocks:
        """Return the array of a .npy file."""
        with open(path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(stream)
            offset = stream.tell()
        if fortran and len(shape) > 1:
            raise InputError(f"{path} is stored by columns: numpy.ascontiguousarray(...) stores it by rows")
        if path.stat().st_size < offset + math.prod(shape) * dtype.itemsize:
            raise InputError(f"{path} is cut short: it states the shape {shape}")
        return cls(path, shape, dtype, offset)

    @classmethod
    def of_memory_map(cls, array: np.memmap[Any, Any]) -> NpyBlocks | None:
        """Return the file of a memory-mapped array; None for a part of one that is not stored row after row."""
        if array.filename is None or not array.flags.c_contiguous or not isinstance(array.base, type(array._mmap)):  # type: ignore[attr-defined]
            return None
        return cls(Path(array.filename), array.shape, array.dtype, int(array.offset))

    def _read(self, number: int) -> Any:
        start, stop = self._bounds(number)
        row = math.prod(self.shape[1:])
        with open(self.path, "rb") as stream:
            stream.seek(self.offset + start * row * self.dtype.itemsize)
            block = np.fromfile(stream, self.dtype, (stop - start) * row)
        if block.size != (stop - start) * row:
            raise InputError(f"{self.path} has become shorter while it was read")
        return block.reshape(stop - start, *self.shape[1:])


class Hdf5Blocks(_FileBlocks):
    """A variable of an HDF5 file, or of one of MATLAB 7.3, which stores columns as rows."""

    def __init__(self, path: Path, name: str | None, *, column_major: bool) -> None:
        self.h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
        self.column_major = column_major
        self.name = only_name(path, self.names(path), name)
        with self.h5py.File(path, "r") as root:
            stored = root[self.name]
            if not isinstance(stored, self.h5py.Dataset) or stored.external is not None or stored.is_virtual:
                raise InputError(f"{path}: {self.name!r} is no array of this file")
            shape = stored.shape[::-1] if column_major else stored.shape
            chunk = 1 if stored.chunks is None else stored.chunks[-1 if column_major else 0]
            super().__init__(path, shape, stored.dtype, chunk)

    @staticmethod
    def names(path: Path) -> list[str]:
        """Return the variables that are arrays."""
        h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
        try:
            with h5py.File(path, "r") as root:
                return [key for key in root if isinstance(root[key], h5py.Dataset)]
        except OSError:
            raise InputError(f"cannot read {path}: it is damaged, cut short or not what its name says") from None

    def _read(self, number: int) -> Any:
        start, stop = self._bounds(number)
        with self.h5py.File(self.path, "r") as root:
            stored = root[self.name]
            return np.ascontiguousarray(stored[..., start:stop].T) if self.column_major else stored[start:stop]


class ZarrBlocks(_FileBlocks):
    """An array in Zarr's format."""

    def __init__(self, path: Path, name: str | None) -> None:
        zarr = require("zarr", "reading Zarr", "zarr")
        found = zarr.open(str(path), mode="r")
        if not hasattr(found, "chunks"):
            found = found[only_name(path, sorted(found.array_keys()), name)]
        self.stored = found
        super().__init__(path, found.shape, np.dtype(found.dtype), found.chunks[0])

    def _read(self, number: int) -> Any:
        start, stop = self._bounds(number)
        return np.asarray(self.stored[start:stop])


class ParquetBlocks(Blocks):
    """A Parquet file or folder of files: a column of vectors, several columns of numbers, or a sparse matrix.

    A row group is a block. Lists are read through Arrow's buffers.
    """

    def __init__(self, path: Path, columns: str | Sequence[str] | None) -> None:
        self.parquet = require("pyarrow.parquet", "reading Parquet", "parquet")
        self.called, self.is_sparse = str(path), False
        files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} holds no .parquet file")
        self.groups: list[tuple[Path, int]] = []
        lengths, names = [0], None
        for file in (own.absolute() for own in files):
            schema, metadata = self._open(file)
            if names is None:
                names = schema.names
                self.columns, self.width = _choose_columns(path, schema, columns)
            elif schema.names != names:
                raise InputError(f"{file} has other columns than {files[0]}")
            for group in range(metadata.num_row_groups):
                self.groups.append((file, group))
                lengths.append(metadata.row_group(group).num_rows)
        self.is_sparse = self.width is not None
        self.starts = np.cumsum(lengths).astype(np.int64)
        if not self.starts[-1]:
            raise InputError(f"{path} has no rows")
        first = self._read(0)
        self.shape = (int(self.starts[-1]), *first.shape[1:])
        self.dtype = first.dtype

    @classmethod
    def names(cls, path: Path) -> list[str]:
        """Return what matrices a data set has: its columns, and of a sparse matrix's two, its name."""
        files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} holds no .parquet file")
        schema, _ = cls._open(files[0])
        widths = _sparse_widths(schema)
        parts = {f"{name}.{part}" for name in widths for part in ("columns", "values")}
        return [*widths, *(name for name in schema.names if name not in parts)]

    @staticmethod
    def _open(file: Path) -> tuple[Any, Any]:
        check_regular_file(file)
        parquet = require("pyarrow.parquet", "reading Parquet", "parquet")
        try:
            with parquet.ParquetFile(file) as stored:
                return stored.schema_arrow, stored.metadata
        except Exception:  # a parser of damaged files raises whatever it stumbles over
            raise InputError(f"cannot read {file}: it is damaged, cut short or not a Parquet table") from None

    def _read(self, number: int) -> Any:
        file, group = self.groups[number]
        try:
            with self.parquet.ParquetFile(file) as stored:
                table = stored.read_row_group(group, self.columns, use_threads=False)
        except FileNotFoundError:
            raise
        except Exception:
            raise InputError(f"cannot read {file}: it is damaged, or was changed while it was read") from None
        parts = [table.column(name).combine_chunks() for name in self.columns]
        for name, part in zip(self.columns, parts, strict=True):
            if part.null_count:
                raise InputError(f"cannot read {file}: column {name!r} has rows without a value")
        if self.width is not None:
            starts = _offsets(parts[0])
            pieces = {"data": _flat(parts[1]), "indices": _flat(parts[0]), "indptr": starts}
            rows = rows_from_parts(self.called, pieces, (len(starts) - 1, self.width))
            rows.sum_duplicates()
            return rows
        if len(parts) > 1 or not _is_list(parts[0].type):
            matrix = np.column_stack([part.to_numpy(zero_copy_only=False) for part in parts])
        else:
            lengths = np.diff(_offsets(parts[0]))
            if len(lengths) and (lengths != lengths[0]).any():
                raise InputError(f"cannot read {file}: lists in column {self.columns[0]!r} are not of one length")
            matrix = _flat(parts[0]).reshape(len(parts[0]), -1)
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"cannot read {file}: column {self.columns[0]!r} does not hold numbers")
        return matrix


#: What reads files: whoever finds them by the same paths can.
FILES = (_FileBlocks, ParquetBlocks)


def _choose_columns(path: Path, schema: Any, columns: str | Sequence[str] | None) -> tuple[list[str], int | None]:
    """Return the columns to read, and how wide the matrix is if it is sparse."""
    widths = _sparse_widths(schema)
    names = [columns] if isinstance(columns, str) else list(columns or [])
    if not names:
        names = [*widths] or schema.names
        if len(names) > 1:
            raise InputError(f"{path} holds {len(names)} columns, so say which: {', '.join(map(repr, names))}")
    if len(names) == 1 and names[0] in widths:
        return [f"{names[0]}.columns", f"{names[0]}.values"], int(widths[names[0]])
    for name in names:
        if name not in schema.names:
            raise InputError(f"{path} holds no column {name!r}, but {', '.join(map(repr, schema.names))}")
    return names, None


def _sparse_widths(schema: Any) -> dict[str, int]:
    widths: dict[str, int] = json.loads((schema.metadata or {}).get(b"dlfh", b"{}")).get("sparse", {})
    return widths


def _is_list(kind: Any) -> bool:
    types = require("pyarrow", "reading Parquet", "parquet").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _offsets(lists: Any) -> Any:
    """Return where each list begins among the values of all, and where the last ends."""
    lengths = require("pyarrow.compute", "reading Parquet", "parquet").list_value_length(lists)
    return np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int64)


def _flat(lists: Any) -> Any:
    return lists.flatten().to_numpy(zero_copy_only=False)


def only_name(path: Path, names: Sequence[str], name: str | None) -> str:
    """Return the name of the array that is meant: the one that is named, or the only one."""
    if name is None and len(names) != 1:
        raise InputError(f"{path} holds {len(names)} arrays, so say which one: {', '.join(map(repr, names)) or 'none'}")
    if name is not None and name not in names:
        raise InputError(f"{path} holds no array {name!r}, but {', '.join(map(repr, names)) or 'none at all'}")
    return names[0] if name is None else name
