"""Cached features are not computed again, and a damaged cache costs only time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh.errors import InputError
from dlfh.features import CombinedImage, Gist, images
from dlfh.features.cache import FeatureCache, cached
from dlfh.features.combined import Thumbnail
from tests.conftest import stripes


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for number in range(10):
        stripes(number % 2, number).save(tmp_path / f"{number}.png")
    return [tmp_path / f"{number}.png" for number in range(10)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the names of decoded images."""
    names: list[str] = []
    decode = images.open_rgb

    def count(source: Any, name: str, **options: Any) -> Any:
        names.append(Path(name).name)
        return decode(source, name, **options)

    monkeypatch.setattr(images, "open_rgb", count)
    return names


@pytest.mark.parametrize("featurizer", [Thumbnail(4), CombinedImage(("hog", "thumbnail"))], ids=lambda each: each.kind)
def test_cached_images_are_not_decoded_again(
    featurizer: Any, files: list[Path], opened: list[str], tmp_path: Path
) -> None:
    plain = featurizer.fit_transform(files)
    opened.clear()
    with cached(tmp_path / "cache"):
        np.testing.assert_array_equal(featurizer.fit_transform(files), plain)
        assert len(opened) == 10
        np.testing.assert_array_equal(featurizer.fit_transform(files[::-1]), plain[::-1])
        assert len(opened) == 10
        shutil.copy(files[3], tmp_path / "another name.png")  # the same content under another name
        stripes(0, 99).save(files[5])
        changed = featurizer.transform([*files, tmp_path / "another name.png"])
        assert opened[10:] == ["5.png"]
        np.testing.assert_array_equal(changed[10], plain[3])
        assert (changed[5] != plain[5]).any()
    featurizer.fit_transform(files)
    assert len(opened) == 21  # outside of the block the cache is not used


def test_parameters_are_part_of_the_key(files: list[Path], opened: list[str], tmp_path: Path) -> None:
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform(files)
        assert Thumbnail(2).fit_transform(files).shape == (10, 12)
        Thumbnail(4, n_jobs=1, verbose=False).fit_transform(files)
    assert len(opened) == 20


def test_unreadable_images_are_reported_every_time(files: list[Path], tmp_path: Path) -> None:
    files[2].write_bytes(b"not an image")
    files[7].unlink()
    for _ in range(2):
        with cached(tmp_path / "cache"):
            found = Thumbnail(4).fit_transform_readable(files)
            assert found.rows.tolist() == [0, 1, 3, 4, 5, 6, 8, 9]
            assert sorted(found.problems) == [2, 7]
            assert "2.png is not an image" in found.problems[2]
            np.testing.assert_array_equal(
                found.features, Thumbnail(4).fit_transform([files[row] for row in found.rows])
            )
            with pytest.raises(InputError, match=r"2\.png is not an image"):
                Thumbnail(4).fit_transform(files)


def test_a_file_that_is_replaced_while_it_is_read_is_cached_as_what_was_decoded(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = files[3].read_bytes(), files[8].read_bytes()
    plain = Thumbnail(4).fit_transform(files)
    compute = Thumbnail._compute_all

    def replaced(self: Thumbnail, items: Any, strict: bool) -> Any:  # after the cache was asked
        files[3].write_bytes(new)
        return compute(self, items, strict)

    with cached(tmp_path / "cache"):
        with monkeypatch.context() as patch:
            patch.setattr(Thumbnail, "_compute_all", replaced)
            np.testing.assert_array_equal(Thumbnail(4).fit_transform(files)[3], plain[8])
        files[3].write_bytes(old)
        np.testing.assert_array_equal(Thumbnail(4).fit_transform(files), plain)


def test_arrays_and_small_batches_are_not_cached(files: list[Path], tmp_path: Path) -> None:
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform([np.zeros((4, 4))] * 10)
        Thumbnail(4).fit_transform(files[:3])
    assert not (tmp_path / "cache").exists()


def test_entries_with_a_wrong_checksum_are_computed_again(files: list[Path], opened: list[str], tmp_path: Path) -> None:
    plain = Thumbnail(4).fit_transform(files)
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform(files)
        file = tmp_path / "cache" / "features.sqlite3"
        for wrong in ("x'00'", "zeroblob(192)", "NULL", "'text'"):
            with sqlite3.connect(file) as database:
                database.execute(f"UPDATE vectors SET vector = {wrong}")
            database.close()
            opened.clear()
            np.testing.assert_array_equal(Thumbnail(4).fit_transform(files), plain)
            assert len(opened) == 10


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_replaced(content: bytes, files: list[Path], opened: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "features.sqlite3").write_bytes(content)
    plain = Thumbnail(4).fit_transform(files)
    with cached(tmp_path / "cache"):
        for _ in range(3):
            opened.clear()
            np.testing.assert_array_equal(Thumbnail(4).fit_transform(files), plain)
    assert opened == []


def test_an_unusable_folder_is_not_an_error(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "dir" / "features.sqlite3").mkdir(parents=True)
    for place in ("file", "dir", "file/deeper"):
        with cached(tmp_path / place):
            assert Thumbnail(4).fit_transform(files).shape == (10, 48)


def test_least_recently_used_entries_are_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_CACHE_BYTES", str(100 * (4 * 16 + 64)))
    cache = FeatureCache(tmp_path)
    keys = [number.to_bytes(32, "big") for number in range(300)]
    vectors = np.random.default_rng(0).random((300, 16), np.float32)
    for start in range(0, 300, 20):
        cache.put(list(zip(keys[start : start + 20], vectors[start : start + 20], strict=True)))
        cache.get(keys[:5], 16)  # used repeatedly
    kept = cache.get(keys, 16)
    assert 75 <= len(kept) <= 100
    assert {*keys[:5], *keys[280:]} <= {*kept}
    assert all((kept[key] == vectors[keys.index(key)]).all() for key in kept)
    assert (tmp_path / "features.sqlite3").stat().st_size < 100_000


def test_threads_share_a_cache(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).random((20, 8), np.float32)

    def work(first: int) -> None:
        cache = FeatureCache(tmp_path)
        for row in range(first, 20, 4):
            cache.put([(bytes([row]) * 32, vectors[row])])
            cache.get([bytes([row]) * 32], 8)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = FeatureCache(tmp_path).get([bytes([row]) * 32 for row in range(20)], 8)
    assert len(kept) == 20


def test_an_interrupted_build_resumes_from_the_cache(
    files: list[Path], opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlfh.features import cache as cache_module

    monkeypatch.setattr(cache_module, "_BLOCK", 4)
    compute = Thumbnail._compute_all

    def fail_late(self: Any, items: Any, strict: bool) -> Any:
        if len(opened) >= 8:
            raise KeyboardInterrupt
        return compute(self, items, strict)

    with cached(tmp_path / "cache"):
        monkeypatch.setattr(Thumbnail, "_compute_all", fail_late)
        with pytest.raises(KeyboardInterrupt):
            Thumbnail(4).fit_transform(files)
        monkeypatch.setattr(Thumbnail, "_compute_all", compute)
        opened.clear()
        Thumbnail(4).fit_transform(files)
        assert opened == ["8.png", "9.png"]


def test_an_environment_variable_sets_the_folder_or_disables_the_cache(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, exists in (("off", False), (str(tmp_path / "mine"), True)):
        monkeypatch.setenv("DLFH_CACHE", value)
        with cached():
            Gist(size=64).fit_transform(files)
        assert (tmp_path / "mine").exists() == exists
    if os.name == "posix":
        assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700


def test_a_rebuild_from_the_command_line_decodes_only_unreadable_images(
    photos: Path, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlfh.cli import main

    monkeypatch.setenv("DLFH_CACHE", str(tmp_path / "cache"))
    columns = ["--image", "file", "--text", "caption", "--labels", "tags", "-b", "8", "-q"]
    for name in ("one", "two"):
        opened.clear()
        assert main(["build", str(photos / "items.csv"), *columns, "-o", str(tmp_path / name)]) == 0
    assert sorted(opened) == ["3.png", "4.png"]
