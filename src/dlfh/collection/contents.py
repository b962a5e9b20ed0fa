"""What items are made of, by hashes: how `Collection.sync` knows what changed without describing it again.

Of an item's images and vectors the index keeps a hash, in its metadata, where users do not see it: it is written with
the item's codes, in one step, so that no kill can part them. (Texts, labels and paths need none: they are metadata.)

Hashes of files are kept a second time, with what the file system says of each, in ``files.dlfh``: a file of the same
size, times and number as before is not read again. Nothing depends on it: what is not there, or is damaged, is hashed
anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._limits import check_regular_file
from dlfh._persistence.files import open_regular, read_regular, replace_file
from dlfh.errors import InputError
from dlfh.features.base import Featurizer

if TYPE_CHECKING:
    from dlfh.datasets.items import Items

__all__ = ["CONTENTS", "FILES", "FileHashes", "content_of", "contents_of", "hash_file", "without_contents"]

#: Where metadata keep the hashes.
CONTENTS = "contents"
#: The file of hashes of files, and what its first line says.
FILES, _FORMAT = "files.dlfh", "dlfh-files 1"

#: A file that changed so shortly before it was hashed may change again without its times showing it.
_RACY_SECONDS = 2.0
_BLOCK = 1 << 20
_DIGEST = 16


def contents_of(
    featurizers: Mapping[str, Featurizer], items: Items, hash_of: Callable[[Any], str] | None = None
) -> list[dict[str, str]]:
    """Return the hashes of each item's images and vectors, by modality.

    Parameters
    ----------
    featurizers : dict of str to Featurizer
    items : Items
    hash_of : function, optional
        What hashes a file; `hash_file` by default.
    """
    found: list[dict[str, str]] = [{} for _ in items.ids]
    for name, values in items.modalities.items():
        if featurizers[name].takes != "texts":
            for row, own in enumerate(found):
                if content := content_of(values[[row]] if sp.issparse(values) else values[row], hash_of):
                    own[name] = content
    return found


def content_of(value: Any, hash_of: Callable[[Any], str] | None = None) -> str:
    """Return the hash of an image or a vector; nothing of what is not there.

    Examples
    --------
    >>> content_of(b"hello") == content_of(b"hello") != content_of(b"world")
    True
    >>> content_of(np.zeros(3)) == content_of(np.zeros((3, 1)))
    False
    """
    if value is None:
        return ""
    if isinstance(value, (str, os.PathLike)):
        return (hash_of or hash_file)(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _hash(bytes(value))
    if sp.issparse(value):
        row = value.tocsr()
        return _hash(row.indices.tobytes() + b"|" + row.data.tobytes())
    array = np.ascontiguousarray(value)
    return _hash(f"{array.dtype.str} {array.shape}|".encode() + array.tobytes())


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST).hexdigest()


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the hash of what a file holds; nothing if it cannot be read."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    try:
        check_regular_file(path)
        with open_regular(Path(path)) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except (InputError, OSError, ValueError):
        return ""
    return digest.hexdigest()


def without_contents(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata as users see them.

    Examples
    --------
    >>> without_contents({"image": "cat.png", "contents": {"image": "3f2a"}})
    {'image': 'cat.png'}
    """
    if metadata is None or CONTENTS not in metadata:
        return metadata
    return {name: value for name, value in metadata.items() if name != CONTENTS}


class FileHashes:
    """Hashes of files, of which those that are the same as before are not read again.

    Parameters
    ----------
    folder : path
        That of a collection; paths are kept from there, so that both can be moved.
    trust : bool
        Whether what is kept is used; if not, every file is read.
    """

    def __init__(self, folder: Path, *, trust: bool = True) -> None:
        self._place = folder / FILES
        self._folder = folder.resolve()
        self._known = _read(self._place) if trust else {}
        self._now: dict[str, list[Any]] = {}
        self.n_read = 0

    def __call__(self, path: str | os.PathLike[str]) -> str:
        """Return the hash of a file."""
        name = os.path.relpath(path, self._folder)
        try:
            signs = _signs(path)
        except (OSError, ValueError):
            return ""
        known = self._known.get(name)
        if known is not None and known[:-1] == signs:
            self._now[name] = known
            return str(known[-1])
        self.n_read += 1
        began = time.time()
        content = hash_file(path)
        quiet = max(signs[1], signs[2]) / 1e9 < began - _RACY_SECONDS
        if content and quiet:
            self._now[name] = [*signs, content]
        return content

    def keep(self) -> None:
        """Write down the hashes of the files that were asked for, and forget others; whole, or not at all."""
        if self._now == self._known:
            return
        body = json.dumps(self._now, separators=(",", ":")).encode()
        header = json.dumps({"format": _FORMAT, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        with suppress(OSError):  # a disk that is full costs time alone: files are hashed again
            replace_file(self._place, [header, b"\n", body])


def _signs(path: str | os.PathLike[str]) -> list[int]:
    """Return what changes when a file does: its size, when it and what is known of it changed, and its number."""
    about = os.stat(path)
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def _read(place: Path) -> dict[str, list[Any]]:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        header, _, body = read_regular(place).partition(b"\n")
        about = json.loads(header)
        if about["format"] == _FORMAT and about["sha256"] == hashlib.sha256(body).hexdigest():
            files = json.loads(body)
            return {name: own for name, own in files.items() if isinstance(own, list) and len(own) == 5}
    return {}
