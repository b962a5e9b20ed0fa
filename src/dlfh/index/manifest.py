"""The manifest of an index folder: which files make it up. Replacing it is the moment of a change."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._persistence.files import read_regular, replace_file
from dlfh._validation import check_integer
from dlfh.errors import InputError, StorageError
from dlfh.index.batch import MOST_BITS, check_schema

__all__ = [
    "FILE_NAME",
    "FORMAT_VERSION",
    "MANIFEST",
    "Manifest",
    "RemovedRecord",
    "SegmentRecord",
    "check_manifest",
    "is_current",
    "manifest_digest",
    "read_manifest",
    "write_manifest",
]

#: Raised when older versions could not read what this one writes.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "dlfh-index"
#: What the files of an index are called; no other name is its to delete.
FILE_NAME = re.compile(r"(segment|removed)-[0-9a-f]{16}\.dlfh")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_MOST_ROWS = 2**32 - 1
#: No index has a longer manifest: there are few segments, and a few hundred bytes of each.
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class SegmentRecord:
    """A segment's file, how large its sections are, and their checksums."""

    file: str
    rows: int
    codes: tuple[int, ...]
    id_bytes: int
    metadata_bytes: int
    checksums: tuple[int, ...]


@dataclass(frozen=True)
class RemovedRecord:
    """The file that says which rows of a segment are removed."""

    file: str
    rows: int
    checksum: int


@dataclass(frozen=True)
class Manifest:
    """What an index is made of.

    ``identity`` is drawn when an index is made, and stays: it tells an index from all others of its shape.
    """

    identity: str
    n_bits: int
    modalities: tuple[str, ...]
    generation: int
    segments: tuple[tuple[SegmentRecord, RemovedRecord | None], ...]

    def files(self) -> set[str]:
        """Return the names of all files of the index but the manifest."""
        return {record.file for pair in self.segments for record in pair if record is not None}


def write_manifest(folder: Path, manifest: Manifest) -> bytes:
    """Replace the manifest of a folder in one step; return what was written."""
    content = _encode(manifest)
    replace_file(folder / MANIFEST, [content])
    return content


def manifest_digest(manifest: Manifest) -> str:
    """Return the SHA-256 of all that a manifest says."""
    return hashlib.sha256(_encode(manifest)).hexdigest()


def is_current(folder: Path, manifest: Manifest, content: bytes | None) -> bool:
    """Return whether a folder has this manifest, whose ``content`` spares reading it in full if it is known."""
    return _read(folder) == content or read_manifest(folder) == manifest


def check_manifest(folder: Path, manifest: Manifest) -> None:
    """Check every byte of the file that a manifest was read from: there is one way only to write it."""
    if _read(folder) != _encode(manifest) and read_manifest(folder) == manifest:
        raise StorageError(f"index {folder} is damaged: {MANIFEST} is not as it was written")


def _encode(manifest: Manifest) -> bytes:
    body = {
        "identity": manifest.identity,
        "n_bits": manifest.n_bits,
        "modalities": manifest.modalities,
        "generation": manifest.generation,
        "segments": [
            vars(segment) | {"removed": None if removed is None else vars(removed)}
            for segment, removed in manifest.segments
        ],
    }
    header = {"format": _FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(body)}
    return json.dumps({**header, "index": body}, indent=1).encode()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, or say why it has none that can be used."""
    try:
        content = json.loads(_read(folder))
    except StorageError:
        raise
    except (ValueError, RecursionError):
        raise StorageError(f"index {folder} is damaged: {MANIFEST} is not valid JSON") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise StorageError(f"{folder} is not an index: its {MANIFEST} is of something else")
    version = content.get("format_version")
    if not isinstance(version, int):
        raise StorageError(f"index {folder} is damaged: its format version is {version!r}")
    if version > FORMAT_VERSION:
        raise StorageError(
            f"index {folder} has format version {version}, and this dlfh reads up to {FORMAT_VERSION}: upgrade dlfh"
        )
    try:
        if content["checksum"] != _checksum(content["index"]):
            raise StorageError(f"index {folder} is damaged: {MANIFEST} does not match its checksum")
        return _parse(content["index"])
    except (InputError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"index {folder} is damaged: {MANIFEST} does not describe an index") from None


def _read(folder: Path) -> bytes:
    if not folder.exists():
        raise StorageError(f"there is no index at {folder}: no such folder")
    if not folder.is_dir():
        raise StorageError(f"there is no index at {folder}: it is a file, and an index is a folder")
    try:
        return read_regular(folder / MANIFEST, _MOST_BYTES)
    except FileNotFoundError:
        raise StorageError(f"{folder} is not an index: it has no {MANIFEST}") from None
    except OSError:
        raise StorageError(f"{folder} is not an index: its {MANIFEST} cannot be read") from None


def _checksum(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _parse(body: dict[str, Any]) -> Manifest:
    n_bits = check_integer(body["n_bits"], "n_bits", 1, MOST_BITS)
    modalities = check_schema(body["modalities"])
    segments = tuple((_segment(entry, len(modalities)), _removed(entry)) for entry in body["segments"])
    names = [record.file for pair in segments for record in pair if record is not None]
    if len(set(names)) < len(names):
        raise InputError("a file is named twice")
    identity = body["identity"]
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise InputError(f"{identity!r} is not the identity of an index")
    return Manifest(identity, n_bits, modalities, check_integer(body["generation"], "generation", 0), segments)


def _segment(entry: dict[str, Any], n_modalities: int) -> SegmentRecord:
    rows = check_integer(entry["rows"], "rows", 1, _MOST_ROWS)
    codes = tuple(check_integer(count, "codes", 0, rows) for count in entry["codes"])
    if len(codes) != n_modalities:
        raise InputError("codes must be counted for each modality")
    return SegmentRecord(
        _file_name(entry["file"]),
        rows,
        codes,
        check_integer(entry["id_bytes"], "id_bytes", rows),
        check_integer(entry["metadata_bytes"], "metadata_bytes", 0),
        tuple(check_integer(value, "checksum", 0) for value in entry["checksums"]),
    )


def _removed(entry: dict[str, Any]) -> RemovedRecord | None:
    removed = entry["removed"]
    if removed is None:
        return None
    count = check_integer(removed["rows"], "rows", 1, entry["rows"] - 1)
    return RemovedRecord(_file_name(removed["file"]), count, check_integer(removed["checksum"], "checksum", 0))


def _file_name(name: Any) -> str:
    # Plain names inside the folder: a manifest from elsewhere must not lead out of it.
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of a file of an index")
    return name
