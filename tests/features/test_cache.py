"""What was described before is not described again, and a cache that is damaged costs nothing but time."""

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
from dlfh.features import CombinedImage, Gist, Thumbnail, images
from dlfh.features.cache import cached
from dlfh.features.descriptions import DescriptionCache
from tests.conftest import stripes


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for number in range(10):
        stripes(number % 2, number).save(tmp_path / f"{number}.png")
    return [tmp_path / f"{number}.png" for number in range(10)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the images that are decoded."""
    names: list[str] = []
    decode = images._open_rgb

    def count(source: Any, *arguments: Any, **options: Any) -> Any:
        names.append(Path(source).name if isinstance(source, (str, os.PathLike)) else "")
        return decode(source, *arguments, **options)

    monkeypatch.setattr(images, "_open_rgb", count)
    return names


@pytest.mark.parametrize("featurizer", [Thumbnail(4), CombinedImage(("hog", "thumbnail"))], ids=lambda each: each.kind)
def test_what_is_known_is_not_opened_again(
    featurizer: Any, files: list[Path], opened: list[str], tmp_path: Path
) -> None:
    plain = featurizer.fit_transform(files)
    opened.clear()
    with cached(tmp_path / "cache"):
        np.testing.assert_array_equal(featurizer.fit_transform(files), plain)
        assert len(opened) == 10
        np.testing.assert_array_equal(featurizer.fit_transform(files[::-1]), plain[::-1])
        assert len(opened) == 10
        shutil.copy(files[3], tmp_path / "another name.png")  # the same picture, wherever it is
        stripes(0, 99).save(files[5])
        changed = featurizer.transform([*files, tmp_path / "another name.png"])
        assert opened[10:] == ["5.png"]
        np.testing.assert_array_equal(changed[10], plain[3])
        assert (changed[5] != plain[5]).any()
    featurizer.fit_transform(files)
    assert len(opened) == 21  # outside of the block nothing is kept or looked up


def test_other_parameters_are_other_descriptions(files: list[Path], opened: list[str], tmp_path: Path) -> None:
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform(files)
        assert Thumbnail(2).fit_transform(files).shape == (10, 12)
        Thumbnail(4, n_jobs=1, verbose=False).fit_transform(files)
    assert len(opened) == 20


def test_broken_images_are_reported_each_time_in_their_places(files: list[Path], tmp_path: Path) -> None:
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


def test_images_without_files_and_single_questions_are_not_kept(files: list[Path], tmp_path: Path) -> None:
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform([np.zeros((4, 4))] * 10)
        Thumbnail(4).fit_transform(files[:3])
    assert not (tmp_path / "cache").exists()


def test_what_does_not_fit_its_checksum_is_described_again(
    files: list[Path], opened: list[str], tmp_path: Path
) -> None:
    plain = Thumbnail(4).fit_transform(files)
    with cached(tmp_path / "cache"):
        Thumbnail(4).fit_transform(files)
        file = tmp_path / "cache" / "descriptions.sqlite3"
        for wrong in ("x'00'", "zeroblob(192)", "NULL", "'text'"):
            with sqlite3.connect(file) as database:
                database.execute(f"UPDATE vectors SET vector = {wrong}")
            database.close()
            opened.clear()
            np.testing.assert_array_equal(Thumbnail(4).fit_transform(files), plain)
            assert len(opened) == 10


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_begun_anew(content: bytes, files: list[Path], opened: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "descriptions.sqlite3").write_bytes(content)
    plain = Thumbnail(4).fit_transform(files)
    with cached(tmp_path / "cache"):
        for _ in range(3):
            opened.clear()
            np.testing.assert_array_equal(Thumbnail(4).fit_transform(files), plain)
    assert opened == []


def test_a_place_that_cannot_be_used_is_no_error(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "dir" / "descriptions.sqlite3").mkdir(parents=True)
    for place in ("file", "dir", "file/deeper"):
        with cached(tmp_path / place):
            assert Thumbnail(4).fit_transform(files).shape == (10, 48)


def test_a_cache_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_CACHE_BYTES", str(100 * (4 * 16 + 64)))
    cache = DescriptionCache(tmp_path)
    keys = [number.to_bytes(32, "big") for number in range(300)]
    vectors = np.random.default_rng(0).random((300, 16), np.float32)
    for start in range(0, 300, 20):
        cache.put(list(zip(keys[start : start + 20], vectors[start : start + 20], strict=True)))
        cache.get(keys[:5], 16)  # used again and again
    kept = cache.get(keys, 16)
    assert 75 <= len(kept) <= 100
    assert {*keys[:5], *keys[280:]} <= {*kept}
    assert all((kept[key] == vectors[keys.index(key)]).all() for key in kept)
    assert (tmp_path / "descriptions.sqlite3").stat().st_size < 100_000


def test_several_may_use_a_cache_at_once(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).random((50, 8), np.float32)

    def work(first: int) -> None:
        cache = DescriptionCache(tmp_path)
        for row in range(first, 50, 4):
            cache.put([(bytes([row]) * 32, vectors[row])])
            cache.get([bytes([row]) * 32], 8)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = DescriptionCache(tmp_path).get([bytes([row]) * 32 for row in range(50)], 8)
    assert len(kept) == 50


def test_a_build_that_fails_goes_on_from_what_it_described(
    files: list[Path], opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlfh.features import cache as cache_module

    monkeypatch.setattr(cache_module, "_BLOCK", 4)
    describe = Thumbnail._describe_all

    def fail_late(self: Any, items: Any, strict: bool) -> Any:
        if len(opened) >= 8:
            raise KeyboardInterrupt
        return describe(self, items, strict)

    with cached(tmp_path / "cache"):
        monkeypatch.setattr(Thumbnail, "_describe_all", fail_late)
        with pytest.raises(KeyboardInterrupt):
            Thumbnail(4).fit_transform(files)
        monkeypatch.setattr(Thumbnail, "_describe_all", describe)
        opened.clear()
        Thumbnail(4).fit_transform(files)
        assert opened == ["8.png", "9.png"]


def test_the_environment_names_the_place_or_none(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, exists in (("off", False), (str(tmp_path / "mine"), True)):
        monkeypatch.setenv("DLFH_CACHE", value)
        with cached():
            Gist(size=64).fit_transform(files)
        assert (tmp_path / "mine").exists() == exists
    if os.name == "posix":
        assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700


def test_a_rebuild_from_the_command_line_describes_nothing_twice(
    photos: Path, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlfh.cli import main

    monkeypatch.setenv("DLFH_CACHE", str(tmp_path / "cache"))
    columns = ["--image", "file", "--text", "caption", "--labels", "tags", "-b", "8", "-q"]
    for name in ("one", "two"):
        opened.clear()
        assert main(["build", str(photos / "items.csv"), *columns, "-o", str(tmp_path / name)]) == 0
    assert sorted(opened) == ["3.png", "4.png"]  # which cannot be read
