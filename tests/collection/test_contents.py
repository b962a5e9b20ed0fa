"""Content hashes of items, and the cache of file hashes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh.collection.choosing import TrialSample
from dlfh.collection.contents import FILES, FileHashes, content_hash, content_hashes, hash_file, item_groups
from dlfh.collection.evaluation import hold_out
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Vectors
from dlfh.features.combined import Thumbnail

LONG_AGO = time.time() - 3600


def old_file(path: Path, content: bytes) -> Path:
    """Write a file with a modification time of an hour ago."""
    path.write_bytes(content)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as unchanged for long enough to be cached."""
    monkeypatch.setattr("dlfh.collection.contents._RACY_SECONDS", -10.0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that are read."""
    files: list[Path] = []

    def hash_and_remember(path: Path) -> str:
        files.append(path)
        return hash_file(path)

    monkeypatch.setattr("dlfh.collection.contents.hash_file", hash_and_remember)
    return files


def test_images_and_vectors_have_hashes_and_texts_do_not(tmp_path: Path) -> None:
    picture = old_file(tmp_path / "a.png", b"picture")
    rows = sp.csr_array(np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 0.0]]))
    items = Items.of({"text": ["a", "b", "c"], "image": [picture, None, tmp_path / "gone.png"], "numbers": rows})
    featurizers = {"text": BagOfWords(), "image": Thumbnail(), "numbers": Vectors()}
    first, second, third = content_hashes(featurizers, items, lambda path, row, name: hash_file(path))
    assert [sorted(own) for own in (first, second, third)] == [["image", "numbers"], ["numbers"], ["numbers"]]
    assert first["image"] == hash_file(picture) == content_hash(b"picture")
    assert first["numbers"] == second["numbers"] != third["numbers"]


@pytest.mark.usefixtures("patient")
def test_a_file_is_read_again_only_after_it_changed(tmp_path: Path, read: list[Path]) -> None:
    file = old_file(tmp_path / "a.png", b"one")
    for _ in range(2):
        hashes = FileHashes(tmp_path)
        assert hashes(file) == content_hash(b"one")
        assert read == [file]
        hashes.save()
    old_file(file, b"two")  # same size and modification time
    hashes = FileHashes(tmp_path)
    assert hashes(file) == content_hash(b"two")
    untrusting = FileHashes(tmp_path, use_cache=False)
    assert untrusting(file) == content_hash(b"two")
    assert len(read) == 3


def test_a_file_that_changed_recently_is_not_cached(tmp_path: Path, read: list[Path]) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    for n_read in (1, 2):
        hashes = FileHashes(tmp_path)
        hashes(tmp_path / "a.png")
        assert len(read) == n_read
        hashes.save()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("damage", [b"", b"{}\n{}", b"\xff\xff", b'{"format": "dlfh-files 1", "sha256": "00"}\n{}'])
def test_a_damaged_cache_is_ignored(tmp_path: Path, damage: bytes, read: list[Path]) -> None:
    file = old_file(tmp_path / "a.png", b"one")
    (tmp_path / FILES).write_bytes(damage)
    hashes = FileHashes(tmp_path)
    assert hashes(file) == content_hash(b"one")
    assert read == [file]


def test_a_huge_cache_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / FILES).touch()
    os.truncate(tmp_path / FILES, 200 << 30)  # sparse: it takes no space on the disk
    with pytest.raises(
        InputError, match=r"files\.dlfh has 214,748,364,800 bytes, .* set DLFH_MAX_BYTES to raise the limit"
    ):
        FileHashes(tmp_path)


def test_a_cache_that_takes_more_memory_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"[" + b"[]," * 50_000 + b"[]]"
    header = json.dumps({"format": "dlfh-files 1", "sha256": hashlib.sha256(body).hexdigest()}).encode()
    (tmp_path / FILES).write_bytes(header + b"\n" + body)
    assert FileHashes(tmp_path)._cached == {}
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1_000_000))
    with pytest.raises(InputError, match=r"files\.dlfh takes up to .* bytes of memory to read, more than the limit"):
        FileHashes(tmp_path)


@pytest.mark.usefixtures("patient")
def test_the_cache_survives_a_move_of_files_and_collection(tmp_path: Path, read: list[Path]) -> None:
    (tmp_path / "here" / "shop").mkdir(parents=True)
    old_file(tmp_path / "here" / "a.png", b"one")
    hashes = FileHashes(tmp_path / "here" / "shop")
    hashes(tmp_path / "here" / "a.png")
    hashes.save()
    (tmp_path / "here").rename(tmp_path / "there")
    moved = FileHashes(tmp_path / "there" / "shop")
    assert moved(tmp_path / "there" / "a.png") == content_hash(b"one")
    assert len(read) == 1


def numbered(groups: np.ndarray) -> list[int]:
    return [groups.tolist().index(group) for group in groups]


def test_copies_are_equal_in_every_modality(tmp_path: Path) -> None:
    contents = [b"one", b"two", b"one", b"longer", b"two"]
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    vectors = np.array([[1.0, 2], [0, 1], [1, 2], [0, 0], [0, 1]])
    texts = ["a", "b", "a", None, "c"]
    assert numbered(item_groups({"image": files})) == [0, 1, 0, 3, 1]
    assert numbered(item_groups({"image": files, "text": texts})) == [0, 1, 0, 3, 4]
    for matrix in (vectors, sp.csr_array(vectors)):
        assert numbered(item_groups({"vector": matrix, "image": files})) == [0, 1, 0, 3, 1]


def test_missing_files_are_left_to_the_reader(tmp_path: Path) -> None:
    assert numbered(item_groups({"image": [tmp_path / "a.png", tmp_path / "b.png", None]})) == [0, 1, 2]


def test_copies_of_held_out_items_are_held_out() -> None:
    texts = [f"text {number % 50}" for number in range(200)]
    labels = [[f"label {number % 5}"] for number in range(200)]
    queries, others = hold_out(Items.of({"a": texts, "b": texts}, labels), 40)
    assert len(queries) == 40
    assert not set(queries.modalities["a"]) & set(others.modalities["a"])
    sample = TrialSample.draw({"a": texts}, LabelSets.from_labels(labels), 0)
    held_out = {sample.values["a"][row] for row in sample.held_out}
    assert len(sample.held_out) == 64
    assert not held_out & {sample.values["a"][row] for row in sample.train}
