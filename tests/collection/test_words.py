"""Full-text search by BM25, with a file that is derived from the index and never trusted."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import DLFH, Collection, Encoder
from dlfh._parallel import cancellable
from dlfh.collection import words as words_file
from dlfh.collection.words import WORDS_FILE, WordIndex
from dlfh.datasets import Items
from dlfh.errors import InputError, StorageError
from dlfh.features import BagOfWords

TEXTS = ["red shoe", "blue shoe", "red hat, felt", "green scarf", "Nike cap", "two socks", "", "wool glove", "a belt"]


def build(folder: Path, n: int = 18) -> Path:
    texts = [f"{TEXTS[row % 9]} {row}" for row in range(n)]
    items = Items.of({"english": texts, "german": texts}, [["worn" if row % 2 else "held"] for row in range(n)])
    model = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=8, random_state=0))
    Collection.build(folder, items, model).collection.close()
    return folder


def more(*texts: str) -> Items:
    return Items.of({"english": list(texts)}, None, [f"new-{text}" for text in texts])


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


def test_words_follow_every_change_of_a_collection(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")

    def found(text: str) -> list[str]:
        with Collection.open(shop) as collection:
            return collection.search("english", text, match="words", modalities="english").ids

    assert found("nike") == ["4", "13"]
    with Collection.open(shop, writable=True) as collection:
        collection.add(more("nike again"))
        assert {*collection.search("english", "nike", match="words").ids} == {"4", "13", "new-nike again"}
        collection.remove(["4"])
        assert {*collection.search("english", "nike", match="words").ids} == {"13", "new-nike again"}
    assert {*found("nike")} == {"13", "new-nike again"}
    with Collection.open(shop, writable=True) as collection:
        changed = Items.of({"english": ["a plain cap"]}, None, ["13"])
        collection.add(changed, update=True)
    assert found("nike") == ["new-nike again"]


def test_the_file_is_used_only_for_the_state_it_was_derived_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = build(tmp_path / "shop")
    old = (shop / WORDS_FILE).read_bytes()
    made: list[int] = []
    real = WordIndex.build

    def of(*given: Any) -> WordIndex:
        made.append(1)
        return real(*given)

    monkeypatch.setattr(WordIndex, "build", of)

    def n_found() -> int:
        with Collection.open(shop) as collection:
            return len(collection.search("english", "nike", match="words"))

    assert (n_found(), made) == (2, [])
    with Collection.open(shop, writable=True) as collection:
        collection.add(more("nike"))
    made.clear()
    assert (n_found(), made) == (3, [])
    (shop / WORDS_FILE).write_bytes(old)  # an earlier state
    assert (n_found(), made) == (3, [1])
    made.clear()
    shutil.copytree(build(tmp_path / "other") / "index", tmp_path / "unused")
    made.clear()
    shutil.copy(tmp_path / "other" / WORDS_FILE, shop / WORDS_FILE)  # another index
    assert (n_found(), made) == (3, [1])
    (shop / WORDS_FILE).unlink()
    assert n_found() == 3
    Collection.open(shop, writable=True).close()  # a writer repairs it
    made.clear()
    assert (n_found(), made) == (3, [])


def test_every_flipped_byte_is_detected_and_harmless(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")
    whole = (shop / WORDS_FILE).read_bytes()
    places = [*range(0, 400, 7), *np.random.default_rng(0).integers(len(whole), size=40).tolist()]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        (shop / WORDS_FILE).write_bytes(damaged)
        with Collection.open(shop) as collection:
            assert collection.search("english", "nike", match="words").ids == ["4", "13"]
            with pytest.raises(StorageError, match="is damaged: its checksum does not match"):
                collection.verify()
    (shop / WORDS_FILE).write_bytes(whole)
    with Collection.open(shop) as collection:
        collection.verify()


def forge(path: Path, *statements: str) -> None:
    """Run statements in the database of a file, and make its checksums fit."""
    header, _, content = path.read_bytes().partition(b"\n")
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content)
        database.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.execute("PRAGMA writable_schema = RESET")
        content = database.serialize()
    about = {name: value for name, value in json.loads(header).items() if name != "checksum"}
    sealed = words_file._encode_header(about | {"sha256": hashlib.sha256(content).hexdigest()})
    path.write_bytes(sealed + b"\n" + content)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE words_docsize", f"CREATE VIEW words_docsize AS {ENDLESS} AS id, 0 AS sz FROM n"],
        ["DROP TABLE words_docsize", f"CREATE VIEW words_docsize AS {ENDLESS} AS id, 0 AS sz FROM n LIMIT 1500000000"],
        ["DROP TABLE words", f"CREATE VIEW words AS {ENDLESS} AS words FROM n"],
        ["DROP TABLE words", "CREATE TABLE words (words)"],
        ["DROP TABLE words", "CREATE VIRTUAL TABLE words USING fts5(c0, content='', tokenize='trigram')"],
        ["CREATE TABLE more (x)"],
        ["CREATE INDEX more ON words_docsize (sz)"],
        [f"CREATE TRIGGER more AFTER INSERT ON words_docsize BEGIN {ENDLESS} FROM n; END"],
        ["INSERT INTO words_docsize SELECT id + 1000, sz FROM words_docsize"],
        ["DELETE FROM words_docsize WHERE id = 4"],
        ["UPDATE words_data SET block = x'00000000010100008FFFFF7F010101' WHERE id = 10"],  # 2**25 segments
        ["UPDATE words_data SET block = x'000000008F8F8F8F8F8F01' WHERE id = 10"],
        ["UPDATE words_data SET block = 7 WHERE id = 10"],
        ["UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'words_docsize'"],
    ],
    ids=lambda statements: statements[-1][:50],
)
def test_a_forged_file_is_rebuilt_and_runs_nothing(tmp_path: Path, statements: list[str]) -> None:
    shop = build(tmp_path / "shop")
    forge(shop / WORDS_FILE, *statements)
    with Collection.open(shop) as collection:
        state = collection.index.state or ""
        assert WordIndex.read(shop / WORDS_FILE, state, 2, len(collection)) is None
        assert collection.search("english", "nike", match="words").ids == ["4", "13"]


def test_an_unforged_file_is_not_rebuilt(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")
    forge(shop / WORDS_FILE)
    with Collection.open(shop) as collection:
        state = collection.index.state or ""
        assert WordIndex.read(shop / WORDS_FILE, state, 2, len(collection)) is not None


def test_a_file_that_fails_during_a_query_is_rebuilt(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")
    forge(shop / WORDS_FILE, "DELETE FROM words_data WHERE id > 10")
    with Collection.open(shop) as collection:
        assert collection.searcher.words.current() is not None
        assert collection.search("english", "nike", match="words").ids == ["4", "13"]


def test_a_query_is_interrupted_after_too_many_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [[f"red {n}"] for n in range(2000)]
    WordIndex.build(texts).write(tmp_path / WORDS_FILE, "state")
    found = WordIndex.read(tmp_path / WORDS_FILE, "state", 1, 2000)
    assert found is not None
    assert np.count_nonzero(found.coverage("red")) == 2000
    monkeypatch.setattr(words_file, "_MAX_STEPS", 0)
    monkeypatch.setattr(words_file, "_MAX_STEPS_PER_TEXT", 0)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        found.coverage("red")


def test_threads_that_search_one_file_take_turns(tmp_path: Path) -> None:
    texts = [[f"red{n % 3} {n}"] for n in range(6000)]
    WordIndex.build(texts).write(tmp_path / WORDS_FILE, "state")
    program = f"""
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np
from dlfh.collection.words import WordIndex
words = WordIndex.read(Path({str(tmp_path / WORDS_FILE)!r}), "state", 1, 6000)
with ThreadPoolExecutor(8) as pool:
    print(sum(map(np.count_nonzero, pool.map(words.coverage, [f"red0 red1 {{n}}" for n in range(300)]))))
"""
    # In another process, because threads that wait for each other for ever would stop this one.
    found = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert int(found.stdout) == 300 * 4000 + 100


def test_a_query_stops_inside_sqlite_when_it_is_cancelled() -> None:
    words = WordIndex.build([[f"red{n % 3}"] for n in range(10_000)])
    words._weight("red0", (0,))
    calls: list[int] = []

    def check() -> None:
        calls.append(len(calls))
        if len(calls) > 1:
            raise TimeoutError("too late")

    with cancellable(check), pytest.raises(TimeoutError, match="too late"):
        words.coverage("red0")
    assert len(calls) == 3  # before the query, in the query, and after its interruption


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")
    os.truncate(shop / WORDS_FILE, 200 << 30)  # sparse: it takes no space on the disk
    with Collection.open(shop) as collection:
        message = (
            r"words\.dlfh has 214,748,364,800 bytes, more than the limit of .*: set DLFH_MAX_BYTES to raise the limit"
        )
        with pytest.raises(InputError, match=message):
            collection.search("english", "nike", match="words")
        with pytest.raises(InputError, match=message):
            collection.verify()


def test_a_crash_while_the_file_is_written_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = build(tmp_path / "shop")
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(target).name == WORDS_FILE:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with Collection.open(shop, writable=True) as collection:
        collection.add(more("nike"))
    assert sorted(os.listdir(shop)) == ["collection.json", "index", "model", WORDS_FILE]
    with Collection.open(shop) as collection:
        assert len(collection.search("english", "nike", match="words")) == 3


def test_readers_do_not_write_the_file(tmp_path: Path) -> None:
    shop = build(tmp_path / "shop")
    (shop / WORDS_FILE).unlink()
    with Collection.open(shop) as collection:
        assert len(collection.search("english", "nike", match="both")) == 10
    assert sorted(os.listdir(shop)) == ["collection.json", "index", "model"]
