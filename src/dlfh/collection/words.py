"""Texts searched as words: BM25 by SQLite's FTS5, in memory, from a file that is derived from the index.

Codes know what labels taught them; a brand, a name or a rare word is none of that, and is found as a word or not at
all. SQLite comes with Python, is kept by people who test it more than anybody tests anything, finds words in any script
that puts spaces between them, without accents, and by their English stems. (bm25s scores as fast and is one more
dependency; tantivy is faster for millions of texts, and a compiled one.)

The file is not the truth, the index is. It holds the name of the state of the index that it was made of, a checksum,
and the database as bytes; it is replaced whole, read into memory, and never changed in place. What is of another state,
damaged, or not there is made anew, from the index, so that a kill at any moment costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._persistence.files import open_regular, read_regular, replace_file
from dlfh.errors import StorageError
from dlfh.index import Index

__all__ = ["WORDS_FILE", "Words", "WordsOfItems"]

WORDS_FILE = "words.dlfh"
_FORMAT = "dlfh-words 1"
_MOST_HEADER_BYTES = 1 << 12
#: No question has more words that count; the first so many do.
_MOST_WORDS = 256
#: So many words' importances are kept.
_MOST_KEPT = 1 << 16
#: What may be words, between spaces and marks of ASCII; FTS5 says what is a word in it, as it does for texts.
_PIECE = re.compile(r"[^\s\0-/:-@\[-`{-~]+")


class Words:
    """The words of some texts, to be searched.

    Parameters
    ----------
    database : sqlite3.Connection
        As `Words.of` makes it.
    n_columns : int

    Examples
    --------
    >>> words = Words.of([["a red car"], ["two blue cars, parked"], ["a tree"], [None], ["a dog"]])
    >>> words.coverage("blue car").round(2)
    array([0.2 , 0.75, 0.  , 0.  , 0.  ])
    """

    def __init__(self, database: sqlite3.Connection, n_columns: int) -> None:
        self._database = database
        self._n_columns = n_columns
        ((self._n_texts,),) = database.execute("SELECT count(*) FROM words_docsize")
        self._importances: dict[tuple[str, tuple[int, ...]], float] = {}

    @classmethod
    def of(cls, texts: Iterable[Sequence[str | None]], n_columns: int = 1) -> Words:
        """Make it of texts: of each item, one for each column, or None."""
        database = sqlite3.connect(":memory:", check_same_thread=False)
        columns = ", ".join(f"c{number}" for number in range(n_columns))
        options = "content='', tokenize='porter unicode61 remove_diacritics 2'"
        database.execute(f"CREATE VIRTUAL TABLE words USING fts5({columns}, {options})")
        insert = f"INSERT INTO words (rowid, {columns}) VALUES (?{', ?' * n_columns})"
        for position, own in enumerate(texts):
            database.execute(insert, (position, *(_storable(text) for text in own)))
        database.execute("INSERT INTO words (words) VALUES ('optimize')")
        database.commit()
        return cls(database, n_columns)

    def __len__(self) -> int:
        return int(self._n_texts)

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> npt.NDArray[np.float64]:
        """Return how much of a question the texts of each item answer: BM25, over what its words are worth together.

        It is 0 where no word is shared, and about 1 where all are. Words that half of the texts have or more count for
        nothing, unless there are no others.

        Parameters
        ----------
        text : str
        columns : sequence of int, optional
            Which texts of an item to look at; all by default.
        """
        wanted = tuple(range(self._n_columns)) if columns is None else tuple(columns)
        found = np.zeros(len(self))
        worth = {word: self._importance(word, wanted) for word in _words(text)[:_MOST_WORDS]}
        telling = {word: value for word, value in worth.items() if value > 0} or dict.fromkeys(worth, 1e-6)
        if not telling or not wanted:
            return found
        match = _filtered(" OR ".join(map(_quoted, telling)), wanted)
        rows = self._database.execute("SELECT rowid, bm25(words) FROM words WHERE words MATCH ?", (match,)).fetchall()
        if rows:
            positions, scores = np.array(rows, np.float64).T
            known = (positions >= 0) & (positions < len(found)) & np.isfinite(scores)  # what a file says is not trusted
            found[positions[known].astype(np.int64)] = -scores[known] / math.fsum(telling.values())
        return found

    def _importance(self, word: str, columns: tuple[int, ...]) -> float:
        """Return what BM25 says that a word is worth, by how many texts have it."""
        key = word, columns
        known = self._importances.get(key)
        if known is None:
            match = _filtered(_quoted(word), columns)
            ((n,),) = self._database.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,))
            known = math.log((max(len(self), n) - n + 0.5) / (n + 0.5))
            if len(self._importances) >= _MOST_KEPT:  # who asks for ever new words must not fill the memory
                self._importances.clear()
            self._importances[key] = known
        return known

    # Files

    def write(self, path: Path, state: str) -> None:
        """Keep it in a file, as derived from a state of the index; whole, or not at all."""
        content = self._database.serialize()
        header = {
            "format": _FORMAT,
            "state": state,
            "columns": self._n_columns,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        replace_file(path, [_header(header), b"\n", content])

    @classmethod
    def read(cls, path: Path, state: str, n_columns: int) -> Words | None:
        """Return what a file holds if it was derived from a state of the index, whole; None otherwise."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, sqlite3.Error):
            header, content = _parts(path)
            if header["state"] != state or header["columns"] != n_columns:
                return None
            if header["sha256"] != hashlib.sha256(content).hexdigest():
                return None
            database = sqlite3.connect(":memory:", check_same_thread=False)
            database.deserialize(content)
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                database.execute(f"PRAGMA {setting}")
            return cls(database, n_columns)
        return None


class WordsOfItems:
    """The words of the items of an index in a folder, as they are now.

    Parameters
    ----------
    index : Index
    texts : tuple of str
        The modalities whose values are texts; metadata have these.
    folder : path
        Of the collection.
    """

    def __init__(self, index: Index, texts: tuple[str, ...], folder: Path) -> None:
        self._index = index
        self._texts = texts
        self.folder = folder if index.folder is None else index.folder.parent
        self._made: tuple[str, Words] | None = None
        self._numbers: tuple[str, npt.NDArray[np.int64]] | None = None

    @property
    def _path(self) -> Path:
        return self.folder / WORDS_FILE

    def numbers(self) -> npt.NDArray[np.int64]:
        """Return the numbers that an engine knows the items by, in the order of the words."""
        self.now()
        assert self._made is not None
        if self._numbers is None or self._numbers[0] != self._made[0]:
            self._numbers = self._made[0], self._index.positions()
        return self._numbers[1]

    def now(self) -> Words:
        """Return the words of all items: from the file if it is of this state of the index, or made anew."""
        state = self._index.state or ""
        if self._made is None or self._made[0] != state:
            self._made = state, Words.read(self._path, state, len(self._texts)) or self._make()
        return self._made[1]

    def _make(self) -> Words:
        metadata = (item.metadata or {} for item in self._index.items())
        texts = ([own[name] if isinstance(own.get(name), str) else None for name in self._texts] for own in metadata)
        return Words.of(texts, len(self._texts))

    def keep(self) -> None:
        """Write the file, if this process changes the index and the file is not of its state.

        A disk that is full, or will not have it, costs time alone: the words are made anew when they are looked for.
        """
        if self._index.folder is None and self._made is None:
            return  # nobody looked for words, and reading all items of an engine takes its time
        if self._texts and self._index.writable and self._state_of_file() != self._index.state:
            with suppress(OSError, StorageError):
                self.now().write(self._path, self._index.state or "")

    def _state_of_file(self) -> object:
        with suppress(OSError, ValueError, RecursionError), open_regular(self._path) as file:
            return _about(file.readline(_MOST_HEADER_BYTES)).get("state")
        return None

    def verify(self) -> None:
        """Check every byte of the file, if there is one."""
        try:
            about, content = _parts(self._path)
            if about["sha256"] == hashlib.sha256(content).hexdigest():
                return
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, RecursionError):
            pass
        raise StorageError(f"{self._path} is damaged: it is not as it was written; delete it, and it is made anew")


def _parts(path: Path) -> tuple[dict[str, Any], bytes]:
    header, _, content = read_regular(path).partition(b"\n")
    return _about(header), content


def _about(line: bytes) -> dict[str, Any]:
    """Return what the first line of a file says; there is one way only to write it."""
    about = json.loads(line) if len(line) < _MOST_HEADER_BYTES else None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError("not a file of words")
    if _header({name: value for name, value in about.items() if name != "checksum"}) != line.rstrip(b"\n"):
        raise ValueError("not as it was written")
    return about


def _header(about: dict[str, Any]) -> bytes:
    return json.dumps(about | {"checksum": zlib.crc32(json.dumps(about).encode())}).encode()


def _words(text: str) -> list[str]:
    """Return the different words of a text, small and capital letters alike."""
    return [*{word.lower(): word for word in _PIECE.findall(text)}.values()]


def _storable(text: str | None) -> str | None:
    """Return a text as SQLite can hold it: without lone surrogates, which are no characters, and without its end."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", " ")


def _quoted(word: str) -> str:
    return '"' + (_storable(word) or "").replace('"', '""') + '"'


def _filtered(match: str, columns: Sequence[int]) -> str:
    return f"{{{' '.join(f'c{number}' for number in columns)}}} : ({match})"
