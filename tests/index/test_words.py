"""Words of texts against SQLite's FTS5: the same words, and the same scores to the last bit."""

from __future__ import annotations

import itertools
import math
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.errors import StorageError
from dlfh.index import Index, files
from dlfh.index.words import WordIndex, Words, runs_of, split

Row = tuple[str | None, ...]

any_text = st.text(st.one_of(st.characters(), st.sampled_from("aeé ’-–ßİıΣſ\u0301 runningcars")), max_size=30)
few_words = st.lists(
    st.sampled_from(["kiwi", "plums", "plum", "fig", "nut", "lime", "limes", "Café", "cafe"]), max_size=8
).map(" ".join)


def fts5(texts: Sequence[Row]) -> sqlite3.Connection:
    """Return a database with an FTS5 table of texts in two columns."""
    database = sqlite3.connect(":memory:")
    tokenize = "tokenize='porter unicode61 remove_diacritics 2'"
    database.execute(f"CREATE VIRTUAL TABLE words USING fts5(c0, c1, content='', {tokenize})")
    stored = ((text and text.encode("utf-8", "replace").decode().replace("\0", " ") for text in row) for row in texts)
    database.executemany(
        "INSERT INTO words (rowid, c0, c1) VALUES (?, ?, ?)", ((i, *row) for i, row in enumerate(stored))
    )
    return database


def coverage_by_fts5(texts: Sequence[Row], query: str, columns: Sequence[int]) -> np.ndarray:
    """Return `WordIndex.coverage` by the function ``bm25`` of FTS5."""
    coverage = np.zeros(len(texts))
    searched = "{" + " ".join(f"c{column}" for column in columns) + "}"
    with closing(fts5(texts)) as database:
        weights = {}
        for run in {run.lower(): run for run in runs_of(query)}.values():
            match = f'{searched} : ("{run}")'
            ((n,),) = database.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,))
            weights[run] = math.log((len(texts) - n + 0.5) / (n + 0.5))
        informative = {run: weight for run, weight in weights.items() if weight > 0} or dict.fromkeys(weights, 1e-6)
        match = f"{searched} : ({' OR '.join(f'{chr(34)}{run}{chr(34)}' for run in informative)})"
        statement = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?"
        for row, score in database.execute(statement, (match,)) if informative else ():
            coverage[row] = -score / math.fsum(informative.values())
    return coverage


@given(st.lists(st.tuples(any_text, st.none() | any_text), min_size=1, max_size=5))
def test_texts_have_the_words_that_fts5_finds(texts: list[Row]) -> None:
    with closing(fts5(texts)) as database:
        database.execute("CREATE VIRTUAL TABLE found USING fts5vocab(words, 'instance')")
        expected = sorted(database.execute("SELECT doc, col, offset, term FROM found").fetchall())
    found = []
    for row, texts_of_item in enumerate(texts):
        for column, text in enumerate(texts_of_item):
            words = [word for words in split(runs_of(text or "")) for word in words]
            found += [(row, f"c{column}", place, word) for place, word in enumerate(words)]
    assert sorted(found) == expected


@given(
    st.lists(st.tuples(few_words, st.none() | few_words), min_size=1, max_size=20),
    few_words,
    st.sampled_from([[0], [1], [0, 1]]),
    st.lists(st.integers(0, 20), max_size=2),
    st.sets(st.integers(0, 19), max_size=3),
)
def test_scores_of_segments_are_those_of_fts5(
    texts: list[Row], query: str, columns: list[int], cuts: list[int], gone: set[int]
) -> None:
    parts, start = [], 0
    for stop in sorted({*(cut for cut in cuts if 0 < cut < len(texts)), len(texts)}):
        removed = np.isin(np.arange(start, stop), [*gone])
        parts.append((Words.of(itertools.chain(*texts[start:stop]), 2), removed if removed.any() else None))
        start = stop
    left = [row for number, row in enumerate(texts) if number not in gone]
    expected = coverage_by_fts5(left, query, columns)
    assert np.array_equal(WordIndex(parts, 2).coverage(query, columns), expected)
    merged = Words.concatenate(
        [words if removed is None else words.take(np.flatnonzero(~removed)) for words, removed in parts]
    )
    assert merged is not None
    assert np.array_equal(WordIndex([(merged, None)], 2).coverage(query, columns), expected)
    for array, again in zip(merged.arrays, Words.of(itertools.chain(*left), 2).arrays, strict=True):
        assert array.dtype == again.dtype
        assert np.array_equal(array, again)
    assert merged.problem() is None


def test_words_that_fts5_splits_are_searched_one_by_one() -> None:
    words = WordIndex.build([["don’t"], ["t, don"], ["x"], ["x"], ["x"], ["x"], ["x"]])
    assert words.coverage("don’t").nonzero()[0].tolist() == [0, 1]  # as "don't", which is split at the apostrophe
    assert words.coverage("☃ don")[0] < words.coverage("don")[0]  # no text has the snowman


@given(
    st.lists(st.lists(st.sampled_from(["kiwi", "plum", "fig", "nut", "lime"]), max_size=5), min_size=12, max_size=30),
    st.lists(st.sampled_from(["kiwi", "plum", "fig", "pear"]), min_size=1, max_size=3, unique=True),
)
def test_coverage_is_bm25_divided_by_the_weights_of_the_words(texts: list[list[str]], question: list[str]) -> None:
    n, mean = len(texts), sum(map(len, texts)) / len(texts)
    n_with = {word: sum(word in text for text in texts) for word in question}
    worth = {word: math.log((n - count + 0.5) / (count + 0.5)) for word, count in n_with.items()}
    telling = {word: value for word, value in worth.items() if value > 0} or dict.fromkeys(question, 1e-6)
    expected = []
    for text in texts:
        counts = Counter(text)
        scores = [
            value * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * len(text) / mean))
            for word, value in telling.items()
            if counts[word]
        ]
        expected.append(sum(scores) / sum(telling.values()))
    words = WordIndex.build([[" ".join(text)] for text in texts])
    assert words.coverage(" ".join(question)) == pytest.approx(expected)


def test_words_are_found_by_stem_case_accent_and_column() -> None:
    english = ["Café shoes", "green", "ω", None, *"xxxxxxxxx"]
    german = ["Schuhe", "shoe", None, "日本 text", *"yyyyyyyyy"]
    words = WordIndex.build(zip(english, german, strict=True), 2)
    assert words.coverage("SHOE").nonzero()[0].tolist() == [0, 1]
    assert words.coverage("shoe", [0]).nonzero()[0].tolist() == [0]
    assert words.coverage("cafe").nonzero()[0].tolist() == [0]
    assert words.coverage("Ω 日本").nonzero()[0].tolist() == [2, 3]


@given(st.text())
def test_any_text_is_a_valid_query(text: str) -> None:
    words = WordIndex.build([[text], ["shoe"], ["hat"]])
    found = words.coverage(text + ' AND "NEAR( * ^')
    assert np.isfinite(found).all()
    assert found[0] > 0 or not re.search(r"[a-zA-Z0-9]", text)


def test_items_with_all_words_in_one_column_are_found() -> None:
    words = WordIndex.build([("red shoe", None), ("red", "shoe"), ("Shoes, red", "x")], 2)
    assert words.with_all(["red", "shoe"]).tolist() == [0, 2]
    assert words.with_all(["red", "none"]).tolist() == []


def make_index(folder: Path) -> Path:
    with Index.create(folder, 8, ["image"], texts=["title"]) as index:
        for start in (0, 40):
            metadata = [{"title": f"red shoe {row}"} if row % 5 else None for row in range(start, start + 40)]
            ids, codes = [str(row) for row in range(start, start + 40)], np.zeros((40, 1), np.uint8)
            index.add(ids, {"image": codes}, metadata=metadata)
        index.remove(["7"])
    return folder


def test_an_index_stores_the_words_of_its_items(tmp_path: Path) -> None:
    with Index.open(make_index(tmp_path / "index"), writable=True) as index:
        assert index.words is not None
        assert len(index.words) == len(index) == 79
        assert index.words.coverage("9 7").nonzero()[0].tolist() == [8]
        index.put(["9"], {"image": np.zeros((1, 1), np.uint8)}, metadata=[{"title": "hat"}])
        assert index.words.coverage("hat").nonzero()[0].tolist() == [78]
        assert not index.words.coverage("9").any()
        index.compact()
        assert index.words.coverage("hat").nonzero()[0].tolist() == [78]
        index.verify()
    with Index.create(tmp_path / "other", 8, ["image"]) as index:
        assert index.words is None
        assert b"texts" not in (tmp_path / "other" / "manifest.json").read_bytes()


@pytest.mark.parametrize("section", ["word offsets", "text lengths", "posting offsets", "posting rows"])
def test_forged_postings_are_refused(tmp_path: Path, section: str) -> None:
    folder = make_index(tmp_path / "index")
    manifest = files.read_manifest(folder)
    record, start = manifest.segments[0], files.ALIGNMENT
    content = bytearray((folder / record.file).read_bytes())
    checksums = list(record.checksums)
    for number, part in enumerate(files.sections_of(record, 8)):
        if part.name == section:
            values = np.frombuffer(content, part.dtype, int(np.prod(part.shape)), start)
            values[-2] = -5 if values.dtype.kind == "i" else 1 << 30
            checksums[number] = zlib.crc32(values.tobytes())
        start += part.padded
    (folder / record.file).write_bytes(content)
    forged = replace(manifest, segments=(replace(record, checksums=tuple(checksums)), *manifest.segments[1:]))
    files.write_manifest(folder, forged)
    with pytest.raises(StorageError, match=r"has (offsets|rows) out of range|texts of negative length"):
        Index.open(folder)
