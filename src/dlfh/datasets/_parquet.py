"""Parquet tables: one row per point, a matrix as a column of lists.

A sparse matrix takes two columns, ``name.columns`` and ``name.values``, of lists with one entry per entry of
the row; how many columns it has is in the table's metadata, and so are single texts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._optional import require
from dlfh.datasets._csr import csr_from_parts
from dlfh.errors import InputError

__all__ = ["read_parquet", "write_parquet"]

_METADATA = b"dlfh"


def read_parquet(file: Path) -> dict[str, Any]:
    """Return the columns of a table: lists of one length as matrices, numbers and strings as vectors."""
    _pyarrow()
    parquet = _pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(file) as stored:
        table = stored.read()
    about = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    widths = about.get("sparse", {})
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
    return arrays | {name: np.array(text) for name, text in about.get("texts", {}).items()}


def write_parquet(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a table whose rows are those of all arrays."""
    pyarrow = _pyarrow()
    texts = {name: str(array) for name, array in arrays.items() if array.ndim == 0 and array.dtype.kind == "U"}
    rows = {name: array.shape[0] for name, array in arrays.items() if array.ndim}
    if len(set(rows.values())) > 1:
        raise InputError(f"all columns of a table have as many rows, and these have {rows}; use .npz")
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        own = {} if name in texts else _columns(name, array)
        for clash in own.keys() & columns.keys():
            raise InputError(f"two arrays would both be stored as column {clash!r}; rename one")
        columns.update(own)
    widths = {name: int(array.shape[1]) for name, array in arrays.items() if sp.issparse(array)}
    about = {_METADATA: json.dumps({"sparse": widths, "texts": texts})}
    content = io.BytesIO()
    table = pyarrow.table(columns).replace_schema_metadata(about)
    _pyarrow("pyarrow.parquet").write_table(table, content)
    return content.getvalue()


def _columns(name: str, array: Any) -> dict[str, Any]:
    pyarrow = _pyarrow()
    if sp.issparse(array):
        return {f"{name}.columns": _ragged(array, array.indices), f"{name}.values": _ragged(array, array.data)}
    if array.ndim not in (1, 2) or array.dtype.kind == "c" or (array.ndim == 2 and array.dtype.kind == "U"):
        raise InputError(f"array {name!r} is no column of a table: shape {array.shape}, type {array.dtype}")
    if array.ndim == 1:
        return {name: pyarrow.array(np.ascontiguousarray(array))}
    if array.shape[1] == 0:
        raise InputError(f"array {name!r} is no column of a table: it has no columns itself")
    flat = pyarrow.array(np.ascontiguousarray(array).ravel())
    return {name: pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])}


def _pyarrow(module: str = "pyarrow") -> Any:
    return require(module, "reading or writing Parquet", "parquet")


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
    return _owned(column.to_numpy())


def _owned(values: Any) -> Any:
    """Return an array that may be written to: pyarrow's share its memory."""
    return values if values.flags.writeable else values.copy()


def _lists(name: str, column: Any) -> tuple[Any, Any]:
    """Return where each row's list starts, and the entries of all lists."""
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {name!r} has no value in row {missing}")
    lengths = _pyarrow("pyarrow.compute").list_value_length(column).to_numpy()
    flat = _pyarrow("pyarrow.compute").list_flatten(column)
    strings = _pyarrow().types.is_string(flat.type) or _pyarrow().types.is_large_string(flat.type)
    values = np.array(flat.to_pylist(), dtype=str) if strings else _owned(flat.to_numpy())
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values
