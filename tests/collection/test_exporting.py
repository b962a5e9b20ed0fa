"""Exported files are readable without dlfh, and find the same items."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import shlex
import zipfile
from pathlib import Path

import faiss
import numpy as np
import pyarrow.parquet
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.cli import main
from dlfh.collection.exporting import FORMATS, export
from dlfh.datasets import Items
from dlfh.features import BagOfWords
from tests.index.engines import Databases

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = ["a red car", "a blue car", "a small dog", None, "it's a 'dog'; DROP TABLE shop; -- \\ %s 😀"]
    titles = ["rotes Auto", "blaues Auto", "kleiner Hund", "Hund", "Hund"]
    labels = [["car"], ["car"], ["dog"], ["dog"], []]
    items = Items.of({"text": texts, "title": titles}, labels, ["a", "b'", '"c"', "d\\", "😀"])
    encoder = Encoder({"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=20, random_state=0))
    place = tmp_path_factory.mktemp("export") / "shop"
    Collection.build(place, items, encoder).collection.close()
    return place


def test_parquet_has_every_item(shop: Path, tmp_path: Path) -> None:
    assert main(["export", str(shop), "-o", str(tmp_path / "shop.parquet")]) == 0
    table = pyarrow.parquet.read_table(tmp_path / "shop.parquet")
    assert table.schema.metadata[b"n_bits"] == b"20"
    with Collection.open(shop) as collection:
        for row, item in zip(table.to_pylist(), collection, strict=True):
            assert row["id"] == item.id
            assert json.loads(row["metadata"]) == item.metadata
            for name in ("text", "title"):
                code = item.codes.get(name)
                assert row[f"{name}_code"] == (None if code is None else code.tobytes())
                assert row[f"{name}_state"] == item.states[name]


def test_faiss_finds_what_the_index_finds(shop: Path, tmp_path: Path) -> None:
    assert main(["export", str(shop), "-o", str(tmp_path / "shop.faiss.zip"), "--modality", "text"]) == 0
    with zipfile.ZipFile(tmp_path / "shop.faiss.zip") as archive:
        archive.extractall(tmp_path)
    index = faiss.read_index_binary(str(tmp_path / "codes.faiss"))
    ids = json.loads((tmp_path / "ids.json").read_text(encoding="utf-8"))
    with Collection.open(shop) as collection:
        codes = np.stack([item.codes["text"] for item in collection if "text" in item.codes])
        distances, rows = index.search(codes, 4)
        hits = collection.index.search("text", codes, 4)
        assert [[ids[row] for row in own] for own in rows] == hits.ids
        assert np.array_equal(distances, hits.distances)


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_is_replaced_in_one_step(shop: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"shop{suffix}"
    writer = os.fork()
    if writer == 0:
        try:
            real = os.replace

            def replace(source: Path, target: Path) -> None:
                real(source, target)
                os._exit(9)  # killed after the first file was replaced

            os.replace = replace  # type: ignore[assignment]
            with Collection.open(shop) as collection:
                export(collection, path, overwrite=True)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == 9
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with Collection.open(shop) as collection:
        export(collection, path, overwrite=True)
    assert written == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_sql_creates_a_pgvector_table(shop: Path, tmp_path: Path, databases: Databases) -> None:
    assert main(["export", str(shop), "-o", str(tmp_path / "shop.sql")]) == 0
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(databases.new_database(), autocommit=True) as connection, Collection.open(shop) as collection:
        connection.execute((tmp_path / "shop.sql").read_text(encoding="utf-8"))
        rows = connection.execute("SELECT id, metadata, title_code, text_state FROM shop").fetchall()
        assert {row[0] for row in rows} == {*collection.index.ids()}
        for name, metadata, bits, state in rows:
            item = collection.get(name)
            assert metadata == item.metadata
            assert bits == "".join(map(str, np.unpackbits(item.codes["title"], count=20)))
            assert state == item.states["text"]
        nearest = connection.execute(
            "SELECT id FROM shop ORDER BY title_code <~> (SELECT title_code FROM shop WHERE id = 'a') LIMIT 2"
        ).fetchall()
        assert {name for (name,) in nearest} == {"a", "b'"}


def test_the_examples_in_the_docs_find_items_without_dlfh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, databases: Databases
) -> None:
    blocks = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8").split("```")[1::2]
    commands, of_faiss, of_postgres, of_duckdb = (
        next(block for block in blocks if mark in block)
        for mark in ("dlfh export", "deserialize_index_binary", "<~>", "'shop.parquet'")
    )
    words = ["dice", "game dice", "rain", "rain cloud"]
    items = Items.of({"image": words, "text": words}, [["game"], ["game"], ["sky"], ["sky"]], ["dice", "b", "c", "d"])
    encoder = Encoder({"image": BagOfWords(), "text": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    Collection.build(tmp_path / "shop", items, encoder).collection.close()
    monkeypatch.chdir(tmp_path)
    for line in commands.strip().splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(of_faiss, {"faiss": faiss, "json": json, "np": np, "zipfile": zipfile})
    assert {*ast.literal_eval(said.getvalue())} == {*items.ids}
    rows = importlib.import_module("duckdb").sql(of_duckdb).fetchall()
    assert {name for name, _ in rows} == {*items.ids}
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(databases.new_database(), autocommit=True) as connection:
        connection.execute(Path("shop.sql").read_text(encoding="utf-8"))
        select, index, *_ = of_postgres.split(";")
        assert connection.execute(select).fetchall()[0][1] == 0
        connection.execute(index)


def test_invalid_requests_are_refused(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["shop.xml"], "its name must end in .parquet, .faiss.zip, .sql"),
        (["shop.faiss"], "its name must end in .parquet, .faiss.zip, .sql"),
        (["shop.sql", "--modality", "text"], "modality applies to .faiss.zip files only"),
        (["shop.faiss.zip", "--modality", "sound"], "unknown modality 'sound': the collection has 'text', 'title'"),
    ):
        assert main(["export", str(shop), "-o", str(tmp_path / arguments[0]), *arguments[1:]]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "shop.sql").write_text("mine", encoding="utf-8")
    assert main(["export", str(shop), "-o", str(tmp_path / "shop.sql")]) == 2
    assert (tmp_path / "shop.sql").read_text(encoding="utf-8") == "mine"
