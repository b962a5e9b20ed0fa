"""The manifest of an index folder, which lists its files. Replacing the manifest commits a change."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dlfh._persistence.files import read_regular, replace_file, version_problem
from dlfh._validation import check_integer
from dlfh.errors import InputError, StorageError
from dlfh.index.batch import check_layout

#: Increased when older versions cannot read the files of this one.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "dlfh-index"
#: Names of the files of an index. Files with other names are never deleted.
FILE_NAME = re.compile(r"(segment|removed)-[0-9a-f]{16}\.dlfh")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_MAX_ROWS = 2**32 - 1
_MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class RemovedRecord:
    """The file that marks the removed rows of a segment."""

    file: str
    rows: int
    checksum: int


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


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest. The identity is drawn when an index is created, and does not change."""

    identity: str
    n_bits: int
    modalities: tuple[str, ...]
    generation: int = 0
    segments: tuple[SegmentRecord, ...] = ()

    @cached_property
    def content(self) -> bytes:
        """The bytes of the file, which are determined by the fields."""
        body = asdict(self)
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
        raise _damaged(folder, "is not valid JSON") from None
    if not isinstance(parsed, dict) or parsed.get("format") != _FORMAT:
        raise StorageError(f"{folder} is not an index: its {MANIFEST} was not written by dlfh")
    problem = version_problem(parsed.get("format_version"), FORMAT_VERSION)
    if problem is not None:
        raise StorageError(f"index {folder} {problem}")
    try:
        manifest = _parse(parsed["index"]) if parsed["checksum"] == _checksum(parsed["index"]) else None
    except (InputError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise _damaged(folder, "does not describe an index") from None
    if manifest is None:
        raise _damaged(folder, "does not match its checksum")
    if manifest.content != content:
        raise _damaged(folder, "was changed after it was written")
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


def _damaged(folder: Path, problem: str) -> StorageError:
    return StorageError(f"index {folder} is damaged: {MANIFEST} {problem}")


def _checksum(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _parse(body: dict[str, Any]) -> Manifest:
    n_bits, modalities = check_layout(body["n_bits"], body["modalities"])
    segments = tuple(_parse_segment(entry, len(modalities)) for entry in body["segments"])
    generation = check_integer(body["generation"], "generation", 0)
    manifest = Manifest(body["identity"], n_bits, modalities, generation, segments)
    n_files = sum(1 if record.removed is None else 2 for record in segments)
    if len(manifest.files()) < n_files or not _IDENTITY.fullmatch(manifest.identity):
        raise InputError("duplicate file or invalid identity")
    return manifest


def _parse_segment(entry: dict[str, Any], n_modalities: int) -> SegmentRecord:
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
    return SegmentRecord(_file_name(entry["file"]), rows, codes, id_bytes, metadata_bytes, checksums, removed)


def _file_name(name: Any) -> str:
    # A plain name, since a forged manifest must not refer to files outside the folder.
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of an index file")
    return name
