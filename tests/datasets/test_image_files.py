"""Image files are found by their names, and those that cannot be read are named with the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dlfh.datasets import read_items
from dlfh.datasets.image_files import IMAGE_SUFFIXES, folder_with, images_in
from dlfh.errors import InputError
from dlfh.features.images import read_image
from tests.conftest import stripes


@pytest.fixture
def no_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A folder of three images that are always read, three that are not, and other files."""
    for name in ("a.png", "b.jpg", "c.avif"):
        stripes(0, 1).save(tmp_path / name)
    for name in ("sub/d.HEIC", "e.heif", "logo.svg", ".hidden/f.heic", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.usefixtures("no_heif")
def test_images_that_are_skipped_are_counted_by_suffix_with_the_remedy(album: Path) -> None:
    items = read_items(album)
    assert items.ids == ["a.png", "b.jpg", "c.avif"]
    heic = 'reading HEIC images needs pillow-heif, which is not installed: pip install "dlfh[heic]"'
    assert [(problem.where, problem.skipped, problem.reason) for problem in items.problems] == [
        ("e.heif", ".heif file", heic),
        ("logo.svg", ".svg file", ".svg files are not supported: convert it to PNG or JPEG"),
        ("sub/d.HEIC", ".heic file", heic),
    ]


@pytest.mark.usefixtures("no_heif")
def test_a_folder_of_images_that_are_mostly_skipped_is_refused(album: Path) -> None:
    (album / "a.png").rename(album / "a.heic")
    sentence = (
        r"^4 of the 6 images in .*, 2 \.heic and 1 \.heif and 1 \.svg, cannot be read \(.*dlfh\[heic\].*max-skipped"
    )
    with pytest.raises(InputError, match=sentence):
        read_items(album)
    assert len(read_items(album, max_skipped=1)) == 2


def test_heic_images_are_read_with_pillow_heif(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason='pip install "dlfh[heic]"')
    pixels = np.array(stripes(0, 1).convert("RGB"))
    heif.from_pillow(Image.fromarray(pixels)).save(tmp_path / "a.heic", quality=100)
    (file,), unreadable = images_in(tmp_path)
    assert unreadable == {}
    assert np.abs(read_image(file).astype(int) - pixels).mean() < 8


def test_avif_images_are_read(tmp_path: Path) -> None:
    pixels = np.array(stripes(0, 1).convert("RGB"))
    Image.fromarray(pixels).save(tmp_path / "a.avif", quality=100)
    ((file,), _) = images_in(tmp_path)
    assert np.abs(read_image(file).astype(int) - pixels).mean() < 8


def test_suffixes_are_sorted_and_in_lower_case() -> None:
    assert list(IMAGE_SUFFIXES) == sorted(suffix.lower() for suffix in IMAGE_SUFFIXES)


def test_the_folder_that_has_the_files_is_found(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(30)]
    (tmp_path / "wrong" / "deep").mkdir(parents=True)
    (tmp_path / "right" / "large").mkdir(parents=True)
    assert folder_with(names, [tmp_path]) is None
    for name in names[:20]:
        (tmp_path / "right" / "large" / name).touch()
    assert folder_with(names, [tmp_path / "wrong"]) is None
    assert folder_with(names, [tmp_path / "wrong", tmp_path]) == tmp_path / "right" / "large"
    assert folder_with([f"large/{name}" for name in names], [tmp_path]) == tmp_path / "right"
    assert folder_with([str(tmp_path / name) for name in names], [tmp_path]) is None
    assert folder_with(["bad\0name"], [tmp_path / "missing"]) is None


def test_the_search_for_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlfh.datasets.image_files._MAX_FOLDERS", 3)
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    (tmp_path / "4" / "a.png").touch()
    assert folder_with(["a.png"], [tmp_path]) is None
