"""The words of a collection's texts, which find items that codes do not distinguish.

An index in a folder stores the words of each segment with its items (`dlfh.index.words`), so that both change together.
The words of items in a database are collected when they are first needed, and kept in a file with a checksum and the
state of the index that it was derived from. The file is replaced atomically. If it is missing, damaged, forged or
outdated, it is rebuilt from the index.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._arrays import Floats, Integers
from dlfh._parallel import checkpoint
from dlfh._persistence.files import open_regular, read_regular, replace_file
from dlfh.errors import StorageError
from dlfh.index import Index
from dlfh.index.words import Matches, Strings, WordIndex, Words, runs_of, terms

WORDS_FILE = "words.dlfh"
_FORMAT = "dlfh-words 2"
_MAX_HEADER_BYTES = 1 << 12
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b", re.IGNORECASE)
_TYPES = ("<i8", "u1", "<i4", "<i8", "<u4", "<u2")
#: Number of items whose texts are read at a time.
_BATCH = 1_000


class WordIndexFile:
    """The words of a collection, up to date with its items; the columns are the text modalities."""

    def __init__(self, index: Index, modalities: tuple[str, ...], folder: Path) -> None:
        self._index = index
        self.modalities = modalities
        self.folder = folder if index.folder is None else index.folder.parent
        self._loaded: tuple[str, WordIndex] | None = None
        self._positions: tuple[str, Integers] | None = None

    @property
    def _path(self) -> Path:
        return self.folder / WORDS_FILE

    def current(self) -> WordIndex:
        """Return the words of all items."""
        stored = self._index.words
        if stored is not None:
            return stored
        state = self._index.state or ""
        if self._loaded is None or self._loaded[0] != state:
            words = self._read(state) if state else None  # an index in memory has no state, and no file
            self._loaded = state, WordIndex([(words or self._build(), None)], len(self.modalities))
        return self._loaded[1]

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> Floats:
        return self.current().coverage(text, columns)

    def matches(self, text: str, columns: Sequence[int] | None = None) -> Matches:
        return self.current().matches(text, columns)

    def contains(self, phrase: str) -> bool:
        """Return whether a text contains this phrase; False if the words of a database are not loaded yet."""
        if not self.modalities or (self._index.folder is None and self._loaded is None):
            return False
        wanted = terms(phrase)
        if len(wanted) < 2:
            return any(map(self.current().has, wanted))
        rows = self.current().with_all(wanted)
        for start in range(0, len(rows), _BATCH):
            checkpoint()
            positions = self.positions()[rows[start : start + _BATCH]].tolist()
            for _, item in self._index.existing_items(positions):
                texts = ((item.metadata or {}).get(name) for name in self.modalities)
                if any(isinstance(text, str) and _has_phrase(text, wanted) for text in texts):
                    return True
        return False

    def positions(self) -> Integers:
        """Return the position in the collection's index of each row of the word index."""
        state = self._index.state or ""
        if self._positions is None or self._positions[0] != state or len(self._positions[1]) != len(self._index):
            self._positions = state, self._index.positions()
        return self._positions[1]

    def _build(self) -> Words:
        texts = ((item.metadata or {}).get(name) for item in self._index.items() for name in self.modalities)
        return Words.of(texts, len(self.modalities))

    # Files

    def _read(self, state: str) -> Words | None:
        """Read the file; return None if it is missing, damaged, forged or derived from another state of the index."""
        try:
            header, content = _read_file(self._path)
        except (OSError, StorageError):
            return None
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            if (header["state"], header["sha256"]) != (state, _sha256(content)):
                return None
            ends = np.cumsum([0, *map(int, header["bytes"])]).tolist()
            parts = zip(_TYPES, ends[:-1], ends[1:], strict=True)
            offsets, blob, *rest = (np.frombuffer(content[start:end], dtype) for dtype, start, end in parts)
            words = Words(len(self.modalities), Strings(offsets, blob), *rest)
            n_lists = words.n_columns * len(words.terms)
            if (len(words), len(words.starts), len(words.counts)) == (len(self._index), n_lists + 1, len(words.rows)):
                return words if words.problem() is None else None
        return None

    def save(self) -> None:
        """Write the file if words were searched, the collection is writable and the file is out of date.

        Errors are ignored: without the file, the words are collected when needed.
        """
        if self._loaded is None or not self._index.writable:
            return
        state = self._index.state
        if state and self._loaded[0] == state != self._state_of_file():
            ((words, _),) = self._loaded[1].parts
            stored = [array.astype(dtype).tobytes() for array, dtype in zip(words.arrays, _TYPES, strict=True)]
            content = b"".join(stored)
            header = {"format": _FORMAT, "state": state, "bytes": [*map(len, stored)], "sha256": _sha256(content)}
            with suppress(OSError, StorageError):
                replace_file(self._path, [_encode_header(header), b"\n", content])

    def _state_of_file(self) -> object:
        with suppress(OSError, StorageError), open_regular(self._path) as file:
            return _decode_header(file.readline(_MAX_HEADER_BYTES)).get("state")
        return None

    def verify(self) -> None:
        """Check every byte of the file, if it exists and is used."""
        if self._index.words is not None:
            return
        try:
            header, content = _read_file(self._path)
            if header["sha256"] == _sha256(content):
                return
        except FileNotFoundError:
            return
        except (OSError, StorageError, KeyError):
            pass
        raise StorageError(f"{self._path} is damaged: its checksum does not match; delete it, and it will be rebuilt")


def _read_file(path: Path) -> tuple[dict[str, Any], bytes]:
    header, _, content = read_regular(path).partition(b"\n")
    return _decode_header(header), content


def _decode_header(line: bytes) -> dict[str, Any]:
    """Return the header in the first line of a file; only the canonical encoding is accepted."""
    header = None
    with suppress(ValueError, RecursionError):
        header = json.loads(line) if len(line) < _MAX_HEADER_BYTES else None
    if isinstance(header, dict) and header.get("format") == _FORMAT:
        content = {name: value for name, value in header.items() if name != "checksum"}
        if _encode_header(content) == line.rstrip(b"\n"):
            return header
    raise StorageError("the header is damaged")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _encode_header(header: dict[str, Any]) -> bytes:
    return json.dumps(header | {"checksum": zlib.crc32(json.dumps(header).encode())}).encode()


def _has_phrase(text: str, wanted: Sequence[str]) -> bool:
    words = terms(text)
    return any(words[place : place + len(wanted)] == wanted for place in range(len(words) - len(wanted) + 1))


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case, without possessive endings."""
    return [word.lower() for word in runs_of(without_possessives(text))]


def without_possessives(text: str) -> str:
    """Return a text with "women" instead of "women's"; typographic apostrophes count as well."""
    return _POSSESSIVE.sub("", text)


def without_words(text: str, words: frozenset[str]) -> str:
    """Return a text without the given words, which are in lower case."""
    return " ".join(word for word in runs_of(text) if word.lower() not in words) if words else text
