"""Dense arrays in files, in blocks: NumPy, HDF5 and MATLAB 7.3, and Zarr.

Blocks are read, not memory-mapped, so that processed blocks take no memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._imports import require
from dlfh.blocks.base import Blocks, block_starts
from dlfh.errors import InputError


class FileBlocks(Blocks):
    """A dense array in a file.

    row_multiple: Blocks start at multiples of this number of rows, so that they consist of whole chunks of the file.
    """

    is_sparse = False
    is_splittable = True

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], row_multiple: int = 1) -> None:
        self.path = path.absolute()  # workers may have another working directory
        self.name, self.shape, self.dtype = str(path), tuple(shape), dtype
        if len(shape) not in (1, 2) or 0 in shape or dtype.kind not in "biuf":
            raise InputError(f"{path} does not hold a matrix of numbers: shape {shape}, type {dtype}")
        self.starts = block_starts(shape[0], dtype.itemsize * math.prod(shape[1:]), row_multiple)


class NpyBlocks(FileBlocks):
    """An array in NumPy's format, or the part of a file behind a memory-mapped array."""

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
            raise InputError(f"{path} is stored by columns: save numpy.ascontiguousarray(...) to store it by rows")
        if path.stat().st_size < offset + math.prod(shape) * dtype.itemsize:
            raise InputError(f"{path} is truncated: its header gives the shape {shape}")
        return cls(path, shape, dtype, offset)

    @classmethod
    def of_memory_map(cls, array: np.memmap[Any, Any]) -> NpyBlocks | None:
        """Return the file of a memory-mapped array; None for a view that is not stored row by row."""
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
            raise InputError(f"{self.path} was truncated while it was read")
        return block.reshape(stop - start, *self.shape[1:])


class Hdf5Blocks(FileBlocks):
    """A variable of an HDF5 file, or of a MATLAB 7.3 file, which stores matrices transposed."""

    def __init__(self, path: Path, name: str | None, *, column_major: bool) -> None:
        self.h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
        self.column_major = column_major
        self.variable = _select_name(path, self.names(path), name)
        with self.h5py.File(path, "r") as root:
            stored = root[self.variable]
            if not isinstance(stored, self.h5py.Dataset) or stored.external is not None or stored.is_virtual:
                raise InputError(f"{path}: {self.variable!r} is not an array stored in this file")
            shape = stored.shape[::-1] if column_major else stored.shape
            chunk = 1 if stored.chunks is None else stored.chunks[-1 if column_major else 0]
            super().__init__(path, shape, stored.dtype, chunk)

    @staticmethod
    def names(path: Path) -> list[str]:
        """Return the names of the variables that are arrays."""
        h5py = require("h5py", "reading MATLAB 7.3 and HDF5", "matlab")
        try:
            with h5py.File(path, "r") as root:
                return [key for key in root if isinstance(root[key], h5py.Dataset)]
        except OSError:
            if path.suffix.lower() == ".mat":
                raise InputError(f"cannot read {path} in blocks: it is damaged, or not a MATLAB 7.3 file") from None
            raise InputError(f"cannot read {path}: it is damaged, truncated or of another format") from None

    def _read(self, number: int) -> Any:
        start, stop = self._bounds(number)
        with self.h5py.File(self.path, "r") as root:
            stored = root[self.variable]
            return np.ascontiguousarray(stored[..., start:stop].T) if self.column_major else stored[start:stop]


class ZarrBlocks(FileBlocks):
    """An array in Zarr's format."""

    def __init__(self, path: Path, name: str | None) -> None:
        zarr = require("zarr", "reading Zarr", "zarr")
        found = zarr.open(str(path), mode="r")
        if not hasattr(found, "chunks"):
            found = found[_select_name(path, sorted(found.array_keys()), name)]
        self.stored = found
        super().__init__(path, found.shape, np.dtype(found.dtype), found.chunks[0])

    def _read(self, number: int) -> Any:
        start, stop = self._bounds(number)
        return np.asarray(self.stored[start:stop])


def _select_name(path: Path, names: Sequence[str], name: str | None) -> str:
    """Return the requested name, or the only one."""
    if name is None and len(names) != 1:
        raise InputError(f"{path} holds {len(names)} arrays: select one of {', '.join(map(repr, names)) or 'none'}")
    if name is not None and name not in names:
        raise InputError(f"{path} has no array {name!r}; it has {', '.join(map(repr, names)) or 'no arrays'}")
    return names[0] if name is None else name
