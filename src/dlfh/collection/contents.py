"""Content hashes, by which `Collection.sync` detects changes without computing features, and copies are recognised.

The hashes of an item's images and vectors are stored in its metadata, hidden from users, and written together with its
codes, so that a crash cannot separate them. The hash of an image file covers the bytes from which its code was
computed, even if the file has since been replaced. Texts, labels and paths are part of the metadata and need no hash.

The hashes of files are also cached in ``files.dlfh`` with each file's size, times and inode number: a file whose
attributes have not changed is not read again. The cache is optional: missing or damaged entries are computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Integers
from dlfh._limits import check_limit, check_regular_file
from dlfh._persistence.files import open_regular, read_regular, replace_file
from dlfh.datasets.leakage import fingerprints
from dlfh.errors import InputError
from dlfh.features.base import Featurizer, new_hash

if TYPE_CHECKING:
    from dlfh.datasets.items import Items

#: The cache of file hashes, and its format.
FILES, _FORMAT = "files.dlfh", "dlfh-files 1"

#: A file that was modified this recently may change again without a new time stamp.
_RACY_SECONDS = 2.0
_MAX_HEADER_BYTES = 1 << 12
#: Upper bound on the memory per JSON value, including its container and separator.
_BYTES_PER_VALUE = 128


def content_hashes(
    featurizers: Mapping[str, Featurizer], items: Items, hash_path: Callable[[Any, int, str], str]
) -> list[dict[str, str]]:
    """Return the hashes of each item's images and vectors, by modality.

    hash_path: Function that returns the hash of an image file, given its path, row and modality, or an empty string.
    """
    hashed = {name: each for name, each in items.modalities.items() if featurizers[name].takes != "texts"}
    if not hashed:
        return [{}] * len(items)
    hashes: list[dict[str, str]] = [{} for _ in items.ids]
    for name, values in hashed.items():
        for row, by_modality in enumerate(hashes):
            value = values[[row]] if sp.issparse(values) else values[row]
            is_path = isinstance(value, (str, os.PathLike))
            if content := hash_path(value, row, name) if is_path else content_hash(value):
                by_modality[name] = content
    return hashes


def content_hash(value: Any) -> str:
    """Return the hash of an image or a vector in memory; an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return new_hash(bytes(value)).hexdigest()
    if sp.issparse(value):
        row = value.tocsr()
        return new_hash(row.indices.tobytes() + b"|" + row.data.tobytes()).hexdigest()
    array = np.ascontiguousarray(value)
    return new_hash(f"{array.dtype.str} {array.shape}|".encode() + array.tobytes()).hexdigest()


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the hash of a file's content; an empty string if it cannot be read."""
    try:
        check_regular_file(path)
        with open_regular(Path(path)) as file:
            return hashlib.file_digest(file, new_hash).hexdigest()  # type: ignore[arg-type]
    except (InputError, OSError, ValueError):
        return ""


def item_groups(modalities: Mapping[str, Any]) -> Integers:
    """Return a group number for each item, the same for copies: items that are equal in every modality."""
    known: dict[Any, int] = {}
    keys = zip(*map(_comparable, modalities.values()), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def _comparable(values: Any) -> list[Any]:
    """Return values to compare: for a file, a hash of its contents if another file has the same size."""
    if not isinstance(values, (list, tuple)):
        return fingerprints([values]).tolist()
    sizes = [_size(value) if isinstance(value, Path) else None for value in values]
    counts = Counter(sizes)

    def key(value: Any, size: int | None) -> Any:
        if isinstance(value, np.ndarray):
            return content_hash(value)
        return (hash_file(value) if size is not None and counts[size] > 1 else "") or value

    return [*map(key, values, sizes)]


def _size(path: Path) -> int | None:
    with suppress(OSError):  # reported when the file is read
        return path.stat().st_size
    return None


class FileHashes:
    """Hashes of files; with the cache, files that have not changed since the last run are not read again."""

    def __init__(self, folder: Path, *, use_cache: bool = True) -> None:
        self._path = folder / FILES
        self._folder = folder.resolve()
        self._cached = _read(self._path) if use_cache else {}
        self._current: dict[str, list[Any]] = {}

    def __call__(self, path: str | os.PathLike[str]) -> str:
        name = os.path.relpath(path, self._folder)  # so that files and collection can be moved together
        try:
            attributes = _attributes(path)
        except (OSError, ValueError):
            return ""
        cached = self._cached.get(name)
        if cached is not None and cached[:-1] == attributes:
            self._current[name] = cached
            return str(cached[-1])
        began = time.time()
        content = hash_file(path)
        is_settled = max(attributes[1], attributes[2]) / 1e9 < began - _RACY_SECONDS
        with suppress(OSError, ValueError):
            if content and is_settled and _attributes(path) == attributes:  # not replaced while being hashed
                self._current[name] = [*attributes, content]
        return content

    def save(self) -> None:
        """Write the hashes of the requested files atomically; all others are dropped."""
        if self._current == self._cached:
            return
        body = json.dumps(self._current, separators=(",", ":")).encode()
        header = json.dumps({"format": _FORMAT, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        with suppress(OSError):  # without the cache, files are hashed again
            replace_file(self._path, [header, b"\n", body])


def _attributes(path: str | os.PathLike[str]) -> list[int]:
    """Return the attributes that change with a file's content: size, modification and change times, inode number."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read(path: Path) -> dict[str, list[Any]]:
    try:
        header, _, body = read_regular(path).partition(b"\n")
        about = json.loads(header) if len(header) < _MAX_HEADER_BYTES else {}
        if about["format"] != _FORMAT or about["sha256"] != hashlib.sha256(body).hexdigest():
            return {}
        n_bytes = len(body) + _BYTES_PER_VALUE * sum(map(body.count, (b",", b"[", b"{")))
        check_limit("DLFH_MAX_BYTES", n_bytes, f"{path} takes up to {n_bytes:,} bytes of memory to read")
        files = json.loads(body)
        return {name: entry for name, entry in files.items() if isinstance(entry, list) and len(entry) == 5}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
