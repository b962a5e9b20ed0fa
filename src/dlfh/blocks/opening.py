"""Blocks of whatever a user has: a file, a folder, a memory-mapped or a Dask array."""

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

__all__ = ["as_blocks", "matrix_names", "open_blocks"]

#: Memory-mapped arrays from so many bytes on are read by blocks; smaller ones are arrays like others.
_LARGE_MAP = 64 << 20


def open_blocks(path: str | os.PathLike[str], name: str | Sequence[str] | None = None) -> Blocks:
    """Open a matrix in a file, or in a folder of files, to be read by blocks of rows.

    Parameters
    ----------
    path : path
        ``.npy``; ``.h5``, ``.hdf5`` or ``.mat`` (MATLAB 7.3); ``.zarr``; a ``.parquet`` file or a folder of such.
    name : str or list of str, optional
        Which array, or which column; a list of columns of numbers is a matrix. Not needed where there is one.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "image.npy")
    >>> np.save(path, np.ones((3, 2)))
    >>> blocks = open_blocks(path)
    >>> blocks.shape, blocks.n_blocks
    ((3, 2), 1)
    """
    place = Path(path)
    suffix = place.suffix.lower()
    if not place.exists():
        raise InputError(f"cannot read {place}: it is not there")
    try:
        if suffix == ".zarr":
            return ZarrBlocks(place, _one(name))
        if suffix == ".parquet" or place.is_dir():
            return ParquetBlocks(place, name)
        check_regular_file(place)
        if suffix == ".npy":
            return NpyBlocks.open(place)
        if suffix in (".h5", ".hdf5", ".mat"):
            return Hdf5Blocks(place, _one(name), column_major=suffix == ".mat")
    except InputError:
        raise
    except Exception:  # parsers of damaged files raise whatever they stumble over
        raise InputError(f"cannot read {place}: it is damaged, cut short or not what its name says") from None
    raise InputError(f"cannot read {place} by blocks: .npy, .h5, .hdf5, .mat, .zarr and .parquet can be")


def matrix_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of what a file or folder holds that `open_blocks` can be asked for; none where there is one.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "image.npy")
    >>> np.save(path, np.ones((3, 2)))
    >>> matrix_names(path)
    []
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"cannot read {place}: it is not there")
    suffix = place.suffix.lower()
    if suffix in (".h5", ".hdf5", ".mat"):
        return Hdf5Blocks.names(place)
    is_table = suffix == ".parquet" or (place.is_dir() and suffix != ".zarr")
    return ParquetBlocks.names(place) if is_table else []


def as_blocks(values: Any, called: str) -> Blocks | None:
    """Return what is given as blocks, if it is what should be read so: Blocks, Dask arrays, large memory maps.

    Files that `open_blocks` opened are read by the workers of a Dask cluster, if one is connected to any.
    """
    if isinstance(values, Blocks):
        return values.on_cluster() if isinstance(values, (FileBlocks, ParquetBlocks)) and is_connected() else values
    if is_dask(values):
        return DaskBlocks.of(values, called)
    if isinstance(values, np.memmap) and values.nbytes >= _LARGE_MAP:
        return NpyBlocks.of_memory_map(values)
    return None


def _one(name: str | Sequence[str] | None) -> str | None:
    if name is None or isinstance(name, str):
        return name
    raise InputError(f"one array is read, not {len(name)}")
