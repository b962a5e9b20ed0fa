"""Parquet and Arrow files, through pyarrow.

A Parquet file of arrays has one row per point, and matrices as list columns. A sparse matrix takes two list columns,
``name.columns`` and ``name.values``, with the indices and values of the non-zero entries of each row. The table's
metadata contain its width, and scalar strings.

An Arrow file is a stream between magic bytes, followed by an index, which sequential reading does not need. pyarrow
trusts its input, so three things are checked first: the declared sizes of compressed buffers, the offsets, and the
number of values, since a few bytes can encode many.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._imports import require
from dlfh._limits import Budget
from dlfh._sparse import rows_from_parts
from dlfh.errors import InputError

ARROW_SUFFIXES = (".arrow", ".arrows", ".feather")  #: Feather version 2 is the same format.
_FILE_MAGIC, _FEATHER_1 = b"ARROW1\0\0", b"FEA1"
_DICTIONARY, _RECORDS = 2, 3  #: Types of messages that have a body.
_VALUE_BYTES = 32  #: Approximate memory of a Python value in bytes.
_METADATA = b"dlfh"  #: Key of the library's metadata in a Parquet file.
_BATCH_ROWS = 16384  #: Rows read before the budget is checked again.


def _pyarrow(module: str = "pyarrow") -> Any:
    return require(module, "reading or writing Parquet and Arrow files", "parquet")


def _is_text(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def read_parquet_table(file: Path, budget: Budget) -> Any:
    """Return a pyarrow table within the budget; text columns are dictionary-encoded."""
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(file) as stored:
        texts = [field.name for field in stored.schema_arrow if _is_text(field.type)]
    with parquet.ParquetFile(file, read_dictionary=texts) as stored:
        n_columns = stored.metadata.num_columns
        budget.take_objects(n_columns)
        n_values = 0  # a byte can encode a million equal numbers
        for number in range(n_columns):
            # List columns are scanned, which takes little memory. Column statistics would be quicker, but pyarrow
            # aborts the process if they are damaged.
            in_lists = stored.schema.column(number).max_repetition_level
            n_values += stored.reader.scan_contents([number], _BATCH_ROWS) if in_lists else stored.metadata.num_rows
        budget.check_bytes(4 * n_values)
        batches = []
        for batch in stored.iter_batches(_BATCH_ROWS, use_threads=False):
            budget.take_bytes(batch.nbytes)
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, stored.schema_arrow)


def read_arrow_table(file: Path, budget: Budget) -> Any:
    """Return a pyarrow table within the budget, from the file or the stream format."""
    pyarrow, ipc = _pyarrow(), _pyarrow("pyarrow.ipc")
    content = file.read_bytes()
    if content.startswith(_FEATHER_1):
        raise InputError("it is in Feather version 1: write it again in version 2")
    stream = pyarrow.py_buffer(content)
    if content.startswith(_FILE_MAGIC):
        stream = stream.slice(len(_FILE_MAGIC))
    with suppress(StopIteration):
        messages = ipc.MessageReader.open_stream(stream)
        while True:
            message = messages.read_next_message()
            budget.take_bytes(_unpacked_bytes(message.metadata.to_pybytes(), memoryview(message.body or b"")))
    with ipc.open_stream(stream) as reader:
        budget.take_objects(len(reader.schema))
        batches = []
        for batch in reader:
            batch.validate(full=True)
            budget.take_bytes(batch.nbytes + _VALUE_BYTES * sum(map(_n_values, batch.columns)))
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, reader.schema)


def _unpacked_bytes(metadata: bytes, body: memoryview) -> int:
    """Return the total declared size of a message's compressed buffers; each begins with its size in 8 bytes."""
    message = _FlatTable(metadata, *struct.unpack_from("<I", metadata))
    kind, header = message.field(1), message.table(2)
    if kind is None or metadata[kind] not in (_DICTIONARY, _RECORDS):
        return 0
    if metadata[kind] == _DICTIONARY and header is not None:
        header = header.table(1)
    if header is None or header.table(3) is None:
        return 0
    return sum(
        max(0, *struct.unpack_from("<q", body, offset))
        for offset, length in header.pairs(2)
        if length >= 8 and 0 <= offset <= len(body) - 8
    )


class _FlatTable(NamedTuple):
    """A FlatBuffers table at an offset of a message; pyarrow has already validated the message."""

    content: bytes
    place: int

    def field(self, number: int) -> int | None:
        """Return the offset of a field, if the table has it."""
        (back,) = struct.unpack_from("<i", self.content, self.place)
        vtable, entry = self.place - back, 4 + 2 * number
        (length,) = struct.unpack_from("<H", self.content, vtable)
        (offset,) = struct.unpack_from("<H", self.content, vtable + entry) if entry < length else (0,)
        return self.place + offset if offset else None

    def table(self, number: int) -> _FlatTable | None:
        """Return the table or list to which a field refers."""
        if (place := self.field(number)) is None:
            return None
        (offset,) = struct.unpack_from("<I", self.content, place)
        return _FlatTable(self.content, place + offset)

    def pairs(self, number: int) -> list[tuple[int, int]]:
        if (found := self.table(number)) is None:
            return []
        (n,) = struct.unpack_from("<I", self.content, found.place)
        return list(struct.iter_unpack("<2q", self.content[found.place + 4 : found.place + 4 + 16 * n]))


def _n_values(column: Any) -> int:
    """Return the number of values in a column, plus list elements, plus bytes of string views, which may overlap."""
    types = _pyarrow().types
    kind = column.type
    if types.is_dictionary(kind):
        return len(column) + _n_values(column.dictionary)
    if types.is_map(kind):
        return len(column) + len(column.items)
    if _is_list(kind):
        return len(column) + _n_values(column.flatten())
    if types.is_struct(kind):
        return len(column) + sum(_n_values(column.field(number)) for number in range(kind.num_fields))
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise InputError(f"columns of type {kind} are not supported")
    if "view" not in str(kind) or not len(column):
        return len(column)
    lengths = np.frombuffer(column.buffers()[1], np.int32)[::4]
    return len(column) + int(np.maximum(lengths, 0).sum(dtype=np.int64))


def to_cells(name: str, column: Any) -> list[Any]:
    """Return a column as Python values; equal values of a dictionary-encoded column share one object."""
    # Times that Python cannot represent (nanoseconds, other millennia) become strings.
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
    try:
        return [_without_pandas(cell) for cell in chunk.to_pylist()]
    except (OverflowError, ValueError):
        if not _pyarrow().types.is_temporal(chunk.type):
            raise
        return list(chunk.cast("string").to_pylist())


def _without_pandas(cell: Any) -> Any:
    """Return a time as a Python object; if pandas is installed, pyarrow returns nanosecond times as pandas objects."""
    for convert, rest in (("to_pydatetime", "nanosecond"), ("to_pytimedelta", "nanoseconds")):
        if hasattr(cell, convert):
            if getattr(cell, rest):
                raise ValueError("Python times have no nanoseconds")
            return getattr(cell, convert)()
    return cell


def read_parquet(file: Path, budget: Budget) -> dict[str, Any]:
    """Return the columns as arrays: lists of equal length as matrices, numbers and strings as vectors."""
    table = read_parquet_table(file, budget)
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
            parts = {"data": values, "indices": indices, "indptr": starts}
            arrays[stem] = rows_from_parts(repr(stem), parts, (len(starts) - 1, widths[stem]))
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
    is_column = array.ndim == 1 or (array.ndim == 2 and array.shape[1] and array.dtype.kind != "U")
    if not is_column or array.dtype.kind == "c":
        raise InputError(f"array {name!r} cannot be a table column: shape {array.shape}, type {array.dtype}")
    flat = pyarrow.array(np.ascontiguousarray(array).ravel())
    return {name: flat if array.ndim == 1 else pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])}


def _to_array(name: str, column: Any, budget: Budget) -> Any:
    if _is_list(column.type):
        starts, flat = _flatten_lists(name, column, budget)
        lengths = np.unique(np.diff(starts))
        if len(lengths) == 1 and flat.dtype.kind in "biuf":
            return flat.reshape(len(starts) - 1, lengths[0])
        budget.take_objects(len(starts))
        rows = np.empty(len(starts) - 1, object)
        for row in range(len(rows)):
            rows[row] = flat[starts[row] : starts[row + 1]]
        return rows
    is_dictionary = _pyarrow().types.is_dictionary(column.type)
    if _is_text(column.type.value_type if is_dictionary else column.type):
        texts = to_cells(name, column)
        return np.array(texts, object) if None in texts else budget.strings(texts)
    return _writable(column.cast(column.type.value_type) if is_dictionary else column)


def _writable(column: Any) -> Any:
    """Return the values of a column; an array that shares read-only memory with pyarrow is copied."""
    return np.require(column.to_numpy(), requirements="W")


def _flatten_lists(name: str, column: Any, budget: Budget) -> tuple[Any, Any]:
    """Return the start of each row's list, and the entries of all lists."""
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {name!r} has no value in row {missing}")
    compute = _pyarrow("pyarrow.compute")
    lengths = compute.list_value_length(column).to_numpy()
    flat = compute.list_flatten(column)
    values = budget.strings(to_cells(name, flat)) if _is_text(flat.type) else _writable(flat)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values
