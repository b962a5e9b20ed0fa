"""The files of an index folder: a manifest that lists the others, segments, and the rows removed from them.

Replacing the manifest commits a change. Segments are raw arrays, one after another, read or memory-mapped. Truncating a
mapped file kills processes that access the missing part (SIGBUS), which Python cannot prevent. So small files are read,
and the sizes of large ones, which are mapped, are checked before each use. The manifest has the sizes, which determine
the offsets of all sections, and the checksums (CRC-32). Nothing in a file is used before it is checked.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import mmap
import os
import re
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Mask
from dlfh._persistence.files import open_regular, read_regular, replace_file, version_problem
from dlfh._validation import check_integer
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import check_layout
from dlfh.index.segment import ABSENT, STATES, Segment
from dlfh.index.words import Strings, Words

#: Incremented when older versions of the library cannot read new files.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "dlfh-index"
#: Names of the files of an index. Files with other names are never deleted.
FILE_NAME = re.compile(r"(segment|removed)-[0-9a-f]{16}\.dlfh")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_MAX_ROWS = 2**32 - 1
_MAX_BYTES = 1 << 26
ALIGNMENT = 64
#: Larger files are mapped, so that a large index opens quickly and processes share its memory.
_MAX_READ = 1 << 24
_HEADER = b"dlfh index segment 1\n".ljust(ALIGNMENT, b"\0")


@dataclass(frozen=True)
class RemovedRecord:
    """The file that marks the removed rows of a segment."""

    file: str
    rows: int
    checksum: int


@dataclass(frozen=True)
class WordsRecord:
    """The sizes of the postings of a segment."""

    columns: int
    terms: int
    term_bytes: int
    postings: int


@dataclass(frozen=True)
class SegmentRecord:
    """The files of a segment, and the sizes and checksums of its sections."""

    file: str
    rows: int
    codes: tuple[int, ...]
    id_bytes: int
    metadata_bytes: int
    checksums: tuple[int, ...]
    removed: RemovedRecord | None = None
    words: WordsRecord | None = None


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest. The identity is drawn when an index is created, and does not change."""

    identity: str
    n_bits: int
    modalities: tuple[str, ...]
    generation: int = 0
    segments: tuple[SegmentRecord, ...] = ()
    texts: tuple[str, ...] = ()  # names of the metadata whose words are indexed

    @functools.cached_property
    def content(self) -> bytes:
        """The bytes of the file, a function of the fields."""
        body = asdict(self)
        for entry in (body, *body["segments"]) if not self.texts else ():  # without texts, both are omitted
            entry.pop("texts", None), entry.pop("words", None)
        header = {"format": _FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(body)}
        return json.dumps({**header, "index": body}, indent=1).encode()

    @property
    def state(self) -> str:
        """An identifier of the content of the index. It is unique, since file names are random."""
        return f"{self.identity}-{hashlib.sha256(self.content).hexdigest()}"

    def files(self) -> set[str]:
        """Return the names of all files of the index except the manifest."""
        removed = {record.removed.file for record in self.segments if record.removed is not None}
        return {record.file for record in self.segments} | removed


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder atomically."""
    replace_file(folder / MANIFEST, [manifest.content])


def is_current(folder: Path, manifest: Manifest) -> bool:
    """Return whether a folder has this manifest."""
    return _read(folder) == manifest.content


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; raise `StorageError` if it is missing or damaged."""
    content = _read(folder)
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(folder, MANIFEST, "is not valid JSON") from None
    if not isinstance(parsed, dict) or parsed.get("format") != _FORMAT:
        raise StorageError(f"{folder} is not an index: its {MANIFEST} was not written by dlfh")
    problem = version_problem(parsed.get("format_version"), FORMAT_VERSION)
    if problem is not None:
        raise StorageError(f"index {folder} {problem}")
    try:
        manifest = _parse(parsed["index"]) if parsed["checksum"] == _checksum(parsed["index"]) else None
    except (InputError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise _damaged(folder, MANIFEST, "does not describe an index") from None
    if manifest is None:
        raise _damaged(folder, MANIFEST, "does not match its checksum")
    if manifest.content != content:
        raise _damaged(folder, MANIFEST, "was changed after it was written")
    return manifest


def _read(folder: Path) -> bytes:
    if not folder.exists():
        raise StorageError(f"there is no index at {folder}: no such folder")
    if not folder.is_dir():
        raise StorageError(f"there is no index at {folder}: it is a file, and an index is a folder")
    try:
        return read_regular(folder / MANIFEST, _MAX_BYTES)
    except FileNotFoundError:
        raise StorageError(f"{folder} is not an index: it has no {MANIFEST}") from None
    except OSError:
        raise StorageError(f"{folder} is not an index: its {MANIFEST} cannot be read") from None


def _checksum(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _parse(body: dict[str, Any]) -> Manifest:
    n_bits, modalities = check_layout(body["n_bits"], body["modalities"])
    texts = check_layout(n_bits, body["texts"])[1] if "texts" in body else ()
    segments = tuple(_parse_segment(entry, len(modalities), len(texts)) for entry in body["segments"])
    generation = check_integer(body["generation"], "generation", 0)
    manifest = Manifest(body["identity"], n_bits, modalities, generation, segments, texts)
    n_files = sum(1 if record.removed is None else 2 for record in segments)
    if len(manifest.files()) < n_files or not _IDENTITY.fullmatch(manifest.identity):
        raise InputError("duplicate file or invalid identity")
    return manifest


def _parse_segment(entry: dict[str, Any], n_modalities: int, n_texts: int) -> SegmentRecord:
    rows = check_integer(entry["rows"], "rows", 1, _MAX_ROWS)
    codes = tuple(check_integer(count, "codes", 0, rows) for count in entry["codes"])
    if len(codes) != n_modalities:
        raise InputError("codes must have one count for each modality")
    id_bytes = check_integer(entry["id_bytes"], "id_bytes", rows)
    metadata_bytes = check_integer(entry["metadata_bytes"], "metadata_bytes", 0)
    checksums = tuple(check_integer(value, "checksum", 0) for value in entry["checksums"])
    removed = entry["removed"]
    if removed is not None:
        count = check_integer(removed["rows"], "rows", 1, rows - 1)
        checksum = check_integer(removed["checksum"], "checksum", 0)
        removed = RemovedRecord(_file_name(removed["file"]), count, checksum)
    words = None
    if n_texts:
        words = WordsRecord(
            *(check_integer(entry["words"][field.name], field.name, 0) for field in fields(WordsRecord))
        )
        if words.columns != n_texts:
            raise InputError("words must have one column for each text")
    return SegmentRecord(_file_name(entry["file"]), rows, codes, id_bytes, metadata_bytes, checksums, removed, words)


def _file_name(name: Any) -> str:
    # A plain name, since a forged manifest must not refer to files outside the folder.
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of an index file")
    return name


class _Section(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    @property
    def padded(self) -> int:
        return -(-self.size // ALIGNMENT) * ALIGNMENT


def sections_of(record: SegmentRecord, n_bits: int) -> list[_Section]:
    """Return the sections of a segment file, in order."""
    rows = record.rows
    sections = [_Section(f"codes {m}", "u1", (count, n_bytes(n_bits))) for m, count in enumerate(record.codes)]
    sections += [
        _Section("states", "u1", (len(record.codes), rows)),
        _Section("id offsets", "<i8", (rows + 1,)),
        _Section("ids", "u1", (record.id_bytes,)),
        _Section("id hashes", "<u8", (rows,)),
        _Section("rows of id hashes", "<u4", (rows,)),
    ]
    if record.metadata_bytes:
        sections += [
            _Section("metadata offsets", "<i8", (rows + 1,)),
            _Section("metadata checksums", "<u4", (rows,)),
            _Section("metadata", "u1", (record.metadata_bytes,)),
        ]
    return sections if record.words is None else [*sections, *_sections_of_words(record.words, rows)]


def _sections_of_words(words: WordsRecord, rows: int) -> list[_Section]:
    return [
        _Section("word offsets", "<i8", (words.terms + 1,)),
        _Section("words", "u1", (words.term_bytes,)),
        _Section("text lengths", "<i4", (rows,)),
        _Section("posting offsets", "<i8", (words.columns * words.terms + 1,)),
        _Section("posting rows", "<u4", (words.postings,)),
        _Section("posting counts", "<u2", (words.postings,)),
    ]


@functools.lru_cache
def _file_size(record: SegmentRecord, n_bits: int) -> int:
    return ALIGNMENT + sum(section.padded for section in sections_of(record, n_bits))


def _arrays(segment: Segment) -> list[Array]:
    ids, metadata = segment.ids, segment.metadata
    arrays: list[Array] = [*segment.codes, segment.states, ids.offsets, ids.blob, segment.hashes, segment.hash_rows]
    arrays += [] if segment.checksums is None else [metadata.offsets, segment.checksums, metadata.blob]
    return arrays if segment.words is None else [*arrays, *segment.words.arrays]


def write_segment(folder: Path, segment: Segment, n_bits: int) -> SegmentRecord:
    """Write a segment to a new file."""
    name, counts = f"segment-{secrets.token_hex(8)}.dlfh", tuple(map(len, segment.codes))
    words = None
    if segment.words is not None:
        terms = segment.words.terms
        words = WordsRecord(segment.words.n_columns, len(terms), len(terms.blob), len(segment.words.rows))
    sizes = len(segment.ids.blob), len(segment.metadata.blob)
    record = SegmentRecord(name, len(segment), counts, *sizes, (), words=words)
    sections = sections_of(record, n_bits)
    stored = [
        np.ascontiguousarray(array, section.dtype).reshape(-1).view(np.uint8)
        for section, array in zip(sections, _arrays(segment), strict=True)
    ]

    def content() -> Iterator[bytes | memoryview]:
        yield _HEADER
        for section, array in zip(sections, stored, strict=True):
            yield array.data
            yield bytes(section.padded - section.size)

    replace_file(folder / name, content())
    return replace(record, checksums=tuple(zlib.crc32(array.data) for array in stored))


def read_segment(folder: Path, record: SegmentRecord, n_bits: int, *, verify: bool, deeply: bool = False) -> Segment:
    """Read or map a segment, and check that it is safe to use.

    ``verify`` compares all checksums but the metadata's, which are checked item by item; ``deeply`` checks every byte.
    """
    sections = sections_of(record, n_bits)
    content = _content(folder, record.file, _file_size(record, n_bits))
    if len(record.checksums) != len(sections) or content[:ALIGNMENT].tobytes() != _HEADER:
        raise _damaged(folder, record.file, "is not a segment")
    arrays, start = {}, ALIGNMENT
    for section, checksum in zip(sections, record.checksums, strict=True):
        raw = content[start : start + section.size]
        if verify and (deeply or section.name != "metadata") and zlib.crc32(raw.data) != checksum:
            raise _damaged(folder, record.file, f"does not match its checksum ({section.name})")
        if deeply and content[start + section.size : start + section.padded].any():
            raise _damaged(folder, record.file, f"has bytes between its sections (after {section.name})")
        arrays[section.name] = raw.view(section.dtype).reshape(section.shape)
        start += section.padded
    words = None
    if record.words is not None:
        terms, *postings = (arrays[section.name] for section in sections[-5:])
        words = Words(record.words.columns, Strings(arrays["word offsets"], terms), *postings)
    segment = Segment(
        Strings(arrays["id offsets"], arrays["ids"]),
        arrays["id hashes"],
        arrays["rows of id hashes"],
        arrays["states"],
        tuple(arrays[f"codes {m}"] for m in range(len(record.codes))),
        Strings(arrays["metadata offsets"], arrays["metadata"]) if "metadata" in arrays else Strings.empty(record.rows),
        arrays.get("metadata checksums"),
        words,
    )
    _check_structure(segment, folder, record.file)
    return segment


def _check_structure(segment: Segment, folder: Path, file: str) -> None:
    """Check all values that are used as indices, and that ids are valid UTF-8."""
    ids = segment.ids
    for offsets, blob in ((ids.offsets, ids.blob), (segment.metadata.offsets, segment.metadata.blob)):
        if offsets[0] != 0 or offsets[-1] != len(blob) or (offsets[1:] < offsets[:-1]).any():
            raise _damaged(folder, file, "has offsets out of range")
    if (ids.offsets[1:] == ids.offsets[:-1]).any():
        raise _damaged(folder, file, "has an empty id")
    try:
        ids.blob.tobytes().decode()
        split = bool(((ids.blob[ids.offsets[:-1]] & 0xC0) == 0x80).any())  # an id begins inside a character
    except UnicodeDecodeError:
        split = True
    if split:
        raise _damaged(folder, file, "has ids that are not UTF-8")
    if segment.hash_rows.max() >= len(segment):
        raise _damaged(folder, file, "has rows out of range")
    for states, codes in zip(segment.states, segment.codes, strict=True):
        if states.max() >= len(STATES) or np.count_nonzero(states) != len(codes):
            raise _damaged(folder, file, "has states that do not match its codes")
    problem = segment.words and segment.words.problem()
    if problem:
        raise _damaged(folder, file, problem)


def check_sizes(folder: Path, record: SegmentRecord, n_bits: int) -> None:
    """Check the sizes of the files of a segment."""
    sizes = {record.file: _file_size(record, n_bits)}
    if record.removed is not None:
        sizes[record.removed.file] = -(-record.rows // 8)
    for name, size in sizes.items():
        _check_size(os.stat(folder / name).st_size, size, name, folder)


def check_checksums(segment: Segment, record: SegmentRecord) -> None:
    """Check all checksums of a segment, so that damaged data are not copied with new checksums."""
    sections = sections_of(record, 8 * segment.codes[0].shape[1])
    for section, array, checksum in zip(sections, _arrays(segment), record.checksums, strict=True):
        if zlib.crc32(array.reshape(-1).view(np.uint8).data) != checksum:
            raise StorageError(f"the index is damaged: {record.file} does not match its checksum ({section.name})")


def check_deeply(folder: Path, record: SegmentRecord, n_bits: int) -> Segment:
    """Read a segment and check every byte of its file and the consistency of its sections."""
    segment = read_segment(folder, record, n_bits, verify=True, deeply=True)
    try:
        for _ in segment.all_metadata():
            pass
    except StorageError as error:
        raise _damaged(folder, record.file, f"is not valid: {error}") from None
    hashes, rows = segment.ids.hash_table()
    if not np.array_equal(hashes, segment.hashes) or not np.array_equal(rows, segment.hash_rows):
        raise _damaged(folder, record.file, "has a hash table that does not match its ids")
    if (segment.states == ABSENT).all(axis=0).any():
        raise _damaged(folder, record.file, "has an item without a code")
    unused = np.uint8((1 << -n_bits % 8) - 1)
    if any((codes[:, -1] & unused).any() for codes in segment.codes):
        raise _damaged(folder, record.file, f"has codes of more than {n_bits} bits")
    return segment


def write_removed(folder: Path, removed: Mask) -> RemovedRecord:
    """Write the mask of removed rows to a new file, as a bitmap."""
    bitmap = np.packbits(removed).tobytes()
    name = f"removed-{secrets.token_hex(8)}.dlfh"
    replace_file(folder / name, [bitmap])
    return RemovedRecord(name, int(removed.sum()), zlib.crc32(bitmap))


def read_removed(folder: Path, record: SegmentRecord) -> Mask | None:
    """Return the mask of removed rows of a segment; None if no row is removed."""
    stored, rows = record.removed, record.rows
    if stored is None:
        return None
    bitmap = _content(folder, stored.file, -(-rows // 8))
    if zlib.crc32(bitmap.data) != stored.checksum:
        raise _damaged(folder, stored.file, "does not match its checksum")
    bits = np.unpackbits(bitmap).astype(bool)
    if bits.sum() != stored.rows or bits[:rows].sum() != stored.rows:
        raise _damaged(folder, stored.file, f"does not mark {stored.rows:,} rows as removed")
    return bits[:rows]


def _content(folder: Path, name: str, size: int) -> npt.NDArray[np.uint8]:
    with open_regular(folder / name) as file:
        _check_size(os.fstat(file.fileno()).st_size, size, name, folder)
        if size > _MAX_READ:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        space = np.empty(size + ALIGNMENT, np.uint8)
        start = -space.ctypes.data % ALIGNMENT
        content = space[start : start + size]
        _check_size(file.readinto(content.data), size, name, folder)  # type: ignore[attr-defined]
        content.flags.writeable = False
        return content


def _check_size(actual: int, size: int, name: str, folder: Path) -> None:
    if actual != size:
        raise _damaged(folder, name, f"has {actual:,} bytes instead of {size:,}")


def _damaged(folder: Path, file: str, problem: str) -> StorageError:
    return StorageError(f"index {folder} is damaged: {file} {problem}")
