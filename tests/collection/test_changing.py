"""Syncing makes a collection equal to its source and computes features only for new contents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.changing import SyncResult
from dlfh.datasets import Items, read_items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Vectors
from dlfh.features.combined import Thumbnail
from tests.collection.folders import assert_equal, draw, make_folder, plain_model

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of twenty images of two kinds, and a collection of them beside it."""
    place = tmp_path_factory.mktemp("sync")
    make_folder(place / "photos", 20)
    encoder = Encoder({"image": Thumbnail(4), "text": BagOfWords()}, plain_model())
    Collection.build(place / "shop", read_items(place / "photos"), encoder).collection.close()
    return place


@pytest.fixture
def place(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def sync(place: Path, **options: Any) -> SyncResult:
    with Collection.open(place / "shop", writable=True) as collection:
        return collection.sync(read_items(place / "photos"), **options)


def test_a_sync_after_a_build_changes_nothing(place: Path) -> None:
    state = (place / "shop" / "index" / "manifest.json").read_bytes()
    synced = sync(place)
    assert not synced.changed
    assert synced.n_unchanged == 20
    assert not any(synced.described.values())
    assert (place / "shop" / "index" / "manifest.json").read_bytes() == state


def test_only_new_changed_and_missing_items_are_touched(place: Path) -> None:
    photos = place / "photos"
    draw(photos / "level" / "new.png", seed=100, level=True)
    draw(photos / "level" / "1.png", seed=101, level=True)
    (photos / "upright" / "0.png").unlink()
    with Collection.open(place / "shop") as before:
        kept = {item.id: item for item in before}
    synced = sync(place)
    assert (synced.added, synced.updated, synced.removed) == (["level/new.png"], ["level/1.png"], ["upright/0.png"])
    assert synced.n_unchanged == 18
    assert synced.described == {"image": 2, "text": 1}  # the text of 1.png is unchanged
    assert_equal(place / "shop", photos)
    with Collection.open(place / "shop") as after:
        for name in {*kept} - {"level/1.png", "upright/0.png"}:
            assert after.get(name).codes["image"].tobytes() == kept[name].codes["image"].tobytes()
            assert after.get(name).states == kept[name].states


def test_a_moved_image_keeps_its_code_and_gets_a_new_label(place: Path) -> None:
    photos = place / "photos"
    (photos / "upright" / "0.png").rename(photos / "level" / "0.png")
    synced = sync(place)
    assert (synced.added, synced.removed) == (["level/0.png"], ["upright/0.png"])
    assert synced.described == {"image": 0, "text": 0}
    assert_equal(place / "shop", photos)


def test_swapped_images_keep_their_codes(place: Path) -> None:
    photos = place / "photos"
    first, second = photos / "upright" / "0.png", photos / "upright" / "2.png"
    first.rename(photos / "aside")
    second.rename(first)
    (photos / "aside").rename(second)
    synced = sync(place)
    assert sorted(synced.updated) == ["upright/0.png", "upright/2.png"]
    assert synced.described["image"] == 0
    assert_equal(place / "shop", photos)


def test_a_copy_of_an_overwritten_image_reuses_its_code(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlfh.collection.changing._BLOCK", 1)
    photos = place / "photos"
    shutil.copy(photos / "level" / "1.png", photos / "upright" / "zzz.png")
    draw(photos / "level" / "1.png", seed=700, level=True)  # overwritten in an earlier block than the copy
    assert sync(place).described == {"image": 1, "text": 1}
    assert_equal(place / "shop", photos)


def test_a_touched_file_is_read_but_its_features_are_not_computed(place: Path) -> None:
    os.utime(place / "photos" / "level" / "1.png", (1, 1))
    assert not sync(place).changed
    assert not sync(place, rehash=True).changed


@pytest.mark.parametrize("moment", ["build", "sync"])
def test_a_code_is_stored_with_the_hash_of_the_bytes_that_it_was_computed_from(
    moment: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, image = place / "photos", place / "photos" / "level" / "1.png"
    draw(image, seed=500, level=True)
    content, other = image.read_bytes(), (photos / "upright" / "0.png").read_bytes()
    compute = Thumbnail._compute_all

    def replaced(self: Thumbnail, items: Any, strict: bool) -> Any:  # for a moment, the file is another one
        image.write_bytes(other)
        try:
            return compute(self, items, strict)
        finally:
            image.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(Thumbnail, "_compute_all", replaced)
        if moment == "sync":
            sync(place)
        else:
            shutil.rmtree(place / "shop")
            encoder = Encoder({"image": Thumbnail(4), "text": BagOfWords()}, plain_model())
            Collection.build(place / "shop", read_items(photos), encoder).collection.close()
    assert sync(place, rehash=True).updated == ["level/1.png"]
    assert_equal(place / "shop", photos)


def test_an_image_that_vanishes_during_a_sync_is_described_when_it_is_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, image = place / "photos", place / "photos" / "level" / "1.png"
    draw(image, seed=500, level=True)
    compute = Thumbnail._compute_all

    def vanished(self: Thumbnail, items: Any, strict: bool) -> Any:
        image.rename(place / "aside")
        return compute(self, items, strict)

    with monkeypatch.context() as patch:
        patch.setattr(Thumbnail, "_compute_all", vanished)
        sync(place)
    (place / "aside").rename(image)
    sync(place)
    assert_equal(place / "shop", photos)


@pytest.mark.parametrize("moment", ["build", "sync"])
def test_images_that_mostly_cannot_be_decoded_change_nothing(moment: str, place: Path) -> None:
    state = (place / "shop" / "index" / "manifest.json").read_bytes()
    for path in sorted((place / "photos").rglob("*.png"))[:11]:
        path.write_bytes(b"<html>404 Not Found</html>")
    encoder = Encoder({"image": Thumbnail(4), "text": BagOfWords()}, plain_model())
    sentence = r"^11 of the 20 values of 'image' cannot be read \(level/\S+: .* is not an image .*\), and at most 50%"
    with pytest.raises(InputError, match=sentence):
        _ = sync(place) if moment == "sync" else Collection.build(place / "new", read_items(place / "photos"), encoder)
    assert not (place / "new").exists()
    assert (place / "shop" / "index" / "manifest.json").read_bytes() == state
    with Collection.open(place / "shop", writable=True) as collection:
        synced = collection.sync(read_items(place / "photos", max_skipped=1))
    assert len(synced.updated) == 11


def test_rehash_detects_a_change_that_keeps_size_and_time(place: Path) -> None:
    file = place / "photos" / "level" / "1.png"
    content, about = bytearray(file.read_bytes()), file.stat()
    sync(place)
    content[-1] ^= 1  # a byte after the image data
    file.write_bytes(content)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert sync(place).updated == ["level/1.png"]


def test_a_dry_run_reports_the_changes_without_making_them(place: Path) -> None:
    (place / "photos" / "level" / "1.png").unlink()
    draw(place / "photos" / "level" / "new.png", seed=100, level=True)
    state = (place / "shop" / "index" / "manifest.json").read_bytes()
    planned = sync(place, dry_run=True)
    assert (place / "shop" / "index" / "manifest.json").read_bytes() == state
    assert planned == sync(place)


def test_missing_items_stay_with_remove_false(place: Path) -> None:
    (place / "photos" / "level" / "1.png").unlink()
    synced = sync(place, remove=False)
    assert (synced.removed, synced.n_unchanged) == ([], 20)


def test_the_wrong_source_does_not_empty_a_collection(place: Path) -> None:
    shutil.rmtree(place / "photos" / "level")
    (place / "photos" / "upright" / "0.png").unlink()
    with pytest.raises(InputError, match="11 of 20 items are missing from the source"):
        sync(place)
    with Collection.open(place / "shop") as collection:
        assert len(collection) == 20
    assert len(sync(place, max_removed=1).removed) == 11
    assert_equal(place / "shop", place / "photos")


def test_items_that_became_unreadable_are_removed_and_reported(place: Path) -> None:
    with Collection.open(place / "shop", writable=True) as collection:
        pictures = list((place / "photos").rglob("*.png"))
        items = Items.of({"image": pictures}, ids=[path.name for path in pictures])
        collection.sync(items, max_removed=1)
        pictures[0].write_bytes(b"no picture")
        synced = collection.sync(items)
        assert synced.removed == [pictures[0].name]
        assert [problem.reason for problem in synced.problems][-1] == "no readable content"
        assert not collection.sync(items).changed


def test_a_removed_caption_removes_its_code(place: Path) -> None:
    pictures = sorted((place / "photos").rglob("*.png"))
    texts: list[str | None] = [path.stem for path in pictures]
    with Collection.open(place / "shop", writable=True) as collection:
        collection.sync(
            Items.of({"image": pictures, "text": texts}, ids=[path.name for path in pictures]), max_removed=1
        )
        texts[3] = None
        synced = collection.sync(Items.of({"image": pictures, "text": texts}, ids=[path.name for path in pictures]))
        assert synced.updated == [pictures[3].name]
        assert not any(synced.described.values())
        assert {*collection.get(pictures[3].name).codes} == {"image"}


def test_reordered_rows_without_ids_keep_their_codes(place: Path) -> None:
    def read(lines: list[str]) -> Items:
        (place / "rows.csv").write_text("\n".join(["caption,tags", *lines]), encoding="utf-8")
        return read_items(place / "rows.csv", text="caption", labels="tags")

    with Collection.open(place / "shop", writable=True) as collection:
        collection.sync(read(["level stripes,level", "upright stripes,upright"]), max_removed=1)
        synced = collection.sync(read(["new stripes,level", "level stripes,level", "upright stripes,upright"]))
        assert synced.described == {"text": 1}
        assert sorted((item.metadata or {})["text"] for item in collection) == [
            "level stripes",
            "new stripes",
            "upright stripes",
        ]


def test_readers_see_the_old_or_the_new_state(place: Path) -> None:
    draw(place / "photos" / "level" / "new.png", seed=100, level=True)
    with Collection.open(place / "shop") as reader:
        sync(place)
        assert len(reader) == 20
        assert "level/new.png" not in reader
        assert reader.index.refresh()
        assert "level/new.png" in reader
        assert len(reader.search("text", "1", k=30)) == 21


def test_hashes_are_hidden_from_users(place: Path) -> None:
    with Collection.open(place / "shop") as collection:
        assert "contents" in (collection.index.get("level/1.png").metadata or {})
        assert {*(collection.get("level/1.png").metadata or {})} == {"image", "text", "labels"}
        assert all("contents" not in item.metadata for item in collection.search("text", "1"))
        assert all("contents" not in (item.metadata or {}) for item in collection)


def test_changed_vectors_are_detected(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 6)).astype(np.float32), rng.normal(size=(30, 4)).astype(np.float32)
    labels = [[str(row % 2)] for row in range(30)]
    ids = [f"item {row}" for row in range(30)]
    encoder = Encoder({"a": Vectors(), "b": Vectors()}, DLFH(n_bits=8, random_state=0))
    Collection.build(tmp_path / "shop", Items.of({"a": X, "b": Y}, labels, ids), encoder).collection.close()
    X[7] *= -1
    with Collection.open(tmp_path / "shop", writable=True) as collection:
        assert collection.sync(Items.of({"a": X, "b": Y}, labels, ids)).updated == ["item 7"]


def kill_syncs(folder: Path, kills: int, seed: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.collection.kill_syncs", str(folder), str(kills), str(seed)]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_killed_syncs_resume_until_the_collection_equals_the_folder(tmp_path: Path) -> None:
    counts = kill_syncs(tmp_path, kills=12, seed=0)
    assert counts["kills"] == 12
    assert counts["described twice"] == 0
    assert counts["described"] > 0


@pytest.mark.kill
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_many_killed_syncs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = int(os.environ.get("DLFH_KILLS", "1000"))
    counts = kill_syncs(tmp_path, kills, seed=1)
    with capsys.disabled():
        print(f"\n{counts}")
    assert counts["kills"] == kills
    assert counts["partly done"] > 0
    assert counts["described twice"] == 0
