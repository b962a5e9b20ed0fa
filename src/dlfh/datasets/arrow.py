"""Arrow tables in ``.arrow`` and ``.feather`` files, in the file or the stream format.

The file format is a stream between magic bytes, with an index at the end that is not needed to read everything. pyarrow
trusts its input, so three things are checked first: the stated sizes of compressed buffers, the offsets, and the number
of values that a few bytes encode.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import Budget
from dlfh._optional import require
from dlfh.errors import InputError

#: Feather version 2 is the same format.
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather")

_FILE_MAGIC, _FEATHER_1 = b"ARROW1\0\0", b"FEA1"
#: Types of messages that have a body.
_DICTIONARY, _RECORDS = 2, 3
#: Approximate memory of a Python value in bytes.
_VALUE_BYTES = 32


def read_arrow(file: Path, budget: Budget) -> Any:
    """Return a pyarrow table within the budget."""
    pyarrow, ipc = _pyarrow(), _pyarrow("pyarrow.ipc")
    content = file.read_bytes()
    if content.startswith(_FEATHER_1):
        raise InputError("it is in Feather version 1: write it again in version 2")
    stream = pyarrow.py_buffer(content)
    if content.startswith(_FILE_MAGIC):
        stream = stream.slice(len(_FILE_MAGIC))
    for message in _messages(ipc, stream):
        budget.take_bytes(_unpacked_bytes(message.metadata.to_pybytes(), memoryview(message.body or b"")))
    with ipc.open_stream(stream) as reader:
        budget.take_objects(len(reader.schema))
        batches = []
        for batch in reader:
            batch.validate(full=True)
            budget.take_bytes(batch.nbytes + _VALUE_BYTES * sum(map(_n_values, batch.columns)))
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, reader.schema)


def _pyarrow(module: str = "pyarrow") -> Any:
    return require(module, "reading Arrow files", "parquet")


def _messages(ipc: Any, stream: Any) -> Any:
    reader = ipc.MessageReader.open_stream(stream)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _unpacked_bytes(metadata: bytes, body: memoryview) -> int:
    """Return the stated size of a message's compressed buffers; each begins with its size in 8 bytes."""
    message = _FlatTable(metadata, *struct.unpack_from("<I", metadata))
    kind, header = message.byte(1), message.table(2)
    if kind == _DICTIONARY and header is not None:
        header = header.table(1)
    if kind not in (_DICTIONARY, _RECORDS) or header is None or header.table(3) is None:
        return 0
    sizes = 0
    for offset, length in header.pairs(2):
        if length >= 8 and 0 <= offset <= len(body) - 8:
            sizes += max(0, *struct.unpack_from("<q", body, offset))
    return sizes


class _FlatTable:
    """A FlatBuffers table at an offset of a message; pyarrow has already validated the message."""

    def __init__(self, content: bytes, place: int) -> None:
        self._content = content
        self._place = place

    def _field(self, number: int) -> int | None:
        """Return the offset of a field, if the table has it."""
        (back,) = struct.unpack_from("<i", self._content, self._place)
        vtable, entry = self._place - back, 4 + 2 * number
        (length,) = struct.unpack_from("<H", self._content, vtable)
        if entry >= length:
            return None
        (offset,) = struct.unpack_from("<H", self._content, vtable + entry)
        return self._place + offset if offset else None

    def _target(self, number: int) -> int | None:
        place = self._field(number)
        return None if place is None else place + int(*struct.unpack_from("<I", self._content, place))

    def byte(self, number: int) -> int:
        place = self._field(number)
        return 0 if place is None else self._content[place]

    def table(self, number: int) -> _FlatTable | None:
        place = self._target(number)
        return None if place is None else _FlatTable(self._content, place)

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a list of pairs of 64-bit integers."""
        place = self._target(number)
        if place is None:
            return []
        (n,) = struct.unpack_from("<I", self._content, place)
        flat = struct.unpack_from(f"<{2 * n}q", self._content, place + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def _n_values(column: Any) -> int:
    """Return the number of values in a column, including list elements and the bytes of texts that may overlap."""
    types = _pyarrow().types
    kind = column.type
    if types.is_dictionary(kind):
        return len(column) + _n_values(column.dictionary)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or types.is_map(kind):
        return len(column) + (_n_values(column.flatten()) if not types.is_map(kind) else len(column.items))
    if types.is_struct(kind):
        return len(column) + sum(_n_values(column.field(number)) for number in range(kind.num_fields))
    if "view" in str(kind):
        if types.is_nested(kind):
            raise InputError(f"columns of type {kind} are not supported")
        lengths = np.frombuffer(column.buffers()[1], np.int32)[::4] if len(column) else np.empty(0, np.int32)
        return len(column) + int(np.maximum(lengths, 0).sum(dtype=np.int64))
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise InputError(f"columns of type {kind} are not supported")
    return len(column)
