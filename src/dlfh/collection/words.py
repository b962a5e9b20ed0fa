"""Full-text search of the items' texts: BM25 by SQLite's FTS5, in memory, loaded from a file derived from the index.

Codes represent labels only; a brand, a name or a rare word can only be found as a word. SQLite ships with Python
and is tested more thoroughly than any alternative. Its tokeniser handles every script that separates words by spaces,
removes accents and reduces English words to their stems. (bm25s is as fast, but one more dependency; tantivy is faster
for millions of texts, but a compiled dependency.)

The index is the source of truth. The file holds the state of the index that it was derived from, a checksum, and the
database as bytes. It is replaced atomically and never changed in place. A file that is missing, damaged or derived from
another state is rebuilt from the index, so that a crash at any moment costs time only.

A file with a fitting checksum may still be forged, and a database can hold views and triggers that run. So its schema
must be exactly the one that `WordIndex.build` creates, it must have one row for each item, and a query is interrupted
after more steps than an honest file needs; if one fails, the word index is rebuilt as well.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._arrays import Floats, Integers
from dlfh._parallel import checkpoint
from dlfh._persistence.files import open_regular, read_regular, replace_file
from dlfh.errors import StorageError
from dlfh.index import Index

WORDS_FILE = "words.dlfh"
_FORMAT = "dlfh-words 1"
_MAX_HEADER_BYTES = 1 << 12
#: Only this many words of a query count.
_MAX_QUERY_WORDS = 256
_MAX_CACHED_WEIGHTS = 1 << 16
#: A query of a file takes at most this many steps of SQLite, plus 250 per text; a common word takes about 16 for each
#: text that contains it. They are counted in units.
_MAX_STEPS, _MAX_STEPS_PER_TEXT, _STEPS_PER_UNIT = 1_000_000, 250, 10_000
#: A run of characters between white space and ASCII punctuation; FTS5 splits it further, as it does for stored texts.
_TOKEN = re.compile(r"[^\s\0-/:-@\[-`{-~]+")


class WordIndex:
    """A full-text index of texts, created by `WordIndex.build` or `WordIndex.read`."""

    def __init__(self, database: sqlite3.Connection, n_columns: int, n_texts: int) -> None:
        self._database = database
        self._n_columns = n_columns
        self._n_texts = n_texts
        self._weight = lru_cache(_MAX_CACHED_WEIGHTS)(self._weight_of)
        self._units_left = 0
        # One query at a time. Otherwise the thread that holds SQLite's lock could wait for Python's, in the progress
        # handler, while the thread that holds Python's waits for SQLite's.
        self._asking = threading.Lock()
        database.set_progress_handler(self._take_unit, _STEPS_PER_UNIT)

    @classmethod
    def build(cls, texts: Iterable[Sequence[str | None]], n_columns: int = 1) -> WordIndex:
        """Index texts: for each item a text, or None, per column."""
        database = _empty_database(n_columns)
        insert = f"INSERT INTO words (rowid, {_columns(n_columns)}) VALUES (?{', ?' * n_columns})"
        rows = ((position, *map(_storable, row)) for position, row in enumerate(texts))
        n_texts = database.executemany(insert, rows).rowcount
        database.execute("INSERT INTO words (words) VALUES ('optimize')")
        database.commit()
        return cls(database, n_columns, max(n_texts, 0))

    def __len__(self) -> int:
        return self._n_texts

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> Floats:
        """Return how much of a query each item's texts cover: the BM25 score divided by the total weight of its words.

        It is 0 for an item without any word of the query, and about 1 for one with all of them. Words that occur in at
        least half of the texts are ignored, unless the query has no others.

        columns: The columns to search; all by default.
        """
        searched = tuple(range(self._n_columns)) if columns is None else tuple(columns)
        coverage = np.zeros(len(self))
        weights = {word: self._weight(word, searched) for word in _words(text)[:_MAX_QUERY_WORDS]}
        informative = {word: weight for word, weight in weights.items() if weight > 0} or dict.fromkeys(weights, 1e-6)
        if not informative or not searched:
            return coverage
        match = _match(" OR ".join(map(_quoted, informative)), searched)
        statement = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ? LIMIT ?"
        rows = self._ask(statement, (match, len(self)))
        if rows:
            positions, scores = np.array(rows, np.float64).T
            valid = (positions >= 0) & (positions < len(coverage)) & np.isfinite(scores)  # the file is not trusted
            coverage[positions[valid].astype(np.int64)] = -scores[valid] / math.fsum(informative.values())
        return coverage

    def contains(self, phrase: str) -> bool:
        """Return whether a text has these words in this order."""
        statement = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"
        return bool(tokens(phrase) and self._ask(statement, (_quoted(phrase),)))

    def _weight_of(self, word: str, columns: tuple[int, ...]) -> float:
        """Return the inverse document frequency of a word, as BM25 defines it."""
        ((n,),) = self._ask("SELECT count(*) FROM words WHERE words MATCH ?", (_match(_quoted(word), columns),))
        return math.log((max(len(self), n) - n + 0.5) / (n + 0.5))

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; raise sqlite3.OperationalError if a file makes it take too many steps."""
        checkpoint()
        with self._asking, closing(self._database.cursor()) as cursor:
            self._units_left = (_MAX_STEPS + _MAX_STEPS_PER_TEXT * len(self)) // _STEPS_PER_UNIT
            try:
                return cursor.execute(statement, values).fetchall()
            except sqlite3.OperationalError:
                checkpoint()  # the query was interrupted because it was cancelled
                raise

    def _take_unit(self) -> bool:
        """Take a unit; return whether to interrupt the query, because too many were taken or it was cancelled."""
        self._units_left -= 1
        try:
            checkpoint()
        except Exception:
            return True
        return self._units_left < 0

    # Files

    def write(self, path: Path, state: str) -> None:
        """Write the file atomically, with the state of the index that it was derived from."""
        content = self._database.serialize()
        header = {"format": _FORMAT, "state": state, "columns": self._n_columns, "sha256": _sha256(content)}
        replace_file(path, [_encode_header(header), b"\n", content])

    @classmethod
    def read(cls, path: Path, state: str, n_columns: int, n_texts: int) -> WordIndex | None:
        """Read a file; return None if it is missing, damaged, forged or derived from another state of the index."""
        with suppress(OSError, StorageError, KeyError, *_FAILURES):
            header, content = _read_file(path)
            if (header["state"], header["columns"], header["sha256"]) != (state, n_columns, _sha256(content)):
                return None
            database = sqlite3.connect(":memory:", check_same_thread=False)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(len(content), _MAX_STEPS))
            words = cls(database, n_columns, n_texts)
            words._units_left = 1
            database.deserialize(content)
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                database.execute(f"PRAGMA {setting}")
            if (
                words._ask(_SCHEMA) == _empty_database(n_columns).execute(_SCHEMA).fetchall()
                and all(_is_segment_list(block) for (block,) in words._ask(_SEGMENT_LIST))
                # The condition has rows counted one by one, so that the limit applies.
                and words._ask("SELECT count(*) FROM words_docsize WHERE id >= 0") == [(n_texts,)]
            ):
                return words
        return None


#: Exceptions of queries of a forged file: SQLite quotes bytes of it in messages, and allocates sizes that it claims.
_FAILURES = (sqlite3.Error, UnicodeError, OverflowError, MemoryError)
#: The list of segments of FTS5: four bytes; the numbers of levels, of segments and of pages written; for each level the
#: number of inputs of a merge, the number of segments, and three numbers for each segment.
_SEGMENT_LIST = "SELECT block FROM words_data WHERE id = 10"
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name, type LIMIT 100"


def _is_segment_list(block: object) -> bool:
    """Return whether a segment list has as many segments as it declares, for which FTS5 allocates memory."""
    try:
        numbers = iter(_small_varints(block[4:] if isinstance(block, bytes) else b"\x80"))
        n_levels, _, _ = next(numbers), next(numbers), next(numbers)
        for _ in range(n_levels):
            _, n_segments = next(numbers), next(numbers)
            for _ in range(3 * n_segments):
                next(numbers)
    except (StopIteration, ValueError):
        return False
    return True


def _small_varints(content: bytes) -> list[int]:
    """Decode numbers of at most four bytes with seven bits each, the highest first."""
    numbers, value, length = list[int](), 0, 0
    for byte in content:
        value, length = value << 7 | byte & 0x7F, length + 1
        if length > 4:
            raise ValueError("a number of more than four bytes")
        if byte < 0x80:
            numbers.append(value)
            value = length = 0
    return numbers


def _columns(n_columns: int) -> str:
    return ", ".join(f"c{number}" for number in range(n_columns))


def _empty_database(n_columns: int) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    options = "content='', tokenize='porter unicode61 remove_diacritics 2'"
    database.execute(f"CREATE VIRTUAL TABLE words USING fts5({_columns(n_columns)}, {options})")
    return database


class WordIndexFile:
    """The word index of a collection, kept up to date with its item index; the columns are the text modalities."""

    def __init__(self, index: Index, modalities: tuple[str, ...], folder: Path) -> None:
        self._index = index
        self.modalities = modalities
        self.folder = folder if index.folder is None else index.folder.parent
        self._loaded: tuple[str, WordIndex] | None = None
        self._positions: tuple[str, Integers] | None = None

    @property
    def _path(self) -> Path:
        return self.folder / WORDS_FILE

    def current(self, *, rebuild: bool = False) -> WordIndex:
        """Return the word index of all items, read from the file or rebuilt if the collection has changed."""
        state = self._index.state or ""
        if rebuild or self._loaded is None or self._loaded[0] != state:
            # An index in memory has no state, and no file.
            is_stored = state and not rebuild
            size = len(self.modalities), len(self._index)
            self._loaded = state, (is_stored and WordIndex.read(self._path, state, *size)) or self._build()
        return self._loaded[1]

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> Floats:
        try:
            return self.current().coverage(text, columns)
        except _FAILURES:  # the file is damaged, although its checksum matches
            return self.current(rebuild=True).coverage(text, columns)

    def contains(self, phrase: str) -> bool:
        """Return `WordIndex.contains` of all items; False if the words of a database are not loaded yet."""
        if not self.modalities or (self._index.folder is None and self._loaded is None):
            return False
        try:
            return self.current().contains(phrase)
        except _FAILURES:
            return self.current(rebuild=True).contains(phrase)

    def positions(self) -> Integers:
        """Return the position in the collection's index of each row of the word index."""
        self.current()
        assert self._loaded is not None
        if self._positions is None or self._positions[0] != self._loaded[0]:
            self._positions = self._loaded[0], self._index.positions()
        return self._positions[1]

    def _build(self) -> WordIndex:
        texts = (
            [value if isinstance(value := (item.metadata or {}).get(name), str) else None for name in self.modalities]
            for item in self._index.items()
        )
        return WordIndex.build(texts, len(self.modalities))

    def save(self) -> None:
        """Write the file if this process may change the collection and the file is out of date.

        Errors are ignored: without the file, the word index is rebuilt when it is needed.
        """
        if self._index.folder is None and self._loaded is None:
            return  # reading all items of a database takes long, and no words were searched
        if self.modalities and self._index.writable and self._state_of_file() != self._index.state:
            with suppress(OSError, StorageError):
                self.current().write(self._path, self._index.state or "")

    def _state_of_file(self) -> object:
        with suppress(OSError, StorageError), open_regular(self._path) as file:
            return _decode_header(file.readline(_MAX_HEADER_BYTES)).get("state")
        return None

    def verify(self) -> None:
        """Check every byte of the file, if it exists."""
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


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.lower() for word in _TOKEN.findall(text)]


def without_words(text: str, words: frozenset[str]) -> str:
    """Return a text without some words, given in lower case."""
    return " ".join(word for word in _TOKEN.findall(text) if word.lower() not in words) if words else text


def _words(text: str) -> list[str]:
    return [*{word.lower(): word for word in _TOKEN.findall(text)}.values()]


def _storable(text: str | None) -> str | None:
    """Return a text that SQLite can store: without lone surrogates and NUL characters."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", " ")


def _quoted(word: str) -> str:
    return '"' + (_storable(word) or "").replace('"', '""') + '"'


def _match(expression: str, columns: Sequence[int]) -> str:
    return f"{{{' '.join(f'c{number}' for number in columns)}}} : ({expression})"
