"""Tables of Arrow in files: what `.arrow` and `.feather` files hold, as a file or as a stream.

A file is a stream between marks, with an index at its end, which is not needed to read all of it. Arrow trusts what it
reads, so three things are looked at before: how much compressed parts say that they will take, whether offsets lead
where there is something, and how many values a few bytes stand for.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import Budget
from dlfh._optional import require
from dlfh.errors import InputError

__all__ = ["ARROW_SUFFIXES", "read_arrow"]

#: Feather, since its second version, is another name of the same.
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather")

_FILE_MARK, _OLD_FEATHER = b"ARROW1\0\0", b"FEA1"
#: The kinds of messages that have a body, by what the format calls their number.
_DICTIONARY, _RECORDS = 2, 3
#: About how much memory a value takes as Python has it.
_VALUE_BYTES = 32


def read_arrow(file: Path, budget: Budget) -> Any:
    """Return a table as pyarrow has it; no more of it than the budget allows."""
    pyarrow, ipc = _pyarrow(), _pyarrow("pyarrow.ipc")
    content = file.read_bytes()
    if content.startswith(_OLD_FEATHER):
        raise InputError("it is of the first version of Feather: write it again with a newer one")
    stream = pyarrow.py_buffer(content)
    if content.startswith(_FILE_MARK):
        stream = stream.slice(len(_FILE_MARK))
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
    return require(module, "reading a file of Arrow", "parquet")


def _messages(ipc: Any, stream: Any) -> Any:
    reader = ipc.MessageReader.open_stream(stream)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _unpacked_bytes(metadata: bytes, body: memoryview) -> int:
    """Return how much a message's compressed buffers say that they take: each begins with a number of 8 bytes."""
    message = _Part.root(metadata)
    kind, header = message.byte(1), message.part(2)
    if kind == _DICTIONARY and header is not None:
        header = header.part(1)
    if kind not in (_DICTIONARY, _RECORDS) or header is None or header.part(3) is None:
        return 0
    sizes = 0
    for offset, length in header.pairs(2):
        if length >= 8 and 0 <= offset <= len(body) - 8:
            sizes += max(0, *struct.unpack_from("<q", body, offset))
    return sizes


class _Part:
    """A table of FlatBuffers, in which messages are written; pyarrow has looked at it before.

    Parameters
    ----------
    content : bytes
    place : int
        Where the table is.
    """

    def __init__(self, content: bytes, place: int) -> None:
        self._content = content
        self._place = place

    @classmethod
    def root(cls, content: bytes) -> _Part:
        return cls(content, *struct.unpack_from("<I", content))

    def _field(self, number: int) -> int | None:
        """Return where a field is, if the table has it."""
        (back,) = struct.unpack_from("<i", self._content, self._place)
        list_of_fields, entry = self._place - back, 4 + 2 * number
        (length,) = struct.unpack_from("<H", self._content, list_of_fields)
        if entry >= length:
            return None
        (offset,) = struct.unpack_from("<H", self._content, list_of_fields + entry)
        return self._place + offset if offset else None

    def _followed(self, number: int) -> int | None:
        place = self._field(number)
        return None if place is None else place + int(*struct.unpack_from("<I", self._content, place))

    def byte(self, number: int) -> int:
        place = self._field(number)
        return 0 if place is None else self._content[place]

    def part(self, number: int) -> _Part | None:
        place = self._followed(number)
        return None if place is None else _Part(self._content, place)

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a list of pairs of 64-bit integers."""
        place = self._followed(number)
        if place is None:
            return []
        (n,) = struct.unpack_from("<I", self._content, place)
        flat = struct.unpack_from(f"<{2 * n}q", self._content, place + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def _n_values(column: Any) -> int:
    """Return how many values a column has, those in its lists and the bytes of texts that may overlap included."""
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
            raise InputError(f"it has a column of the type {kind}, which is not read")
        lengths = np.frombuffer(column.buffers()[1], np.int32)[::4] if len(column) else np.empty(0, np.int32)
        return len(column) + int(np.maximum(lengths, 0).sum(dtype=np.int64))
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise InputError(f"it has a column of the type {kind}, which is not read")
    return len(column)
