"""The vectors of a collection's images and of items that are vectors themselves, kept so that it can learn again.

Each modality has a file. A record is the hash of the content (`dlfh.collection.contents`), the length and checksum of
the vector, and the vector: numbers, or the positions and values of a sparse row. Records are appended before the items
that need them are committed, so a crash leaves at most an incomplete last record, which the next writer cuts off.
Texts are not kept here: they are part of the metadata.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Integers, Singles
from dlfh._persistence.files import read_regular
from dlfh._validation import Features
from dlfh.errors import StorageError

if TYPE_CHECKING:
    from dlfh.collection.item_codes import ItemVectors

_RECORD = struct.Struct("<16sII?")  # hash, bytes of the vector, checksum, whether it is a sparse row
#: Maximum size of a file; further vectors are not kept, and images are read again.
_MAX_BYTES = 1 << 30


def vector_file(folder: Path, modality: int) -> Path:
    """Return the file of a modality, given by its number."""
    return folder / f"vectors-{modality}.dlfh"


def keep_vectors(folder: Path, modalities: Sequence[str], vectors: ItemVectors) -> None:
    """Append the vectors of images and vectors to the files in a folder; texts have no content hash."""
    for number, name in enumerate(modalities if any(vectors.contents) else ()):
        matrix, records = vectors.matrices.get(name), []
        for row, item in enumerate(vectors.positions.get(name, ())):
            if content := vectors.contents[item].get(name):
                vector = _to_bytes(matrix, row)
                about = bytes.fromhex(content), len(vector), zlib.crc32(vector), sp.issparse(matrix)
                records.append(_RECORD.pack(*about) + vector)
        if records:
            _append(vector_file(folder, number), b"".join(records))


def _to_bytes(matrix: Any, row: int) -> bytes:
    if sp.issparse(matrix):
        part = slice(*matrix.indptr[row : row + 2])
        return bytes(matrix.indices[part].astype("<i4").tobytes() + matrix.data[part].astype("<f4").tobytes())
    return np.asarray(matrix[row], "<f4").tobytes()


def _append(path: Path, content: bytes) -> None:
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+b") as file:
            end = _end(file)
            if end + len(content) > _MAX_BYTES:
                return
            file.truncate(end)
            file.seek(end)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"cannot write to {path}: {error.strerror or error}") from None


def _end(file: BinaryIO) -> int:
    """Return the end of the last complete record."""
    end, size = 0, os.fstat(file.fileno()).st_size
    if not size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        while end + _RECORD.size <= size:
            following = end + _RECORD.size + _RECORD.unpack_from(content, end)[1]
            if following > size:
                break
            end = following
    return end


def read_vectors(folder: Path, modality: int, contents: Sequence[str], n_features: int) -> tuple[Features, list[int]]:
    """Return the vectors of the given contents that are kept, and their places among the contents.

    Damaged records count as missing.
    """
    wanted: dict[bytes, list[int]] = {}
    for place, content in enumerate(contents):
        if content:
            wanted.setdefault(bytes.fromhex(content), []).append(place)
    found: dict[int, tuple[Integers, Singles]] = {}
    every, is_sparse = np.arange(n_features), False
    for key, vector, sparse in _records(vector_file(folder, modality)):
        if key in wanted and (len(vector) % 8 == 0 if sparse else len(vector) == 4 * n_features):
            places, values = (vector[: len(vector) // 2], vector[len(vector) // 2 :]) if sparse else (b"", vector)
            row = np.frombuffer(places, "<i4") if sparse else every, np.frombuffer(values, "<f4")
            found |= dict.fromkeys(wanted[key], row)
            is_sparse |= sparse
    rows = [found[place] for place in sorted(found)]
    if not is_sparse:
        return np.array([values for _, values in rows], np.float32).reshape(-1, n_features), sorted(found)
    starts = np.cumsum([0, *(len(values) for _, values in rows)])
    indices, data = (np.concatenate(each) for each in zip(*rows, strict=True))
    return sp.csr_array((data, indices, starts), shape=(len(rows), n_features)), sorted(found)


def _records(path: Path) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield the hash of each intact record, its vector, and whether it is sparse."""
    try:
        content, offset = read_regular(path), 0
    except FileNotFoundError:
        return
    while offset + _RECORD.size <= len(content):
        key, length, checksum, sparse = _RECORD.unpack_from(content, offset)
        offset += _RECORD.size + length
        vector = content[offset - length : offset]
        if len(vector) == length and zlib.crc32(vector) == checksum:
            yield key, vector, sparse
