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

from dlfh._limits import Budget
from dlfh._optional import require
from dlfh.datasets.csr import csr_from_parts
from dlfh.errors import InputError

__all__ = ["cells_of", "read_columns", "read_parquet", "write_parquet"]

_METADATA = b"dlfh"

# Rows that are read at a time, and counted before the next.
_BATCH_ROWS = 16384


def read_columns(file: Path, budget: Budget) -> Any:
    """Return a table as pyarrow has it, texts that repeat by their numbers; no more of it than the budget allows."""
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(file) as stored:
        repeating = [field.name for field in stored.schema_arrow if _is_text(field.type)]
    with parquet.ParquetFile(file, read_dictionary=repeating) as stored:
        about = stored.metadata
        budget.take_objects(about.num_columns)
        n_values = _count_values(stored)  # a byte can stand for a million equal numbers
        if 4 * n_values > budget.bytes_left:
            budget.take_bytes(4 * n_values)  # which says so
        batches = []
        for batch in stored.iter_batches(_BATCH_ROWS, use_threads=False):
            budget.take_bytes(batch.nbytes)
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, stored.schema_arrow)


def _count_values(stored: Any) -> int:
    """Return how many values a file has, in all columns.

    Lists are counted by going through them, which takes little memory: what the file says of its columns would be
    at hand, but pyarrow ends the process if that is damaged.
    """
    n_values = 0
    for number in range(stored.metadata.num_columns):
        in_lists = stored.schema.column(number).max_repetition_level
        n_values += stored.reader.scan_contents([number], _BATCH_ROWS) if in_lists else stored.metadata.num_rows
    return n_values


def read_parquet(file: Path, budget: Budget) -> dict[str, Any]:
    """Return the columns of a table: lists of one length as matrices, numbers and strings as vectors."""
    table = read_columns(file, budget)
    about = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    widths = about.get("sparse", {})
    columns = {name: table.column(name) for name in table.column_names}
    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        stem, _, part = name.rpartition(".")
        if stem not in widths:
            arrays[name] = _array(name, column, budget)
        elif part == "columns":
            starts, indices = _lists(name, column, budget)
            _, values = _lists(f"{stem}.values", columns[f"{stem}.values"], budget)
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


def _array(name: str, column: Any, budget: Budget) -> Any:
    types = _pyarrow().types
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        starts, flat = _lists(name, column, budget)
        lengths = np.unique(np.diff(starts))
        if len(lengths) == 1 and flat.dtype.kind in "biuf":
            return flat.reshape(len(starts) - 1, lengths[0])
        budget.take_objects(len(starts))
        rows = np.empty(len(starts) - 1, object)
        for row in range(len(rows)):
            rows[row] = flat[starts[row] : starts[row + 1]]
        return rows
    if _is_text(_value_type(column)):
        texts = cells_of(name, column)
        return np.array(texts, object) if None in texts else budget.strings(texts)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return _owned(column.to_numpy())


def _is_text(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _value_type(column: Any) -> Any:
    return column.type.value_type if _pyarrow().types.is_dictionary(column.type) else column.type


def cells_of(name: str, column: Any) -> list[Any]:
    """Return the cells of a column as Python has them; those that repeat are one object.

    Times that Python cannot hold, of nanoseconds or of other millennia, are texts.
    """
    pyarrow = _pyarrow()
    cells: list[Any] = []
    for chunk in column.chunks:
        try:
            if pyarrow.types.is_dictionary(chunk.type):
                values = [*_plain_cells(chunk.dictionary), None]
                cells += [values[-1 if number is None else number] for number in chunk.indices.to_pylist()]
            else:
                cells += _plain_cells(chunk)
        except UnicodeDecodeError:
            raise InputError(f"column {name!r} holds text that is not UTF-8") from None
        except (pyarrow.ArrowException, OverflowError, ValueError) as error:
            raise InputError(f"column {name!r} cannot be read: {str(error).splitlines()[0]}") from None
    return cells


def _plain_cells(chunk: Any) -> list[Any]:
    pyarrow = _pyarrow()
    try:
        return [_without_pandas(cell) for cell in chunk.to_pylist()]
    except (OverflowError, ValueError):
        if not pyarrow.types.is_temporal(chunk.type):
            raise
        return list(chunk.cast(pyarrow.string()).to_pylist())


def _without_pandas(cell: Any) -> Any:
    """Return a time as Python has it, also where pandas is installed, whose times hold nanoseconds."""
    for convert, rest in (("to_pydatetime", "nanosecond"), ("to_pytimedelta", "nanoseconds")):
        if hasattr(cell, convert):
            if getattr(cell, rest):
                raise ValueError("Python has no nanoseconds")
            return getattr(cell, convert)()
    return cell


def _owned(values: Any) -> Any:
    """Return an array that may be written to: pyarrow's share its memory."""
    return values if values.flags.writeable else values.copy()


def _lists(name: str, column: Any, budget: Budget) -> tuple[Any, Any]:
    """Return where each row's list starts, and the entries of all lists."""
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {name!r} has no value in row {missing}")
    lengths = _pyarrow("pyarrow.compute").list_value_length(column).to_numpy()
    flat = _pyarrow("pyarrow.compute").list_flatten(column)
    values = budget.strings(cells_of(name, flat)) if _is_text(flat.type) else _owned(flat.to_numpy())
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values
