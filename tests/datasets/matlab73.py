"""Files as MATLAB 7.3 writes them: HDF5 behind a header of 512 bytes, in MATLAB's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

CLASSES = {"float64": "double", "float32": "single", "bool": "logical"}


def write_matlab73(path: Path, variables: Mapping[str, Any]) -> None:
    """Write arrays, sparse matrices, lists of strings or arrays (cells), strings, and dicts (structures)."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _write(file, file, name, value)
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Thu Jan  1 00:00:00 2015 HDF5 schema 1.00 ."
    with open(path, "r+b") as stream:
        stream.write(header.ljust(124) + b"\x00\x02IM")


def _write(file: h5py.File, group: h5py.Group, name: str, value: Any) -> Any:
    if isinstance(value, dict):
        item = group.create_group(name)
        _mark(item, "struct")
        for field, content in value.items():
            _write(file, item, field, content)
        return item
    if isinstance(value, str):
        units = np.frombuffer(value.encode("utf-16-le"), "<u2")
        item = _dataset(group, name, units.reshape(1, -1) if units.size else np.zeros((0, 0), np.uint16))
        item.attrs["MATLAB_int_decode"] = np.int32(2)
        return _mark(item, "char")
    if isinstance(value, list):
        cells = file.require_group("#refs#")
        references = np.empty((1, len(value)), h5py.ref_dtype)
        for place, content in enumerate(value):
            references[0, place] = _write(file, cells, f"{name}_{place}", content).ref
        return _mark(group.create_dataset(name, data=references, dtype=h5py.ref_dtype), "cell")
    if sp.issparse(value):
        columns = sp.csc_array(value)
        item = group.create_group(name)
        item.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
        if columns.nnz:
            item["data"] = columns.data.astype(np.uint8) if columns.dtype == bool else columns.data
            item["ir"] = columns.indices.astype(np.uint64)
        item["jc"] = columns.indptr.astype(np.uint64)
        return _mark(item, "logical" if columns.dtype == bool else "double")
    array = np.asarray(value)
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    kind = CLASSES.get(array.dtype.name, array.dtype.name)
    return _mark(_dataset(group, name, array.astype(np.uint8) if array.dtype == bool else array), kind)


def _dataset(group: h5py.Group, name: str, array: np.ndarray) -> h5py.Dataset:
    if array.size:
        return group.create_dataset(name, data=array.T)
    item = group.create_dataset(name, data=np.array(array.shape, np.uint64))
    item.attrs["MATLAB_empty"] = np.uint8(1)
    return item


def _mark(item: Any, kind: str) -> Any:
    item.attrs["MATLAB_class"] = np.bytes_(kind)
    return item
