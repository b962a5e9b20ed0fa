"""Words of a collection: stored with its items, or kept in a file that is derived from a database and never trusted."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection import words as words_file
from dlfh.collection.words import WORDS_FILE
from dlfh.datasets import Items
from dlfh.errors import InputError, StorageError
from dlfh.features import BagOfWords
from dlfh.index.words import Words

TEXTS = ["red shoe", "blue shoe", "red hat, felt", "green scarf", "Nike cap", "two socks", "", "wool glove", "a belt"]


def build(folder: Path, n: int = 18, address: str | None = None) -> Path:
    texts = [f"{TEXTS[row % 9]} {row}" for row in range(n)]
    items = Items.of({"english": texts, "german": texts}, [["worn" if row % 2 else "held"] for row in range(n)])
    model = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=8, random_state=0))
    Collection.build(folder, items, model, address=address).collection.close()
    return folder


def more(*texts: str) -> Items:
    return Items.of({"english": list(texts)}, None, [f"new-{text}" for text in texts])


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


def test_phrases_are_found_in_texts(tmp_path: Path) -> None:
    with Collection.open(build(tmp_path / "shop")) as collection:
        words = collection.searcher.words
        assert words.contains("Hats felt")
        assert words.contains("socks")
        assert not words.contains("felt hat")
        assert not words.contains("shoe felt")
        assert not words.contains("none")
        assert not words.contains("☃")


@pytest.fixture(name="shop", scope="module")
def _shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, bytes]:
    """A collection in a database, its address, and the file with its words."""
    pytest.importorskip("duckdb")
    folder = tmp_path_factory.mktemp("words")
    address = f"duckdb:{folder / 'items.duckdb'}"
    shop = build(folder / "shop", address=address)
    with Collection.open(shop, address=address) as collection:
        collection.search("english", "nike", match="words")
    return shop, address, (shop / WORDS_FILE).read_bytes()


def n_found(shop: Path, address: str) -> int:
    with Collection.open(shop, address=address) as collection:
        return len(collection.search("english", "nike", match="words"))


def test_the_file_is_used_only_for_the_state_it_was_derived_from(
    shop: tuple[Path, str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address, whole = shop
    made: list[int] = []
    real = Words.of

    def of(*given: Any) -> Words:
        made.append(1)
        return real(*given)

    monkeypatch.setattr(Words, "of", of)
    assert (n_found(folder, address), made) == (2, [])
    (folder / WORDS_FILE).unlink()
    assert (n_found(folder, address), made) == (2, [1])
    assert (n_found(folder, address), made) == (2, [1])
    made.clear()
    with Collection.open(folder, writable=True, address=address) as collection:
        collection.add(more("nike"))
    (folder / WORDS_FILE).write_bytes(whole)  # an earlier state
    assert (n_found(folder, address), made) == (3, [1])
    with Collection.open(folder, writable=True, address=address) as collection:
        collection.remove(["new-nike"])
    assert n_found(folder, address) == 2


def seal(header: dict[str, Any], content: bytes) -> bytes:
    about = {name: value for name, value in header.items() if name != "checksum"}
    about["sha256"] = hashlib.sha256(content).hexdigest()
    return words_file._encode_header(about) + b"\n" + content


def test_damaged_and_forged_files_are_rebuilt(shop: tuple[Path, str, bytes]) -> None:
    folder, address, _ = shop
    n_found(folder, address)
    whole = (folder / WORDS_FILE).read_bytes()
    rng = np.random.default_rng(0)
    header, _, content = whole.partition(b"\n")
    about = json.loads(header)
    for place in [*range(0, 400, 100), *rng.integers(len(whole), size=6).tolist()]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        (folder / WORDS_FILE).write_bytes(damaged)
        damage = pytest.raises(StorageError, match="is damaged: its checksum does not match")
        with Collection.open(folder, address=address) as collection, damage:
            collection.verify()
        assert n_found(folder, address) == 2
    sizes = about["bytes"]
    for number in range(len(sizes)):
        for change in (-8, 1 << 40):
            forged = about | {"bytes": [size + change * (place == number) for place, size in enumerate(sizes)]}
            (folder / WORDS_FILE).write_bytes(seal(forged, content))
            assert n_found(folder, address) == 2
    for place in rng.integers(len(content), size=10).tolist():
        changed = bytearray(content)
        changed[place] ^= 0xFF
        (folder / WORDS_FILE).write_bytes(seal(about, bytes(changed)))
        assert n_found(folder, address) <= 18
    (folder / WORDS_FILE).write_bytes(whole)
    with Collection.open(folder, address=address) as collection:
        collection.verify()


def test_a_huge_file_is_refused_before_it_is_read(shop: tuple[Path, str, bytes]) -> None:
    folder, address, whole = shop
    (folder / WORDS_FILE).write_bytes(whole)
    os.truncate(folder / WORDS_FILE, 200 << 30)  # sparse: it takes no space on the disk
    message = r"words\.dlfh has 214,748,364,800 bytes, more than the limit of .*: set DLFH_MAX_BYTES to raise"
    with pytest.raises(InputError, match=message):
        n_found(folder, address)
    (folder / WORDS_FILE).write_bytes(whole)


def test_a_crash_while_the_file_is_written_is_harmless(
    shop: tuple[Path, str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address, _ = shop
    (folder / WORDS_FILE).unlink(missing_ok=True)
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(target).name == WORDS_FILE:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert n_found(folder, address) == 2
    assert WORDS_FILE not in os.listdir(folder)
    assert n_found(folder, address) == 2
