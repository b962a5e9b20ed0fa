"""Reading images as RGB, and the base classes of image featurisers."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Floats, Singles
from dlfh._imports import is_installed, missing
from dlfh._limits import check_limit, limit_of, read_file
from dlfh._parallel import Workers, resolve_n_jobs
from dlfh._progress import progress
from dlfh.errors import InputError
from dlfh.features.base import Arrays, Featurizer, PartialFeatures, new_hash, read_each
from dlfh.features.cache import with_cache

Pixels = npt.NDArray[np.uint8]
#: JPEG images are decoded at the smallest scale with at least this side, which is several times as fast.
_DECODED_SIZE = 512
_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "HEIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TGA", "TIFF", "WEBP")
_HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"mif1", b"msf1")  #: Brands of HEIC files, as declared in their first box.


def read_image(source: Any, *, name: str | None = None) -> Pixels:
    """Read an image as 8-bit RGB, whatever its mode; ``name`` replaces its path in error messages.

    Images are rotated according to their EXIF data. Transparent pixels become white. Only the first frame of an
    animation is read. An array has shape (height, width) or (height, width, 1, 3 or 4), with whole numbers from 0 to
    255 or fractions from 0 to 1.
    """
    with quiet_pillow:
        return np.asarray(open_rgb(source, name))


def open_rgb(source: Any, name: str | None = None, min_size: int | None = None) -> Any:
    """Return a PIL image in RGB, decoded at a reduced scale of at least ``min_size`` if the format allows it."""
    from PIL import Image, UnidentifiedImageError

    called = name or (str(source) if isinstance(source, (str, os.PathLike)) else "the image")
    if isinstance(source, np.ndarray):
        return Image.fromarray(_rgb_of_array(source, called))
    if isinstance(source, Image.Image):
        return _to_rgb(source, called)
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        content = read_file(Path(source), called)
    else:
        raise InputError(f"{called} must be a path, bytes, a PIL image or an array, got {type(source).__name__}")
    if not content:
        raise InputError(f"{called} is empty")
    if "DLFH_MAX_PIXELS" in os.environ:  # then Pillow's own limit must allow as much
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS or 0, limit_of("DLFH_MAX_PIXELS"))
    try:
        with Image.open(BytesIO(content), formats=known_formats()) as image:
            n_pixels = image.width * image.height
            check_limit("DLFH_MAX_PIXELS", n_pixels, f"{called} has {n_pixels:,} pixels")
            if min_size is not None:
                image.draft("RGB", (min_size, min_size))
            return _to_rgb(image, called)
    except UnidentifiedImageError:
        if content[4:8] == b"ftyp" and content[8:12] in _HEIC_BRANDS and not is_installed("pillow_heif"):
            raise missing("pillow_heif", f"{called}, a HEIC image,", "heic") from None
        if b"<svg" in content[:1024]:
            raise InputError(f"{called} is an SVG drawing, which is not supported: convert it to PNG") from None
        raise InputError(f"{called} is not an image in a known format") from None
    except Image.DecompressionBombError:
        limit = min(limit_of("DLFH_MAX_PIXELS"), 2 * (Image.MAX_IMAGE_PIXELS or 0))
        raise InputError(
            f"{called} has more pixels than the limit of {limit:,}: set DLFH_MAX_PIXELS to raise the limit"
        ) from None
    except InputError:
        raise
    except Exception as error:  # decoders raise all kinds of errors on damaged files
        raise InputError(f"{called} cannot be decoded: {_reason(error)}") from None


@functools.cache
def known_formats() -> tuple[str, ...]:
    """Return the common formats that Pillow or pillow-heif decodes without starting external programs."""
    from PIL import Image

    Image.init()
    with contextlib.suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _reason(error: Exception) -> str:
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _to_rgb(image: Any, called: str) -> Any:
    """Return an upright, opaque RGB image."""
    from PIL import Image, ImageOps

    if 0 in image.size:
        raise InputError(f"{called} has no pixels: its size is {image.width} x {image.height}")
    try:
        image.load()
    except Exception as error:
        raise InputError(f"{called} cannot be decoded: {_reason(error)}") from None
    with contextlib.suppress(Exception):  # invalid EXIF data are ignored
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    return image.convert("RGB")


def _eight_bits(values: Array) -> Pixels:
    """Convert greyscale values to 8 bits, scaled by the smallest common range that contains them."""
    if values.dtype == np.uint16:
        top = 65535.0
    else:
        largest = max(float(_finite(rows).max()) for rows in _row_blocks(values))
        top = next((top for top in (1.0, 255.0, 65535.0) if largest <= top), largest)
    pixels = np.empty(values.shape, np.uint8)
    for rows, out in zip(_row_blocks(values), _row_blocks(pixels), strict=True):
        out[...] = np.clip(np.rint(_finite(rows) * (255.0 / top)), 0, 255)
    return pixels


def _row_blocks(values: Array) -> Iterator[Array]:
    """Yield blocks of rows, because a whole image in double precision would take several times its memory."""
    return (values[start : start + 256] for start in range(0, len(values), 256))


def _finite(values: Array) -> Floats:
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _rgb_of_array(array: Array, called: str) -> Pixels:
    if array.ndim not in (2, 3) or array.shape[2:] not in ((), (1,), (3,), (4,)) or array.dtype.kind not in "fiub":
        raise InputError(
            f"{called} must have shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, "
            f"and contain numbers, got shape {array.shape} of type {array.dtype}"
        )
    if array.size == 0:
        raise InputError(f"{called} has no pixels: its shape is {array.shape}")
    if array.dtype == np.uint8:
        pixels = array
    elif array.dtype == np.uint16:
        pixels = _eight_bits(array)
    else:
        top = 1.0 if array.dtype.kind in "fb" else 255.0
        if not (array.min() >= 0 and array.max() <= top):  # (false for NaN)
            raise InputError(
                f"{called} must contain whole numbers from 0 to 255 or fractions from 0 to 1, "
                f"got {array.dtype} from {array.min()} to {array.max()}"
            )
        pixels = np.rint(array * (255.0 / top)).astype(np.uint8)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:].astype(np.float32) / 255
        pixels = np.rint(pixels[:, :, :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


class _QuietPillow:
    """Context manager that silences Pillow's warnings; serious ones are raised as InputError.

    Python's warning filters are global to the process. Overlapping calls in several threads therefore share one change
    of the filters, which the last call reverts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._filters: Any = None

    def __enter__(self) -> None:
        from PIL.Image import DecompressionBombWarning

        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
                warnings.simplefilter("ignore", DecompressionBombWarning)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._filters.__exit__(None, None, None)


quiet_pillow = _QuietPillow()


class BlockFeaturizer(Featurizer):
    """Base class of featurisers that read items and compute their vectors block by block; vectors of images are cached.

    Nothing is learned from the items, so `fit` accepts any items, or none.
    """

    n_jobs: int | None = 1
    batch_size: int = 8  #: Items per thread and step: enough for vectorised code, few enough for the processor's cache.

    @abstractmethod
    def _width(self) -> int:
        """Return the length of the vectors."""

    @abstractmethod
    def _read(self, item: Any, position: int, contents: dict[int, str]) -> Any:
        """Read an item and return the input of `_compute`; ``contents`` as for `open_item`."""

    @abstractmethod
    def _compute(self, values: list[Any]) -> Singles:
        """Return the vectors of a block of items."""

    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        if self.takes != "images":
            return self._compute_all(items, strict)
        compute = functools.partial(self._compute_all, strict=strict)
        return with_cache(self, items, self._width(), compute, getattr(self, "fingerprint_", None))

    def _compute_all(self, items: Any, strict: bool) -> PartialFeatures:
        features = np.empty((len(items), self._width()), np.float32)
        contents: dict[int, str] = {}
        with quiet_pillow, Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            advance = bar.counter(f"{self.takes.removesuffix('s')} features", len(items))
            read = functools.partial(self._read, contents=contents)

            def compute(start: int, stop: int) -> tuple[list[int], dict[int, str]]:
                values, rows, problems = read_each(items[start:stop], read, strict, start)
                if rows:
                    features[rows] = self._compute(values)
                advance(stop - start)
                return rows, problems

            blocks = workers.map_blocks(compute, len(items), int(self.batch_size))
        rows = np.array([row for done, _ in blocks for row in done], np.int64)
        problems = {row: reason for _, failed in blocks for row, reason in failed.items()}
        return PartialFeatures(features[rows] if problems else features, rows, problems, contents)


class ImageFeaturizer(BlockFeaturizer):
    """Base class of featurisers that compute vectors from pixels. Items are paths, bytes, PIL images or arrays."""

    takes = "images"

    def __init__(self, *, n_jobs: int | None = None, verbose: bool = False) -> None:
        self.n_jobs, self.verbose = n_jobs, verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        resolve_n_jobs(self.n_jobs)

    @abstractmethod
    def _prepare(self, image: Any) -> Any:
        """Convert a PIL image in RGB to the input of `_compute`."""

    def _read(self, item: Any, position: int, contents: dict[int, str]) -> Any:
        return self._prepare(open_item(item, position, contents))

    def _fit(self, items: Any, strict: bool) -> int:
        return self._width()

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        if self.n_features_ != self._width():
            raise ValueError(f"its number of features is {self.n_features_} but should be {self._width()}")


def open_item(item: Any, position: int, contents: dict[int, str] | None = None) -> Any:
    """Return a PIL image in RGB; errors name its path or position, and ``contents`` receives the hash of a file."""
    if not isinstance(item, (str, os.PathLike)):
        return open_rgb(item, f"image {position}", min_size=_DECODED_SIZE)
    content = read_file(Path(item), str(item))
    if contents is not None:
        contents[position] = new_hash(content).hexdigest()
    return open_rgb(content, str(item), min_size=_DECODED_SIZE)


def square(image: Any, size: int, mode: Literal["L", "RGB"]) -> Pixels:
    """Return the pixels of a PIL image stretched to a square, so that nothing is cropped."""
    image = image.convert(mode)
    if image.size != (size, size):
        from PIL import Image

        image = image.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(image)
