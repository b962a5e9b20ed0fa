"""A collection's folder may come from somebody else: it cannot choose whom we connect to."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items
from dlfh.errors import InputError, ModelError, StorageError
from dlfh.features import BagOfWords
from dlfh.index.engines.address import parse_address


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    texts = ["a red car", "a blue car", "a small dog", "a big dog"]
    encoder = Encoder({"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    return encoder.fit({"text": texts, "title": texts}, [["car"], ["car"], ["dog"], ["dog"]])


def build(folder: Path, encoder: Encoder, address: str | None = None) -> Path:
    with Collection.create(folder, encoder, address=address) as collection:
        collection.add(Items.of({"text": ["a red car"], "title": ["a car"]}, [["car"]]))
    return folder


def name_database(folder: Path, address: Any) -> None:
    (folder / "items.json").write_text(json.dumps({"items": address}), encoding="utf-8")


@pytest.mark.parametrize("engine", ["postgresql", "milvus"])
@pytest.mark.parametrize("writable", [False, True])
def test_a_folder_cannot_make_us_connect(
    engine: str, writable: bool, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = build(tmp_path / "shop", encoder)
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setenv("MILVUS_TOKEN", "s3cret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        name_database(
            shop, f"{engine}://127.0.0.1:{port}/shop" if engine == "postgresql" else f"milvus://127.0.0.1:{port}"
        )
        for engines in ("", "postgresql://127.0.0.1/shop milvus://127.0.0.1 duckdb:shop.duckdb"):
            monkeypatch.setenv("DLFH_ENGINES", engines)
            with pytest.raises((InputError, StorageError), match=rf"says that its items are in {engine}://.*{port}"):
                Collection.open(shop, writable=writable)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_folder_cannot_make_us_open_a_file(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret", encoding="utf-8")
    shop = build(tmp_path / "shop", encoder, f"duckdb:{tmp_path}/items.duckdb#t")
    with importlib.import_module("duckdb").connect(str(tmp_path / "items.duckdb")) as connection:
        connection.execute("ALTER TABLE t RENAME TO hidden")
        read = f"SELECT content FROM read_text('{secret}')"
        columns = f"""SELECT * REPLACE (json_object('text', ({read})) AS metadata) FROM hidden"""
        connection.execute(f"CREATE VIEW t AS {columns}")
    monkeypatch.chdir(tmp_path)
    address = "duckdb:items.duckdb#t"
    name_database(shop, address)
    with pytest.raises(InputError, match=r"says that its items are in duckdb:/.*/items\.duckdb#t: if you trust"):
        Collection.open(shop)
    with pytest.raises(StorageError, match="is damaged: t is not a table that dlfh created"):
        Collection.open(shop, address=address)


SHOWN = "postgresql://ann@db.example.org/shop#t"


@pytest.mark.parametrize(
    "stored",
    [
        "postgresql://ann@db.example.org.evil.org/shop#t",
        "postgresql://db.example.org@evil.org/shop#t",
        "postgresql://ann@db.example.org,evil.org/shop#t",
        "postgresql://ann@db.example.org/shop?host=evil.org#t",
        "postgresql://ann@db.example.org/shop?hostaddr=6.6.6.6#t",
        "postgresql://ann@db.example.org:1/shop#t",
        "postgresql://ann@db.example.org/other#t",
        "postgresql://ann@db.example.org/shop#u",
        "postgresql://ann@db.example.org/shop",
        "postgresql://ann@db.example.org/../shop#t",
        "postgresql://ann%40evil.org@db.example.org/shop#t",
        "milvus://ann@db.example.org/shop#t",
        "duckdb:postgresql://ann@db.example.org/shop#t",
        "duckdb:../items.duckdb#t",
    ],
)
def test_only_the_very_address_that_the_user_names_is_opened(
    stored: str, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = build(tmp_path / "shop", encoder)
    name_database(shop, stored)
    monkeypatch.setenv("DLFH_ENGINES", f"{SHOWN} duckdb:{tmp_path}/items.duckdb#t")
    with pytest.raises(InputError, match="says that its items are in"):
        Collection.open(shop)
    with pytest.raises(InputError, match="says that its items are in"):
        Collection.open(shop, address=SHOWN)


def test_the_address_is_used_as_the_user_wrote_it(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, opened = build(tmp_path / "shop", encoder), list[str]()

    def of(place: str, **options: Any) -> Any:
        opened.append(place)
        raise StorageError("no server here")

    monkeypatch.setattr("dlfh.collection.folder.Index.open", of)
    written = "postgres://ann:s3cret@db.example.org/shop?password=t#t"
    name_database(shop, parse_address(written).shown.replace("ann@", "ann:forged@"))
    for environment, argument in (("", written), (f"duckdb:x  '{written}'", None)):
        monkeypatch.setenv("DLFH_ENGINES", environment)
        with pytest.raises(StorageError, match="no server here"):
            Collection.open(shop, address=argument)
    assert opened == [written] * 2  # with the user's password, not the folder's


def test_invalid_addresses_are_refused(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = build(tmp_path / "shop", encoder)
    with pytest.raises(InputError, match="are in its folder, not in a database: omit the address"):
        Collection.open(shop, address="duckdb:items.duckdb")
    for address in (
        "../../etc/passwd",
        None,
        3,
        ["duckdb:x"],
        "duckdb:x#no-name",
        "milvus:x",
        "postgresql://[/x",
        "\ud800",
    ):
        name_database(shop, address)
        with pytest.raises(ModelError, match=r"items\.json does not contain the address of a database"):
            Collection.open(shop, address="duckdb:x")
    name_database(shop, "duckdb:items\0\x1b.duckdb")
    with pytest.raises(InputError) as caught:
        Collection.open(shop)
    assert str(caught.value).isprintable()
    name_database(shop, "duckdb:items.duckdb")
    for engines, message in (
        ("'duckdb:", "DLFH_ENGINES has a quote that is not closed"),
        ("items.duckdb", "DLFH_ENGINES .* must begin with one of"),
    ):
        monkeypatch.setenv("DLFH_ENGINES", engines)
        with pytest.raises(InputError, match=message):
            Collection.open(shop)


def test_a_local_collection_imports_no_engine(encoder: Encoder, tmp_path: Path) -> None:
    shop = build(tmp_path / "shop", encoder)
    script = (
        "import sys\n"
        "from dlfh import Collection\n"
        f"Collection.open({str(shop)!r}).close()\n"
        "print([name for name in ('duckdb', 'psycopg', 'pymilvus', 'faiss') if name in sys.modules])"
    )
    environment = {**os.environ, "DLFH_ENGINES": SHOWN}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
