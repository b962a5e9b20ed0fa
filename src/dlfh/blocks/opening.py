"""Blocks of files, folders, memory-mapped arrays and Dask arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import check_regular_file
from dlfh.blocks.base import Blocks
from dlfh.blocks.dask import DaskBlocks, is_connected, is_dask
from dlfh.blocks.files import FileBlocks, Hdf5Blocks, NpyBlocks, ZarrBlocks
from dlfh.blocks.parquet import ParquetBlocks
from dlfh.errors import InputError

#: Memory-mapped arrays of at least this many bytes are read in blocks; smaller ones are treated as arrays.
_LARGE_MAP = 64 << 20


def open_blocks(path: str | os.PathLike[str], name: str | Sequence[str] | None = None) -> Blocks:
    """Open a matrix in a file or folder, to be read in blocks of rows.

    Parameters
    ----------
    path : path
        ``.npy``; ``.h5``, ``.hdf5`` or ``.mat`` (MATLAB 7.3); ``.zarr``; a ``.parquet`` file or a folder of them.
    name : str or list of str, optional
        The array or column to open; a list of numeric columns is a matrix. Optional if the file holds only one.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "image.npy")
    >>> np.save(path, np.ones((3, 2)))
    >>> blocks = open_blocks(path)
    >>> blocks.shape, blocks.n_blocks
    ((3, 2), 1)
    """
    place = _existing(path)
    suffix = place.suffix.lower()
    try:
        if suffix == ".zarr":
            return ZarrBlocks(place, _single(name))
        if suffix == ".parquet" or place.is_dir():
            return ParquetBlocks(place, name)
        check_regular_file(place)
        if suffix == ".npy":
            return NpyBlocks.open(place)
        if suffix in (".h5", ".hdf5", ".mat"):
            return Hdf5Blocks(place, _single(name), column_major=suffix == ".mat")
    except InputError:
        raise
    except Exception:  # parsers of damaged files raise all kinds of errors
        raise InputError(f"cannot read {place}: it is damaged, truncated or of another format") from None
    raise InputError(f"cannot read {place} in blocks: supported formats are .npy, .h5, .hdf5, .mat, .zarr and .parquet")


def matrix_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names that `open_blocks` accepts for a file or folder; empty for formats that hold one matrix."""
    place = _existing(path)
    suffix = place.suffix.lower()
    if suffix in (".h5", ".hdf5", ".mat"):
        return Hdf5Blocks.names(place)
    is_table = suffix == ".parquet" or (place.is_dir() and suffix != ".zarr")
    return ParquetBlocks.names(place) if is_table else []


def as_blocks(values: Any, name: str) -> Blocks | None:
    """Return Blocks, Dask arrays and large memory maps as blocks, and None for anything else.

    Files opened by `open_blocks` are read by the workers of the connected Dask cluster, if any.
    """
    if isinstance(values, Blocks):
        return values.on_cluster() if isinstance(values, (FileBlocks, ParquetBlocks)) and is_connected() else values
    if is_dask(values):
        return DaskBlocks.of(values, name)
    if isinstance(values, np.memmap) and values.nbytes >= _LARGE_MAP:
        return NpyBlocks.of_memory_map(values)
    return None


def _existing(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    if not place.exists():
        raise InputError(f"cannot read {place}: no such file or folder")
    return place


def _single(name: str | Sequence[str] | None) -> str | None:
    if name is None or isinstance(name, str):
        return name
    raise InputError(f"pass the name of one array, not {len(name)} names")
