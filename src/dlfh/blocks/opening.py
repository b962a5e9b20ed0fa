"""Open files, folders, memory-mapped arrays and Dask arrays as blocks, and align the blocks of several modalities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import check_regular_file
from dlfh._validation import check_features, check_modalities, check_names
from dlfh.blocks.base import ArrayBlocks, Blocks
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
    """Return Blocks, Dask arrays and large memory maps as blocks, and None for anything else."""
    # Files opened by `open_blocks` are read by the workers of the connected Dask cluster, if any.
    if isinstance(values, Blocks):
        return values.on_cluster() if isinstance(values, (FileBlocks, ParquetBlocks)) and is_connected() else values
    if is_dask(values):
        return DaskBlocks.of(values, name)
    if isinstance(values, np.memmap) and values.nbytes >= _LARGE_MAP:
        return NpyBlocks.of_memory_map(values)
    return None


def in_one_block(matrix: Any, modality: str) -> Blocks:
    """Return checked features in memory as a single block."""
    return ArrayBlocks(matrix, None, f"modality {modality!r}")


def modality_blocks(modalities: Any, method: str, least: int, most: int | None) -> dict[str, Blocks]:
    """Return the modalities as blocks: arrays in memory as one block, or split like modalities in blocks, if any."""
    check_names(modalities, method, least, most)
    found = {name: as_blocks(values, f"modality {name!r}") for name, values in modalities.items()}
    leader, first = next(((blocks, name) for name, blocks in found.items() if blocks is not None), (None, ""))
    if leader is None:
        checked = check_modalities(modalities, method, least, most)
        return {name: in_one_block(matrix, name) for name, matrix in checked.items()}
    result = {}
    for name, blocks in found.items():
        if blocks is None:
            blocks = in_one_block(check_features(modalities[name], name), name)
        if blocks.ndim != 2:
            raise InputError(f"modality {name!r} must be two-dimensional (points x features), got shape {blocks.shape}")
        if len(blocks) != len(leader):
            raise InputError(f"modality {name!r} has {len(blocks)} rows but modality {first!r} has {len(leader)}")
        result[name] = blocks if found[name] is not None else blocks.split_like(leader)
    return result


def align(features: dict[str, Blocks]) -> dict[str, Blocks]:
    """Return features split at the same rows, by the finest of their splits that all of them support."""
    # If any of them is a Dask array, all are processed by Dask.
    if not all(blocks.is_local for blocks in features.values()):
        features = {name: blocks.on_cluster() for name, blocks in features.items()}
    for leader in sorted(features.values(), key=lambda blocks: -blocks.n_blocks):
        aligned = {
            name: blocks if np.array_equal(blocks.starts, leader.starts) else blocks.split_like(leader)
            for name, blocks in features.items()
        }
        if all(np.array_equal(blocks.starts, leader.starts) for blocks in aligned.values()):
            return aligned
    first, *others = features.values()
    first.check_aligned(*others)
    return features


def first_in_blocks(modalities: Any) -> str | None:
    """Return the name of the first modality that is not in memory, if any; a memory map counts as an array."""
    for name, values in modalities.items() if isinstance(modalities, Mapping) else ():
        if not isinstance(values, np.ndarray) and as_blocks(values, f"modality {name!r}") is not None:
            return str(name)
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
