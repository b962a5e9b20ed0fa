"""Images of every format are read as RGB; unreadable ones raise a one-sentence error."""

from __future__ import annotations

import io
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone

from dlfh import InputError
from dlfh.features import CombinedImage
from dlfh.features.combined import Thumbnail
from dlfh.features.images import read_image
from tests.features.examples import PICTURES


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


RGB = Image.fromarray(PICTURES[0])


def test_the_same_picture_is_read_from_a_path_bytes_pil_and_arrays(tmp_path: Path) -> None:
    file = tmp_path / "Bild — 画像.png"
    file.write_bytes(saved(RGB, "PNG"))
    sources = [file, str(file), file.read_bytes(), bytearray(file.read_bytes()), RGB, PICTURES[0], PICTURES[0] / 255]
    for source in sources:
        np.testing.assert_array_equal(read_image(source), PICTURES[0])


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16"])
def test_every_mode_becomes_rgb_of_about_the_same_brightness(mode: str) -> None:
    gradient = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))
    if mode == "I;16":
        image = Image.fromarray(gradient.astype(np.uint16) * 257)
    elif mode == "LAB":
        image = Image.merge("LAB", [Image.fromarray(gradient), *[Image.new("L", (64, 64), 128)] * 2])
    else:
        image = Image.fromarray(gradient).convert("L" if mode in ("L", "LA", "1", "I", "F") else "RGB").convert(mode)
    pixels = read_image(image)
    assert pixels.shape == (64, 64, 3)
    assert pixels.dtype == np.uint8
    brightness = np.array([pixels.mean(axis=2), gradient]).reshape(2, 4, 16, 4, 16).mean(axis=(2, 4))  # over dither
    assert np.abs(brightness[0] - brightness[1]).max() < 15


def test_formats_that_are_known_but_not_read_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match=r'^x, a HEIC image, needs pillow-heif, .*: pip install "dlfh\[heic\]"$'):
        read_image(b"\x00\x00\x00\x1cftypheic\x00\x00\x00\x00mif1heic" + b"\x00" * 100, name="x")
    with pytest.raises(InputError, match=r"^x is an SVG drawing, which is not supported: convert it to PNG$"):
        read_image(b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', name="x")


def test_transparent_pixels_become_white() -> None:
    half = np.zeros((4, 4, 4), np.uint8)
    half[:2, :, 3] = 255
    for source in (half, half / 255, Image.fromarray(half), saved(Image.fromarray(half), "PNG")):
        pixels = read_image(source)
        assert not pixels[:2].any()
        assert (pixels[2:] == 255).all()
    palette = Image.fromarray(np.array([[0, 1]], np.uint8)).convert("P")
    palette.putpalette([0, 0, 0, 10, 20, 30])
    np.testing.assert_array_equal(read_image(saved(palette, "PNG", transparency=0)), [[[255] * 3, [10, 20, 30]]])


def test_photographs_are_rotated_by_their_exif_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees clockwise
    content = saved(RGB, "PNG", exif=exif)
    np.testing.assert_array_equal(read_image(content), np.rot90(PICTURES[0], -1))


def test_the_first_frame_of_an_animation_is_read() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    pixels = read_image(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    np.testing.assert_array_equal(pixels[0, 0], [255, 0, 0])


def broken_files(folder: Path) -> dict[str, str]:
    png, jpeg = saved(RGB, "PNG"), saved(RGB.resize((300, 300)), "JPEG")
    contents = {
        "empty.png": b"",
        "short.jpg": jpeg[: len(jpeg) // 2],
        "words.jpg": b"not an image",
        "half.png": png[:90],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.png").mkdir()
    return {
        "empty.png": "is empty",
        "short.jpg": "cannot be decoded: .*truncated",
        "words.jpg": "is not an image in a known format",
        "half.png": "cannot be decoded",
        "folder.png": "is a folder",
        "missing.png": "does not exist",
        "nul\0.png": "cannot be read",
    }


def test_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    for name, reason in broken_files(tmp_path).items():
        with pytest.raises(InputError, match=reason) as error:
            read_image(tmp_path / name)
        assert name.replace("\0", r"\x00") in str(error.value)
        assert "\n" not in str(error.value)


def test_images_above_the_pixel_limit_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved(Image.new("1", (400, 400)), "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000)
    assert read_image(content).shape == (400, 400, 3)  # Pillow would warn
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="the image has more pixels than the limit of 2,000: set DLFH_MAX_P"):
        read_image(content)
    monkeypatch.setenv("DLFH_MAX_PIXELS", "160000")
    assert read_image(content).shape == (400, 400, 3)
    monkeypatch.setenv("DLFH_MAX_PIXELS", "159999")
    with pytest.raises(InputError, match="the image has 160,000 pixels, more than the limit of 159,999: set DLF"):
        read_image(content)


def test_16_bit_images_take_a_few_bytes_per_pixel() -> None:
    """Converted to double precision as a whole, a file of 350 KB would fill five gigabytes."""
    content = saved(Image.fromarray(np.full((1500, 1500), 65535, np.uint16)), "PNG")
    tracemalloc.start()
    try:
        assert read_image(content).shape == (1500, 1500, 3)
        assert tracemalloc.get_traced_memory()[1] < 12 * 1500**2
    finally:
        tracemalloc.stop()


def test_formats_that_need_external_programs_are_refused() -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    with pytest.raises(InputError, match="the image is not an image in a known format"):
        read_image(script)


@given(st.binary(max_size=60), st.integers(0, 200), st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]))
def test_damaged_files_yield_pixels_or_one_sentence(noise: bytes, place: int, form: str) -> None:
    content = bytearray(saved(RGB, form))
    content[place : place + len(noise)] = noise
    try:
        pixels = read_image(bytes(content))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert pixels.ndim == 3


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros(4), "must have shape"),
        (np.zeros((3, 4, 2)), "must have shape"),
        (np.zeros((3, 4), complex), "must have shape"),
        (np.zeros((0, 4)), "no pixels"),
        (np.full((3, 4), 2.0), "fractions from 0 to 1"),
        (np.full((3, 4), np.nan), "fractions from 0 to 1"),
        (np.full((3, 4), -1), "whole numbers from 0 to 255"),
        (None, "must be a path, bytes, a PIL image or an array, got NoneType"),
    ],
)
def test_invalid_images_are_refused(array: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_image(array)
    with pytest.raises(InputError, match=f"image 1 .*{reason}"):
        Thumbnail().fit([]).transform([PICTURES[0], array])


def test_arrays_are_scaled_to_8_bits() -> None:
    for top, dtype in ((65535, np.uint16), (255, np.int64), (1, bool), (1, np.float32)):
        pixels = read_image(np.array([[0, top]], dtype))
        np.testing.assert_array_equal(pixels[0], [[0] * 3, [255] * 3])


def test_unreadable_images_are_skipped_and_reported(tmp_path: Path) -> None:
    reasons = broken_files(tmp_path)
    good = [tmp_path / f"good {number}.png" for number in range(12)]
    for number, file in enumerate(good):
        Image.fromarray(PICTURES[number % 10]).save(file)
    items = [*good[:5], *(tmp_path / name for name in reasons), *good[5:]]
    for featurizer in (Thumbnail(4), CombinedImage(("thumbnail", "hog"))):
        found = clone(featurizer).fit_transform_readable(items)
        assert found.rows.tolist() == [*range(5), *range(12, 19)]
        assert sorted(found.problems) == list(range(5, 12))
        for position, problem in found.problems.items():
            assert items[position].name.replace("\0", r"\x00") in problem
        np.testing.assert_array_equal(found.features, clone(featurizer).fit_transform(good))
        with pytest.raises(InputError, match=r"empty\.png is empty"):
            clone(featurizer).fit(good).transform(items)


def test_fitting_needs_a_readable_image() -> None:
    for items, reason in (([b""], "none of the 1 images can be read"), ([], "there are no images")):
        with pytest.raises(InputError, match=reason):
            CombinedImage().fit_transform_readable(items)


def test_reading_in_several_threads_restores_the_warning_filters() -> None:
    before = list(warnings.filters)
    content = saved(RGB, "PNG")
    threads = [threading.Thread(target=lambda: [read_image(content) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
