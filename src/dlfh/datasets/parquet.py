"""Parquet files: one row per point, matrices as list columns.

A sparse matrix takes two list columns, ``name.columns`` and ``name.values``, with the indices and values of the
non-zero entries of each row. Its width is in the metadata of the table, and so are scalar strings.
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

_METADATA = b"dlfh"

# Rows read before the budget is checked again.
_BATCH_ROWS = 16384


def read_columns(file: Path, budget: Budget) -> Any:
    """Return a pyarrow table within the budget; text columns are dictionary-encoded."""
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(file) as stored:
        texts = [field.name for field in stored.schema_arrow if _is_text(field.type)]
    with parquet.ParquetFile(file, read_dictionary=texts) as stored:
        budget.take_objects(stored.metadata.num_columns)
        n_values = _count_values(stored)  # a byte can encode a million equal numbers
        if 4 * n_values > budget.bytes_left:
            budget.take_bytes(4 * n_values)  # which raises
        batches = []
        for batch in stored.iter_batches(_BATCH_ROWS, use_threads=False):
            budget.take_bytes(batch.nbytes)
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, stored.schema_arrow)


def _count_values(stored: Any) -> int:
    """Return the number of values in all columns.

    List columns are scanned, which takes little memory. Column statistics would be quicker, but pyarrow aborts the
    process if they are damaged.
    """
    n_values = 0
    for number in range(stored.metadata.num_columns):
        in_lists = stored.schema.column(number).max_repetition_level
        n_values += stored.reader.scan_contents([number], _BATCH_ROWS) if in_lists else stored.metadata.num_rows
    return n_values


def read_parquet(file: Path, budget: Budget) -> dict[str, Any]:
    """Return the columns as arrays: lists of equal length as matrices, numbers and strings as vectors."""
    table = read_columns(file, budget)
    about = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    widths = about.get("sparse", {})
    columns = {name: table.column(name) for name in table.column_names}
    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        stem, _, part = name.rpartition(".")
        if stem not in widths:
            arrays[name] = _to_array(name, column, budget)
        elif part == "columns":
            starts, indices = _flatten_lists(name, column, budget)
            _, values = _flatten_lists(f"{stem}.values", columns[f"{stem}.values"], budget)
            arrays[stem] = csr_from_parts(stem, values, indices, starts, (len(starts) - 1, widths[stem]))
    return arrays | {name: np.array(text) for name, text in about.get("texts", {}).items()}


def write_parquet(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of a Parquet file with one column, or two if sparse, per array."""
    pyarrow = _pyarrow()
    texts = {name: str(array) for name, array in arrays.items() if array.ndim == 0 and array.dtype.kind == "U"}
    rows = {name: array.shape[0] for name, array in arrays.items() if array.ndim}
    if len(set(rows.values())) > 1:
        raise InputError(f"all arrays in a table must have the same number of rows, got {rows}; use .npz")
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        stored = {} if name in texts else _to_columns(name, array)
        for clash in stored.keys() & columns.keys():
            raise InputError(f"two arrays would both be stored as column {clash!r}; rename one")
        columns.update(stored)
    widths = {name: int(array.shape[1]) for name, array in arrays.items() if sp.issparse(array)}
    about = {_METADATA: json.dumps({"sparse": widths, "texts": texts})}
    content = io.BytesIO()
    table = pyarrow.table(columns).replace_schema_metadata(about)
    _pyarrow("pyarrow.parquet").write_table(table, content)
    return content.getvalue()


def _to_columns(name: str, array: Any) -> dict[str, Any]:
    pyarrow = _pyarrow()
    if sp.issparse(array):
        starts = pyarrow.array(array.indptr.astype(np.int64))
        return {
            f"{name}.{part}": pyarrow.LargeListArray.from_arrays(starts, pyarrow.array(values))
            for part, values in (("columns", array.indices), ("values", array.data))
        }
    if (
        array.ndim not in (1, 2)
        or 0 in array.shape[1:]
        or array.dtype.kind == "c"
        or (array.ndim == 2 and array.dtype.kind == "U")
    ):
        raise InputError(f"array {name!r} cannot be a table column: shape {array.shape}, type {array.dtype}")
    flat = pyarrow.array(np.ascontiguousarray(array).ravel())
    return {name: flat if array.ndim == 1 else pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])}


def _pyarrow(module: str = "pyarrow") -> Any:
    return require(module, "reading or writing Parquet", "parquet")


def _to_array(name: str, column: Any, budget: Budget) -> Any:
    types = _pyarrow().types
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        starts, flat = _flatten_lists(name, column, budget)
        lengths = np.unique(np.diff(starts))
        if len(lengths) == 1 and flat.dtype.kind in "biuf":
            return flat.reshape(len(starts) - 1, lengths[0])
        budget.take_objects(len(starts))
        rows = np.empty(len(starts) - 1, object)
        for row in range(len(rows)):
            rows[row] = flat[starts[row] : starts[row + 1]]
        return rows
    is_dictionary = types.is_dictionary(column.type)
    if _is_text(column.type.value_type if is_dictionary else column.type):
        texts = to_cells(name, column)
        return np.array(texts, object) if None in texts else budget.strings(texts)
    return _writable((column.cast(column.type.value_type) if is_dictionary else column).to_numpy())


def _is_text(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def to_cells(name: str, column: Any) -> list[Any]:
    """Return a column as Python values; equal values of a dictionary-encoded column are one object.

    Times that Python cannot represent (nanoseconds, other millennia) become strings.
    """
    pyarrow = _pyarrow()
    cells: list[Any] = []
    for chunk in column.chunks:
        try:
            if pyarrow.types.is_dictionary(chunk.type):
                values = [*_chunk_cells(chunk.dictionary), None]
                cells += [values[-1 if number is None else number] for number in chunk.indices.to_pylist()]
            else:
                cells += _chunk_cells(chunk)
        except UnicodeDecodeError:
            raise InputError(f"column {name!r} contains text that is not UTF-8") from None
        except (pyarrow.ArrowException, OverflowError, ValueError) as error:
            raise InputError(f"cannot read column {name!r}: {str(error).splitlines()[0]}") from None
    return cells


def _chunk_cells(chunk: Any) -> list[Any]:
    pyarrow = _pyarrow()
    try:
        return [_without_pandas(cell) for cell in chunk.to_pylist()]
    except (OverflowError, ValueError):
        if not pyarrow.types.is_temporal(chunk.type):
            raise
        return list(chunk.cast(pyarrow.string()).to_pylist())


def _without_pandas(cell: Any) -> Any:
    """Return a time as a Python object; where pandas is installed, pyarrow returns pandas times with nanoseconds."""
    for convert, rest in (("to_pydatetime", "nanosecond"), ("to_pytimedelta", "nanoseconds")):
        if hasattr(cell, convert):
            if getattr(cell, rest):
                raise ValueError("Python times have no nanoseconds")
            return getattr(cell, convert)()
    return cell


def _writable(values: Any) -> Any:
    """Copy an array that shares read-only memory with pyarrow."""
    return values if values.flags.writeable else values.copy()


def _flatten_lists(name: str, column: Any, budget: Budget) -> tuple[Any, Any]:
    """Return the start of each row's list, and the entries of all lists."""
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {name!r} has no value in row {missing}")
    compute = _pyarrow("pyarrow.compute")
    lengths = compute.list_value_length(column).to_numpy()
    flat = compute.list_flatten(column)
    values = budget.strings(to_cells(name, flat)) if _is_text(flat.type) else _writable(flat.to_numpy())
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values
