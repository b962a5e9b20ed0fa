"""Parquet tables: one row per point, a matrix as a column of lists.

A sparse matrix takes two columns, ``name.columns`` and ``name.values``, of lists with one entry per entry of
the row; how many columns it has is in the table's metadata.
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.datasets.csr import csr_from_parts
from dlfh.errors import InputError

__all__ = ["read_parquet", "write_parquet"]

_METADATA = b"dlfh"


def read_parquet(file: Path) -> dict[str, Any]:
    """Return the columns of a table: lists of one length as matrices, numbers and strings as vectors."""
    _pyarrow()
    parquet = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(file) as stored:
        table = stored.read()
    widths = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}")).get("sparse", {})
    columns = {name: table.column(name) for name in table.column_names}
    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        stem, _, part = name.rpartition(".")
        if stem not in widths:
            arrays[name] = _array(name, column)
        elif part == "columns":
            starts, indices = _lists(name, column)
            _, values = _lists(f"{stem}.values", columns[f"{stem}.values"])
            arrays[stem] = csr_from_parts(stem, values, indices, starts, (len(starts) - 1, widths[stem]))
    return arrays


def write_parquet(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a table whose rows are those of all arrays."""
    pyarrow = _pyarrow()
    columns: dict[str, Any] = {}
    widths: dict[str, int] = {}
    rows = {name: array.shape[0] for name, array in arrays.items() if array.ndim}
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or array.dtype.kind == "c" or (array.dtype.kind == "U" and array.ndim == 2):
            raise InputError(f"array {name!r} is no column of a table: shape {array.shape}, type {array.dtype}")
        if len(set(rows.values())) > 1:
            raise InputError(f"all columns of a table have as many rows, and these have {rows}; use .npz")
        if sp.issparse(array):
            widths[name] = int(array.shape[1])
            own = {f"{name}.columns": _ragged(array, array.indices), f"{name}.values": _ragged(array, array.data)}
        elif array.ndim == 2:
            if array.shape[1] == 0:
                raise InputError(f"array {name!r} is no column of a table: it has no columns itself")
            flat = pyarrow.array(np.ascontiguousarray(array).ravel())
            own = {name: pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])}
        else:
            own = {name: pyarrow.array(np.ascontiguousarray(array))}
        for clash in own.keys() & columns.keys():
            raise InputError(f"two arrays would both be stored as column {clash!r}; rename one")
        columns.update(own)
    table = pyarrow.table(columns).replace_schema_metadata({_METADATA: json.dumps({"sparse": widths})})
    content = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, content)
    return content.getvalue()


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise InputError('Parquet tables need pyarrow, which is not installed: pip install "dlfh[parquet]"') from None


def _ragged(matrix: sp.csr_array, values: Any) -> Any:
    pyarrow = _pyarrow()
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(matrix.indptr.astype(np.int64)), pyarrow.array(values))


def _array(name: str, column: Any) -> Any:
    types = _pyarrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        starts, flat = _lists(name, column)
        lengths = np.unique(np.diff(starts))
        if len(lengths) == 1 and flat.dtype.kind in "biuf":
            return flat.reshape(len(starts) - 1, lengths[0])
        rows = np.empty(len(starts) - 1, object)
        for row in range(len(rows)):
            rows[row] = flat[starts[row] : starts[row + 1]]
        return rows
    if types.is_string(column.type) or types.is_large_string(column.type):
        texts = column.to_pylist()
        return np.array(texts, dtype=object if None in texts else str)
    return column.to_numpy()


def _lists(name: str, column: Any) -> tuple[Any, Any]:
    """Return where each row's list starts, and the entries of all lists."""
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {name!r} has no value in row {missing}")
    lengths = importlib.import_module("pyarrow.compute").list_value_length(column).to_numpy()
    flat = importlib.import_module("pyarrow.compute").list_flatten(column)
    strings = _pyarrow().types.is_string(flat.type) or _pyarrow().types.is_large_string(flat.type)
    values = np.array(flat.to_pylist(), dtype=str) if strings else flat.to_numpy()
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values
