"""Full-text search: an inverted index of each segment's texts, ranked by BM25; and byte strings in arrays.

Codes represent labels; a brand, a name or a rare word can only be found as a word. SQLite's FTS5 splits texts into
words: it ships with Python, handles every script that separates words by spaces, removes accents and reduces English
words to their stems. Each distinct word is split once. Scores equal the results of its function ``bm25``, to the last
bit, but are computed from arrays, which are stored with each segment and never change.
"""

from __future__ import annotations

import itertools
import math
import re
import sqlite3
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._parallel import checkpoint
from dlfh._words import number_words

#: Maximum number of words in a query; further words are ignored.
_MAX_QUERY_WORDS = 256
#: Maximum number of words in the cache of stems, and number of words that are split at a time.
_MAX_KNOWN, _CHUNK = 1 << 20, 1 << 14
#: A run of characters between white space and ASCII punctuation; FTS5 splits it further.
_RUN = re.compile(r"[^\s\0-/:-@\[-`{-~]+")
#: Converts ASCII texts into runs separated by spaces.
_SPACES = {code: " " for code in range(127) if not chr(code).isalnum()}
#: Maximum number of words in the cache of their places in a segment.
_MAX_FOUND = 1 << 12
#: Minimum number of postings for which kernels are used.
_MANY = 1 << 10
#: Parameters of BM25, and the value at which word counts are capped.
_K1, _B, _MAX_COUNT = 1.2, 0.75, 0xFFFF

_known: dict[str, tuple[str, ...]] = {}
_database: sqlite3.Connection | None = None
_lock = threading.Lock()


def runs_of(text: str) -> list[str]:
    """Return the runs of characters between white space and ASCII punctuation."""
    return text.translate(_SPACES).split() if text.isascii() else _RUN.findall(text)


def split(runs: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each run of characters, as FTS5 normalises them; most runs are one word."""
    found = {run: words for run in runs if (words := _known.get(run)) is not None}
    missing = [run for run in dict.fromkeys(runs) if run not in found]
    for start in range(0, len(missing), _CHUNK):
        found |= _split_by_fts5(missing[start : start + _CHUNK])
    if missing:
        if len(_known) > _MAX_KNOWN:
            _known.clear()
        _known.update((run, found[run]) for run in missing)
    return [found[run] for run in runs]


def terms(text: str) -> list[str]:
    """Return the words of a text as FTS5 normalises them."""
    return [word for words in split(runs_of(text)) for word in words]


def _split_by_fts5(runs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    global _database
    checkpoint()
    plain = [run for run in runs if run.isascii() and run.isalnum()]  # each is one word: one text has them all
    others = [run for run in runs if not (run.isascii() and run.isalnum())]
    with _lock:
        if _database is None:
            _database = sqlite3.connect(":memory:", check_same_thread=False)
            tokenize = "tokenize='porter unicode61 remove_diacritics 2'"
            _database.execute(f"CREATE VIRTUAL TABLE runs USING fts5(run, content='', {tokenize})")
            _database.execute("CREATE VIRTUAL TABLE words USING fts5vocab(runs, instance)")
        # SQLite stores neither lone surrogates nor NUL characters.
        stored = [(row, run.encode("utf-8", "replace").decode().replace("\0", " ")) for row, run in enumerate(others)]
        try:
            _database.executemany(
                "INSERT INTO runs (rowid, run) VALUES (?, ?)", [*stored, (len(others), " ".join(plain))]
            )
            rows = sorted(_database.execute("SELECT doc, offset, term FROM words").fetchall())
        finally:
            _database.rollback()
    words: list[list[str]] = [[] for _ in others]
    n_others = len(rows) - len(plain)
    for row, _, term in rows[:n_others]:
        words[row].append(term)
    found = {run: (term,) for run, (_, _, term) in zip(plain, rows[n_others:], strict=True)}
    return found | dict(zip(others, map(tuple, words), strict=True))


@dataclass(frozen=True)
class Strings:
    """Byte strings in two arrays, which can be mapped from a file; string i is ``blob[offsets[i]:offsets[i + 1]]``."""

    offsets: Integers
    blob: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Strings:
        lengths = itertools.chain((0,), map(len, strings))
        offsets = np.fromiter(lengths, np.int64, len(strings) + 1).cumsum()
        return cls(offsets, np.frombuffer(b"".join(strings), np.uint8))

    @classmethod
    def empty(cls, n: int) -> Strings:
        return cls(np.broadcast_to(np.int64(0), n + 1), np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        return self.blob[self.offsets.item(row) : self.offsets.item(row + 1)].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        blob = np.ascontiguousarray(self.blob).data
        return (bytes(blob[start:stop]) for start, stop in itertools.pairwise(self.offsets.tolist()))

    def take(self, rows: Integers) -> Strings:
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.diff(self.offsets)[rows], out=offsets[1:])
        blob = np.empty(offsets[-1], np.uint8)
        _kernels.gather_strings(self.offsets, self.blob, rows, offsets, blob)
        return Strings(offsets, blob)

    @classmethod
    def concatenate(cls, several: Iterable[Strings]) -> Strings:
        parts = list(several)
        ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, ends, strict=False)]
        return cls(np.concatenate([*offsets, ends[-1:]]), np.concatenate([part.blob for part in parts]))

    def find_duplicate(self) -> bytes | None:
        hashes, order = self.hash_table()
        equal = np.flatnonzero(hashes[1:] == hashes[:-1])
        pairs = zip(order[equal].tolist(), order[equal + 1].tolist(), strict=True)
        return next((self[first] for first, second in pairs if self[first] == self[second]), None)

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the 64-bit FNV-1a hash of each string."""
        values = np.empty(len(self), np.uint64)
        _kernels.hash_strings(self.offsets, self.blob, values)
        return values

    def hash_table(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Return the sorted hashes and their rows: a dictionary that can be mapped from a file."""
        hashes = self.hashes()
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order.astype(np.uint32)


@dataclass(frozen=True)
class Words:
    """Postings of items, which have a text, or none, in each of several columns.

    terms: Distinct words, in ascending order.
    lengths (items,): Number of words in all texts of an item.
    starts (columns * terms + 1,), rows, counts: The items with term t in column c are ``rows[starts[i]:starts[i + 1]]``
        with ``i = c * len(terms) + t``, ascending, and ``counts`` are the term's frequencies.
    """

    n_columns: int
    terms: Strings
    lengths: Array
    starts: Integers
    rows: Array
    counts: Array
    _places: dict[bytes, int | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, texts: Iterable[object], n_columns: int) -> Words:
        """Index texts: for each item one per column; values that are not strings are ignored."""
        cells = [text if isinstance(text, str) else "" for text in texts]
        numbers, n_runs, runs = number_words(cells, runs_of, bytes(_SPACES))
        by_run = split(runs)
        terms = sorted({term for found in by_run for term in found})
        place = {term: number for number, term in enumerate(terms)}
        n_words = np.fromiter(map(len, by_run), np.int64, len(by_run))
        words = np.fromiter((place[term] for found in by_run for term in found), np.int64, int(n_words.sum()))
        # From runs to words, and from cells (items, columns) to postings.
        places = np.repeat(np.repeat(np.arange(len(n_runs)), n_runs), n_words[numbers])
        words = words[_ranges((np.cumsum(n_words) - n_words)[numbers], n_words[numbers])]
        items, columns = np.divmod(places, n_columns)
        n_items, n_lists = len(n_runs) // n_columns, n_columns * len(terms)
        keys, counts = np.unique((columns * len(terms) + words) * n_items + items, return_counts=True)
        lists, rows = np.divmod(keys, max(n_items, 1))
        return cls(
            n_columns,
            Strings.of([term.encode() for term in terms]),
            np.bincount(items, minlength=n_items).astype(np.int32),
            _starts(np.bincount(lists, minlength=n_lists)),
            rows.astype(np.uint32),
            np.minimum(counts, _MAX_COUNT).astype(np.uint16),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.terms.offsets, self.terms.blob, self.lengths, self.starts, self.rows, self.counts

    def problem(self) -> str | None:
        """Return the reason why the arrays are unsafe to use; None if they are safe."""
        for offsets, n in ((self.terms.offsets, len(self.terms.blob)), (self.starts, len(self.rows))):
            if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
                return "has offsets out of range"
        if len(self.rows) and self.rows.max() >= len(self):
            return "has rows out of range"
        return "has texts of negative length" if len(self) and self.lengths.min() < 0 else None

    def find(self, term: bytes) -> int | None:
        """Return the number of a word, or None; a query asks for each of its words several times."""
        place = self._places.get(term, -1)
        if place == -1:
            if len(self._places) >= _MAX_FOUND:
                self._places.clear()
            place = self._places[term] = self._find(term)
        return place

    def _find(self, term: bytes) -> int | None:
        item, blob = self.terms.offsets.item, self.terms.blob.data
        place = bisect_left(range(len(self.terms)), term, key=lambda row: bytes(blob[item(row) : item(row + 1)]))
        return place if place < len(self.terms) and self.terms[place] == term else None

    def take(self, rows: Integers) -> Words:
        """Return the postings of the given items, in ascending order, without unused words."""
        kept = np.zeros(len(self), bool)
        kept[rows] = True
        new_row = (np.cumsum(kept) - 1).astype(np.uint32)
        postings = kept[self.rows]
        sizes = np.diff(np.concatenate([[0], np.cumsum(postings)])[self.starts]).reshape(self.n_columns, -1)
        used = np.flatnonzero(sizes.any(axis=0))
        starts = _starts(sizes[:, used].ravel())
        terms, lengths = self.terms.take(used), self.lengths[rows]
        return Words(self.n_columns, terms, lengths, starts, new_row[self.rows[postings]], self.counts[postings])

    @classmethod
    def concatenate(cls, several: Sequence[Words]) -> Words | None:
        """Concatenate the postings of several segments; None if there are none."""
        if not several:
            return None
        n_columns = several[0].n_columns
        known = [[*words.terms] for words in several]
        terms = sorted({*itertools.chain.from_iterable(known)})
        place = {term: number for number, term in enumerate(terms)}
        lists = [
            np.arange(n_columns)[:, None] * len(terms)
            + np.fromiter(map(place.__getitem__, names), np.int64, len(names))
            for names in known
        ]
        sizes = np.zeros(n_columns * len(terms), np.int64)
        for words, numbers in zip(several, lists, strict=True):
            sizes[numbers.ravel()] += np.diff(words.starts)
        starts = _starts(sizes)
        rows, counts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.uint16)
        ends, offset = starts[:-1].copy(), 0
        for words, numbers in zip(several, lists, strict=True):
            n_postings = np.diff(words.starts)
            places = _ranges(ends[numbers.ravel()], n_postings)
            rows[places], counts[places] = words.rows + np.uint32(offset), words.counts
            ends[numbers.ravel()] += n_postings
            offset += len(words)
        lengths = np.concatenate([words.lengths for words in several])
        return cls(n_columns, Strings.of(terms), lengths, starts, rows, counts)


def union(*ascending: Array) -> Array:
    """Return the distinct numbers in several ascending arrays, ascending; numpy.unique is slower and loads numpy.ma."""
    numbers = np.sort(np.concatenate(ascending), kind="stable")
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def _starts(sizes: Array) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _ranges(first: Integers, lengths: Integers) -> Integers:
    """Return ``first[i], first[i] + 1, ...`` for each i, ``lengths[i]`` numbers, one after another."""
    ends = np.cumsum(lengths)
    return np.repeat(first - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def _among(ascending: Array, numbers: Array) -> Mask:
    """Return which numbers an ascending array contains."""
    places = np.minimum(ascending.searchsorted(numbers), len(ascending) - 1)
    return ascending[places] == numbers


class Matches(NamedTuple):
    """Positions of the items that contain a word of the query, ascending, and their coverage of the query."""

    positions: Integers
    coverage: Floats

    @classmethod
    def none(cls) -> Matches:
        return cls(np.empty(0, np.int64), np.empty(0))

    def at(self, positions: Integers) -> Floats:
        """Return the coverage of the items at the given positions; 0 for items without any word."""
        if not len(self.positions):
            return np.zeros(len(positions))
        places = np.minimum(self.positions.searchsorted(positions), len(self.positions) - 1)
        return np.where(self.positions[places] == positions, self.coverage[places], 0.0)


class WordIndex:
    """Inverted index of all items: the words of each segment, with a mask of removed items (None: no item)."""

    def __init__(self, parts: Sequence[tuple[Words, Mask | None]], n_columns: int) -> None:
        self.parts = parts
        self._n_columns = n_columns
        self._n_live = [len(words) - (0 if gone is None else int(gone.sum())) for words, gone in parts]

    @classmethod
    def build(cls, texts: Iterable[Sequence[str | None]], n_columns: int = 1) -> WordIndex:
        """Index texts: for each item a text, or None, per column."""
        return cls([(Words.of(itertools.chain.from_iterable(texts), n_columns), None)], n_columns)

    def __len__(self) -> int:
        return sum(self._n_live)

    @cached_property
    def _mean_length(self) -> float:
        totals = (
            words.lengths.sum(dtype=np.int64, where=True if gone is None else ~gone) for words, gone in self.parts
        )
        return max(int(sum(totals)), 1) / max(len(self), 1)

    @cached_property
    def _ranks(self) -> list[Integers | None]:
        """For each part with removed items, the number of remaining items before each."""
        return [None if gone is None else np.cumsum(~gone) - 1 for _, gone in self.parts]

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> Floats:
        """Return the coverage of all items, see `matches`."""
        coverage = np.zeros(len(self))
        matches = self.matches(text, columns)
        coverage[matches.positions] = matches.coverage
        return coverage

    def matches(self, text: str, columns: Sequence[int] | None = None) -> Matches:
        """Return the items' coverage of a query: the BM25 score divided by the total weight of its words.

        It is about 1 for an item with all words. Words that occur in at least half of the texts are ignored, unless
        the query has no others.

        columns: The columns to search; all by default.
        """
        checkpoint()
        searched = range(self._n_columns) if columns is None else columns
        runs = [*{run.lower(): run for run in runs_of(text)}.values()][:_MAX_QUERY_WORDS]
        # A run without any word, such as an emoji, counts as a word that no text has.
        words = [word for found in split(runs) for word in found or ("",)] if searched else []
        postings = [[self._postings(part, word.encode(), searched) for part in self.parts] for word in words]
        numbers = [sum(len(rows) for rows, _ in found) for found in postings]
        weights = [math.log((max(len(self), n) - n + 0.5) / (n + 0.5)) for n in numbers]
        if all(weight <= 0 for weight in weights):
            weights = [1e-6] * len(weights)
        total = math.fsum(weight for weight in weights if weight > 0)
        matches, start = list[Matches](), 0
        for number, (part, n_live, ranks) in enumerate(zip(self.parts, self._n_live, self._ranks, strict=True)):
            counted = [(each[number], weight) for each, weight in zip(postings, weights, strict=True) if weight > 0]
            rows, scores = _scores(
                part[0].lengths, [(*found, weight) for found, weight in counted], self._mean_length, total
            )
            rows = rows if ranks is None else ranks[rows]
            matches.append(Matches(rows + start if start else rows, scores))
            start += n_live
        if len(matches) == 1:
            return matches[0]
        return Matches(*map(np.concatenate, zip(*matches, strict=True))) if matches else Matches.none()

    def has(self, word: str) -> bool:
        """Return whether an item has a word."""
        columns = range(self._n_columns)
        return any(len(self._postings(part, word.encode(), [column])[0]) for part in self.parts for column in columns)

    def with_all(self, words: Sequence[str]) -> Integers:
        """Return the positions of the items that have all words in one column."""
        found, start = [np.empty(0, np.int64)], 0
        for part, n_live, ranks in zip(self.parts, self._n_live, self._ranks, strict=True):
            for column in range(self._n_columns):
                lists = [self._postings(part, word.encode(), [column])[0] for word in words]
                rows = min(lists, key=len, default=np.empty(0, np.int64))
                for other in lists:
                    rows = rows[_among(other, rows)] if other is not rows and len(rows) else rows
                found.append(start + (rows.astype(np.int64) if ranks is None else ranks[rows]))
            start += n_live
        return union(*found)

    def _postings(self, part: tuple[Words, Mask | None], term: bytes, columns: Sequence[int]) -> tuple[Array, Array]:
        """Return the remaining items of a segment that contain a word in the given columns, and its frequencies."""
        words, gone = part
        place = words.find(term)
        lists = [] if place is None else [column * len(words.terms) + place for column in columns]
        slices = [slice(words.starts[i], words.starts[i + 1]) for i in lists]
        found = [(words.rows[each], words.counts[each]) for each in slices if each.stop > each.start]
        rows, counts = found[0] if found else (np.empty(0, np.uint32), np.empty(0, np.uint16))
        for more_rows, more_counts in found[1:]:
            both = union(rows, more_rows)
            total = np.zeros(len(both), np.int64)
            total[np.searchsorted(both, rows)] += counts
            total[np.searchsorted(both, more_rows)] += more_counts
            rows, counts = both, total
        if gone is not None and len(rows):
            kept = ~gone[rows]
            rows, counts = rows[kept], counts[kept]
        return rows, counts


def _scores(
    lengths: Array, postings: Sequence[tuple[Array, Array, float]], mean_length: float, total: float
) -> tuple[Integers, Floats]:
    """Return the rows that contain any of the words, ascending, and their scores, rounded exactly as by ``bm25``.

    Scores are divided by ``total``. Frequent words are scored by kernels, if Numba is loaded.
    """
    n_postings = sum(len(rows) for rows, _, _ in postings)
    if not n_postings:
        return np.empty(0, np.int64), np.empty(0)
    if n_postings > _MANY and "numba" in sys.modules:
        rows, counts = (np.concatenate(each) for each in list(zip(*postings, strict=True))[:2])
        starts = _starts(np.array([len(rows) for rows, _, _ in postings]))
        space = min(n_postings, len(lengths))
        found, scores = np.empty(space, np.int64), np.empty(space)
        weights = np.array([weight for *_, weight in postings])
        n_found = _kernels.score_words(rows, counts, starts, weights, lengths, mean_length, total, found, scores)
        return found[:n_found], scores[:n_found]
    rows = postings[0][0].astype(np.int64)
    if len(postings) > 1:
        rows = union(*(each for each, _, _ in postings)).astype(np.int64)
    scores = np.zeros(len(rows))
    for found, counts, weight in postings:
        frequency = counts.astype(np.float64)
        shrunk = _K1 * (1 - _B + _B * lengths[found] / mean_length)
        places = slice(None) if len(postings) == 1 else np.searchsorted(rows, found)
        scores[places] += weight * ((frequency * (_K1 + 1.0)) / (frequency + shrunk))
    return rows, scores / total
