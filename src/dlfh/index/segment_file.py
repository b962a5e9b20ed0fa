"""Segments and removed rows as files: raw arrays, one after another, read or mapped into memory.

A mapped file that somebody cuts short ends the process that looks at the part that is gone (SIGBUS), and nothing in
Python can prevent it. So small files are read, large ones are mapped, and their sizes are looked at before they are
used anew. The manifest holds the sizes, from which the places of all sections follow, and their checksums (CRC-32).
Nothing that a file says is used before it is checked.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh._persistence.files import open_regular, replace_file
from dlfh.codes import n_bytes
from dlfh.errors import StorageError
from dlfh.index.manifest import RemovedRecord, SegmentRecord
from dlfh.index.segment import ABSENT, STATES, Segment, metadata_check
from dlfh.index.strings import HashTable, Strings

__all__ = [
    "check_checksums",
    "check_deeply",
    "check_sizes",
    "read_removed",
    "read_segment",
    "write_removed",
    "write_segment",
]

_ALIGNMENT = 64
#: Larger files are mapped, so that opening a large index is quick, and processes share its memory.
_MOST_READ = 1 << 24
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
    """Read or map a segment, and check that it is safe to use; with ``verify``, that it is as written."""
    sections = _sections_of(record, n_bits)
    content = _content(folder / record.file, _size(sections), folder)
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


def _sections_of(record: SegmentRecord, n_bits: int) -> list[_Section]:
    return _sections(record.rows, record.codes, record.id_bytes, record.metadata_bytes, n_bits)


@functools.lru_cache
def _file_size(record: SegmentRecord, n_bits: int) -> int:
    return _size(_sections_of(record, n_bits))


def _size(sections: list[_Section]) -> int:
    return _ALIGNMENT + sum(section.padded for section in sections)


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


def check_sizes(folder: Path, record: SegmentRecord, removed: RemovedRecord | None, n_bits: int) -> None:
    """Check that the files of a segment are there and of their sizes, which costs next to nothing."""
    sizes = {record.file: _file_size(record, n_bits)}
    if removed is not None:
        sizes[removed.file] = -(-record.rows // 8)
    for name, size in sizes.items():
        _check_size(os.stat(folder / name).st_size, size, name, folder)


def check_checksums(segment: Segment, record: SegmentRecord, n_bits: int) -> None:
    """Check that all of a segment is as it was written, before it is copied and signed anew."""
    for section, array, checksum in zip(_sections_of(record, n_bits), _arrays(segment), record.checksums, strict=True):
        if zlib.crc32(array.reshape(-1).view(np.uint8).data) != checksum:
            raise StorageError(f"the index is damaged: {record.file} does not match its checksum ({section.name})")


def check_deeply(folder: Path, record: SegmentRecord, n_bits: int) -> Segment:
    """Return a segment after every byte of its file was checked, and what depends on what in it."""
    segment = read_segment(folder, record, n_bits, verify=True)
    _check_padding(folder, record, n_bits)
    if segment.metadata is not None and zlib.crc32(segment.metadata.blob.data) != record.checksums[-1]:
        raise _damaged(folder, record.file, "does not match its checksum (metadata)")
    _check_metadata(segment, folder, record.file)
    expected = HashTable.of(segment.ids)
    if not np.array_equal(expected.hashes, segment.table.hashes) or not np.array_equal(
        expected.rows, segment.table.rows
    ):
        raise _damaged(folder, record.file, "has a table of ids that does not fit them")
    if (segment.states == ABSENT).all(axis=0).any():
        raise _damaged(folder, record.file, "has an item without a code")
    unused = np.uint8((1 << -n_bits % 8) - 1)
    if any((codes[:, -1] & unused).any() for codes in segment.codes):
        raise _damaged(folder, record.file, f"has codes of more than {n_bits} bits")
    return segment


def _check_padding(folder: Path, record: SegmentRecord, n_bits: int) -> None:
    sections = _sections_of(record, n_bits)
    content = _content(folder / record.file, _size(sections), folder)
    end = _ALIGNMENT
    for section in sections:
        if content[end + section.size : end + section.padded].any():
            raise _damaged(folder, record.file, f"has bytes between its sections (after {section.name})")
        end += section.padded


def _check_metadata(segment: Segment, folder: Path, file: str) -> None:
    """Check that the metadata of each item match their own checksum, and are what an item can have."""
    if segment.metadata is None or segment.metadata_checks is None:
        return
    for row, checksum in enumerate(segment.metadata_checks.tolist()):
        identifier, text = segment.ids[row], segment.metadata[row]
        try:
            sound = metadata_check(identifier, text) == checksum and (not text or isinstance(json.loads(text), dict))
        except (ValueError, RecursionError):
            sound = False
        if not sound:
            raise _damaged(folder, file, f"has damaged metadata of {identifier.decode()!r}")


def write_removed(folder: Path, removed: npt.NDArray[np.bool_]) -> RemovedRecord:
    """Write which rows of a segment are removed, as a bitmap under a new name."""
    bitmap = np.packbits(removed).tobytes()
    name = f"removed-{secrets.token_hex(8)}.dlfh"
    replace_file(folder / name, [bitmap])
    return RemovedRecord(name, int(removed.sum()), zlib.crc32(bitmap))


def read_removed(folder: Path, record: RemovedRecord, rows: int) -> npt.NDArray[np.bool_]:
    """Return which rows of a segment are removed."""
    bitmap = _content(folder / record.file, -(-rows // 8), folder)
    if zlib.crc32(bitmap.data) != record.checksum:
        raise _damaged(folder, record.file, "does not match its checksum")
    bits = np.unpackbits(bitmap).astype(bool)
    removed = bits[:rows]
    if bits.sum() != record.rows or removed.sum() != record.rows:
        raise _damaged(folder, record.file, "does not remove as many rows as it should")
    return removed


def _content(path: Path, size: int, folder: Path) -> npt.NDArray[np.uint8]:
    with open_regular(path) as file:
        _check_size(os.fstat(file.fileno()).st_size, size, path.name, folder)
        if size > _MOST_READ:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        space = np.empty(size + _ALIGNMENT, np.uint8)
        start = -space.ctypes.data % _ALIGNMENT
        content = space[start : start + size]
        _check_size(file.readinto(content.data), size, path.name, folder)  # type: ignore[attr-defined]
        content.flags.writeable = False
        return content


def _check_size(actual: int, size: int, name: str, folder: Path) -> None:
    if actual != size:
        raise _damaged(folder, name, f"has {actual:,} bytes instead of {size:,}")


def _damaged(folder: Path, file: str, what: str) -> StorageError:
    return StorageError(f"index {folder} is damaged: {file} {what}")
