"""A collection with items in a database returns the results of a local one, as far as its shortlists contain them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder, InputError, StorageError
from dlfh.cli import main
from dlfh.collection import ranking as module
from dlfh.collection.item_codes import columnar
from dlfh.datasets import Items
from dlfh.features import BagOfWords
from tests.index.engines import DATABASES, Databases

WORDS = {
    "car": "red fast wheel road engine",
    "dog": "bark tail small friend pet",
    "tree": "leaf green tall forest wood",
}


def items(n: int = 240) -> Items:
    rng = np.random.default_rng(0)
    labels = [str(rng.choice([*WORDS])) for _ in range(n)]
    texts = [" ".join([*rng.choice(WORDS[label].split(), 3), f"word{row}"]) for row, label in enumerate(labels)]
    titles = [" ".join(rng.choice(WORDS[label].split(), 2)) for label in labels]
    own = Items.of({"text": texts, "title": titles}, [[label] for label in labels], [f"item {row}" for row in range(n)])
    metadata = [card | {"columns": {"price": row % 50}} for row, card in enumerate(own.metadata)]
    return Items(**{**own.__dict__, "metadata": metadata})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("collections") / "shop"
    encoder = Encoder({"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=32, random_state=0))
    Collection.build(place, items(), encoder, hold_out=40).collection.close()
    return place


def copied(folder: Path, engine: str, tmp_path: Path, databases: Databases) -> Collection:
    with Collection.open(folder) as source:
        return source.copy(tmp_path / "copy", address=databases.place(engine))


@pytest.mark.parametrize("engine", DATABASES)
def test_results_of_a_small_collection_equal_those_of_a_local_one(
    engine: str, folder: Path, tmp_path: Path, databases: Databases
) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"match": "codes", "modalities": "title"},
        {"match": "words"},
        {"match": "both", "modalities": "all"},
        {"match": "both", "hashed_only": True},
        {"match": "codes", "hashed_only": True, "ranking": "hamming"},
        {"ranking": "any"},
        {"where": {"price": {"<": 10}}},
        {"match": "both", "modalities": "all", "where": {"labels": ["car"], "price": {">=": 25}}},
        {"ids": [f"item {row}" for row in range(30)]},
        {"match": "codes", "radius": 9},
        {"min_probability": 0.5},
    ]
    with Collection.open(folder) as local, copied(folder, engine, tmp_path, databases) as there:
        for text in ("red engine on the road", "word7 forest", "pet"):
            for how in ways:
                expected, found = (own.search("text", text, 8, **how).to_dicts() for own in (local, there))
                assert found == expected, how
        for how in ({}, {"hashed_only": True}, {"where": {"price": {"<": 10}}}, {"radius": 6}):
            expected, found = (own.similar("item 3", 8, **how).to_dicts() for own in (local, there))
            assert found == expected, how
        assert [item.id for item in there] == [item.id for item in local]


@pytest.mark.parametrize("engine", DATABASES)
def test_filters_apply_before_a_shortlist_is_cut(
    engine: str, folder: Path, tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filtered search by words equals a search of all items, however short the shortlist is."""
    monkeypatch.setattr(module, "_MIN_LENGTH", 4)
    monkeypatch.setattr(module, "_FACTOR", 1)
    monkeypatch.setattr("dlfh.index.index._FILTER_BATCH", 10)
    scopes: list[dict[str, Any]] = [
        {"where": {"price": 49}},
        {"where": {"price": {">=": 45}}},
        {"where": {"and": []}},
        {"where": {"labels": "dog", "price": {">": 40}}, "ids": [f"item {row}" for row in range(100, 200)]},
        {"ids": ["item 199", "item 150"]},
    ]
    with Collection.open(folder) as local, copied(folder, engine, tmp_path, databases) as there:
        for text in ("red engine on the road", "small friend with a tail"):
            for scope in scopes:
                expected, found = (own.search("text", text, 4, match="words", **scope) for own in (local, there))
                assert [hit.probability for hit in found] == [hit.probability for hit in expected], scope
                both = [own.search("text", text, 4, match="both", **scope) for own in (local, there)]
                assert len(both[0]) == len(both[1]), scope


def test_a_collection_in_a_database_is_built_changed_and_evaluated(
    tmp_path: Path, folder: Path, databases: Databases
) -> None:
    address = databases.place("duckdb")
    encoder = Encoder({"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=32, random_state=0))
    built = Collection.build(tmp_path / "shop", items(), encoder, hold_out=40, address=address)
    built.collection.close()
    with Collection.open(folder) as local:
        local_quality = Collection.build(tmp_path / "local", items(), encoder, hold_out=40).evaluation.quality
        assert built.evaluation.quality == local_quality
        new = Items.of(
            {"text": ["red wheel", "green leaf"], "title": ["fast", "tall"]}, [["car"], ["tree"]], ["n1", "n2"]
        )
        with Collection.open(tmp_path / "shop", writable=True, address=address) as there:
            assert not there.add(new)
            there.remove(["item 0"])
            assert len(there) == len(local) + 1
            there.verify()
            there.remove(["n1", "n2"])
        queries = Items.of({"text": ["red fast", "bark"], "title": ["road", "tail"]}, [["car"], ["dog"]], ["q1", "q2"])
        with Collection.open(tmp_path / "shop", address=address) as there:
            measured = there.evaluate(queries)
            assert len(measured.quality) == 2
            assert measured.calibration


def test_a_failed_copy_leaves_nothing(
    folder: Path, tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = databases.place("duckdb")
    monkeypatch.setattr("dlfh.collection.changing._BATCH", 100)
    calls = []

    def fail(some: Any, *more: Any) -> Any:
        calls.append(len(some))
        if len(calls) == 2:
            raise StorageError("the power is gone")
        return columnar(some, *more)

    monkeypatch.setattr("dlfh.collection.changing.columnar", fail)
    with Collection.open(folder) as source:
        with pytest.raises(StorageError, match="the power is gone"):
            source.copy(tmp_path / "copy", address=address)
        assert not (tmp_path / "copy").exists()
        monkeypatch.undo()
        with source.copy(tmp_path / "copy", address=address) as copy:
            assert len(copy) == len(source)
        with pytest.raises(InputError, match="already"):
            source.copy(tmp_path / "again", address=address)
        assert not (tmp_path / "again").exists()


def test_a_short_shortlist_finds_most_items(
    folder: Path, tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MIN_LENGTH", 40)
    monkeypatch.setattr(module, "_FACTOR", 4)
    with Collection.open(folder) as local, copied(folder, "duckdb", tmp_path, databases) as there:
        texts = [f"{word} word{row}" for row, word in enumerate(" ".join(WORDS.values()).split())]
        pairs = [(own.search("text", texts, 10)) for own in (local, there)]
        shares = [len({*one.ids} & {*other.ids}) / 10 for one, other in zip(*pairs, strict=True)]
        assert np.mean(shares) > 0.8


def test_commands_accept_a_collection_with_items_in_a_database(
    folder: Path,
    tmp_path: Path,
    databases: Databases,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = "s3cret"
    address = databases.place("postgresql").replace("postgres:@", f"postgres:{secret}@")
    there, back = tmp_path / "there", tmp_path / "back"
    assert main(["copy", str(folder), "-o", str(there), "--items", address]) == 0
    told = capsys.readouterr()
    assert "240 items, stored in postgresql://postgres@" in told.out
    assert "set DLFH_ENGINES to this address to open them" in told.out
    assert main(["search", str(there), "red"]) != 0
    assert "set the environment variable DLFH_ENGINES to this address" in capsys.readouterr().err
    monkeypatch.setenv("DLFH_ENGINES", f"duckdb:other.duckdb '{address}'")
    assert main(["copy", str(there), "-o", str(back)]) == 0
    assert main(["info", str(there), "--verify"]) == 0
    capsys.readouterr()
    answers = []
    for place in (folder, there, back):
        assert main(["search", str(place), "red", "engine", "--where", "price<10", "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]
    written = [file.read_bytes() for file in there.rglob("*") if file.is_file()]
    assert secret.encode() not in b"".join(written)
    assert secret not in told.out + told.err
    (there / "items.json").write_text("{}", encoding="utf-8")
    assert main(["search", str(there), "red"]) != 0
    assert "items.json cannot be read" in capsys.readouterr().err
