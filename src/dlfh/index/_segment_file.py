"""Segments and removed rows as files: raw arrays, one after another, mapped into memory to read.

The manifest holds the sizes, from which the places of all sections follow, and their checksums (CRC-32).
Nothing that a file says is used before it is checked.
"""

from __future__ import annotations

import mmap
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh.codes import n_bytes
from dlfh.errors import StorageError
from dlfh.index._manifest import RemovedRecord, SegmentRecord
from dlfh.index._segment import STATES, Segment
from dlfh.index._strings import HashTable, Strings
from dlfh.persistence._files import replace_file

__all__ = ["check_deeply", "read_removed", "read_segment", "write_removed", "write_segment"]

_ALIGNMENT = 64
_HEADER = b"dlfh index segment 1\n".ljust(_ALIGNMENT, b"\0")


class _Section(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        size = np.dtype(self.dtype).itemsize
        for extent in self.shape:
            size *= extent
        return size

    @property
    def padded(self) -> int:
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT


def _sections(rows: int, codes: tuple[int, ...], id_bytes: int, metadata_bytes: int, n_bits: int) -> list[_Section]:
    sections = [_Section(f"codes {m}", "u1", (count, n_bytes(n_bits))) for m, count in enumerate(codes)]
    sections += [
        _Section("states", "u1", (len(codes), rows)),
        _Section("id offsets", "<i8", (rows + 1,)),
        _Section("ids", "u1", (id_bytes,)),
        _Section("id hashes", "<u8", (rows,)),
        _Section("rows of id hashes", "<u4", (rows,)),
    ]
    if metadata_bytes:
        sections += [
            _Section("metadata offsets", "<i8", (rows + 1,)),
            _Section("metadata checksums", "<u4", (rows,)),
            _Section("metadata", "u1", (metadata_bytes,)),
        ]
    return sections


def _arrays(segment: Segment) -> list[npt.NDArray[Any]]:
    arrays: list[npt.NDArray[Any]] = [*segment.codes, segment.states, segment.ids.offsets, segment.ids.blob]
    arrays += [segment.table.hashes, segment.table.rows]
    if segment.metadata is not None and segment.metadata_checks is not None:
        arrays += [segment.metadata.offsets, segment.metadata_checks, segment.metadata.blob]
    return arrays


def write_segment(folder: Path, segment: Segment, n_bits: int) -> SegmentRecord:
    """Write a segment under a new name."""
    counts = tuple(map(len, segment.codes))
    metadata_bytes = 0 if segment.metadata is None else len(segment.metadata.blob)
    sizes = (len(segment), counts, len(segment.ids.blob), metadata_bytes)
    sections = _sections(*sizes, n_bits)
    arrays = _arrays(segment)[: len(sections)]
    stored = [
        np.ascontiguousarray(array, section.dtype).reshape(-1).view(np.uint8)
        for section, array in zip(sections, arrays, strict=True)
    ]
    name = f"segment-{secrets.token_hex(8)}.dlfh"

    def content() -> Iterator[bytes | memoryview]:
        yield _HEADER
        for section, array in zip(sections, stored, strict=True):
            yield array.data
            yield bytes(section.padded - section.size)

    replace_file(folder / name, content())
    return SegmentRecord(name, *sizes, tuple(zlib.crc32(array.data) for array in stored))


def read_segment(folder: Path, record: SegmentRecord, n_bits: int, *, verify: bool) -> Segment:
    """Map a segment into memory, and check that it is safe to use; with ``verify``, that it is as written."""
    sections = _sections(record.rows, record.codes, record.id_bytes, record.metadata_bytes, n_bits)
    content = _map(folder / record.file, _ALIGNMENT + sum(section.padded for section in sections), folder)
    if len(record.checksums) != len(sections) or content[:_ALIGNMENT].tobytes() != _HEADER:
        raise _damaged(folder, record.file, "is not a segment")
    arrays, start = {}, _ALIGNMENT
    for section, checksum in zip(sections, record.checksums, strict=True):
        raw = content[start : start + section.size]
        if verify and section.name != "metadata" and zlib.crc32(raw.data) != checksum:
            raise _damaged(folder, record.file, f"does not match its checksum ({section.name})")
        arrays[section.name] = raw.view(section.dtype).reshape(section.shape)
        start += section.padded
    ids = Strings(arrays["id offsets"], arrays["ids"])
    metadata = Strings(arrays["metadata offsets"], arrays["metadata"]) if record.metadata_bytes else None
    table = HashTable(arrays["id hashes"], arrays["rows of id hashes"])
    codes = tuple(arrays[f"codes {m}"] for m in range(len(record.codes)))
    segment = Segment(ids, table, arrays["states"], codes, metadata, arrays.get("metadata checksums"))
    _check_structure(segment, folder, record.file)
    return segment


def _check_structure(segment: Segment, folder: Path, file: str) -> None:
    """Check all that indexes memory, and that ids are text."""
    for strings in (segment.ids, segment.metadata):
        if strings is not None and not _well_formed(strings):
            raise _damaged(folder, file, "has offsets out of range")
    ids = segment.ids
    if (ids.offsets[1:] == ids.offsets[:-1]).any():
        raise _damaged(folder, file, "has an empty id")
    try:
        ids.blob.tobytes().decode()
    except UnicodeDecodeError:
        raise _damaged(folder, file, "has ids that are not UTF-8") from None
    if ((ids.blob[ids.offsets[:-1]] & 0xC0) == 0x80).any():
        raise _damaged(folder, file, "has ids that are not UTF-8")
    if segment.table.rows.max() >= len(segment):
        raise _damaged(folder, file, "has rows out of range")
    for states, codes in zip(segment.states, segment.codes, strict=True):
        if states.max() >= len(STATES) or np.count_nonzero(states) != len(codes):
            raise _damaged(folder, file, "has states that do not fit its codes")


def _well_formed(strings: Strings) -> bool:
    offsets = strings.offsets
    return bool(offsets[0] == 0 and offsets[-1] == len(strings.blob) and (offsets[1:] >= offsets[:-1]).all())


def check_deeply(folder: Path, record: SegmentRecord, n_bits: int) -> None:
    """Check every byte of a segment file, and what depends on what in it."""
    segment = read_segment(folder, record, n_bits, verify=True)
    if segment.metadata is not None and zlib.crc32(segment.metadata.blob.data) != record.checksums[-1]:
        raise _damaged(folder, record.file, "does not match its checksum (metadata)")
    expected = HashTable.of(segment.ids)
    if not np.array_equal(expected.hashes, segment.table.hashes) or not np.array_equal(
        expected.rows, segment.table.rows
    ):
        raise _damaged(folder, record.file, "has a table of ids that does not fit them")
    unused = np.uint8((1 << -n_bits % 8) - 1)
    if any((codes[:, -1] & unused).any() for codes in segment.codes):
        raise _damaged(folder, record.file, f"has codes of more than {n_bits} bits")


def write_removed(folder: Path, removed: npt.NDArray[np.bool_]) -> RemovedRecord:
    """Write which rows of a segment are removed, as a bitmap under a new name."""
    bitmap = np.packbits(removed).tobytes()
    name = f"removed-{secrets.token_hex(8)}.dlfh"
    replace_file(folder / name, [bitmap])
    return RemovedRecord(name, int(removed.sum()), zlib.crc32(bitmap))


def read_removed(folder: Path, record: RemovedRecord, rows: int) -> npt.NDArray[np.bool_]:
    """Return which rows of a segment are removed."""
    bitmap = (folder / record.file).read_bytes()
    if len(bitmap) != -(-rows // 8) or zlib.crc32(bitmap) != record.checksum:
        raise _damaged(folder, record.file, "does not match its checksum")
    removed = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=rows).astype(bool)
    if removed.sum() != record.rows:
        raise _damaged(folder, record.file, "does not remove as many rows as it should")
    return removed


def _map(path: Path, size: int, folder: Path) -> npt.NDArray[np.uint8]:
    with open(path, "rb") as file:
        actual = file.seek(0, 2)
        if actual != size:
            raise _damaged(folder, path.name, f"has {actual:,} bytes instead of {size:,}")
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _damaged(folder: Path, file: str, what: str) -> StorageError:
    return StorageError(f"index {folder} is damaged: {file} {what}")
