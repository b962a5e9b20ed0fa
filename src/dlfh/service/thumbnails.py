"""Thumbnails of items. Paths in a collection are not trusted: only pictures in permitted folders are read."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from dlfh._persistence.files import read_regular
from dlfh.errors import InputError
from dlfh.features.images import known_formats, open_rgb, quiet_pillow
from dlfh.service.answering import RequestError, unknown_item
from dlfh.service.states import State

_SAMPLE = 100  # number of items that are checked for pictures outside the permitted folders
#: Longest side of a thumbnail in pixels; maximum number of cached thumbnails, which have 8 kB (noise: 60 kB) each.
_SIDE, _MAX_CACHED = 256, 1024
_DECODED = 512  # images are decoded at this size or larger
_MAX_ORIGINAL = 1 << 28  # maximum size of an original image, in bytes and in pixels


class Picture(NamedTuple):
    """An image as it is sent: content, media type, entity tag, and the name of its file if it is a download."""

    content: bytes
    kind: str
    tag: str
    name: str | None = None


class Thumbnails:
    """Thumbnails of pictures in ``folders`` and in the collection's folder."""

    def __init__(self, folders: Sequence[str | os.PathLike[str]] = ()) -> None:
        for folder in folders:
            if not os.path.isdir(folder):
                raise InputError(f"--pictures must be a folder, but {os.fspath(folder)} is not a folder")
        self._folders = tuple(map(Path, folders))

    def of(self, state: State, identifier: str, size: int = _SIDE) -> Picture:
        """Return the thumbnail of an item as WebP; ``size`` is its longest side."""
        key = self._find(state, identifier)
        try:
            content = _thumbnail(*key) if size == _SIDE else make_thumbnail(key[0], size)
        except InputError:
            raise RequestError(404, f"the image of item {identifier[:200]!r} cannot be read") from None
        return Picture(content, "image/webp", hashlib.sha256(repr((key, size)).encode()).hexdigest()[:32])

    def original(self, state: State, identifier: str) -> Picture:
        """Return the image file of an item. Its kind comes from its content, since a file can have any name."""
        path, *_ = key = self._find(state, identifier)
        try:
            content = read_regular(Path(path), _MAX_ORIGINAL)
            kind = check_image(content, _MAX_ORIGINAL)
        except (OSError, InputError, RequestError):
            raise RequestError(404, f"the image of item {identifier[:200]!r} cannot be read") from None
        tag = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        return Picture(content, f"image/{kind}", tag, os.path.basename(path))

    def _find(self, state: State, identifier: str) -> tuple[str, int, int]:
        """Return the path, time and size of the image file of an item."""
        if identifier not in state.index:
            raise unknown_item(identifier)
        named = state.collection.image_path(state.collection.get(identifier).metadata or {})
        if named is None:
            raise RequestError(404, f"item {identifier[:200]!r} has no image")
        path = self._permitted(state, named)
        try:
            status = None if path is None else os.stat(path)
        except OSError:
            status = None
        if status is None:  # do not reveal which files exist elsewhere
            message = "is missing, or not in a folder that this service shows"
            raise RequestError(404, f"the image file of item {identifier[:200]!r} {message}")
        return str(path), status.st_mtime_ns, status.st_size

    def _permitted(self, state: State, path: Path) -> Path | None:
        """Return the path without symbolic links if it is in a permitted folder, else None."""
        try:
            real = Path(os.path.realpath(path))
        except (OSError, ValueError):  # not a valid file name
            return None
        folders = map(os.path.realpath, (state.collection.path, *self._folders))
        return real if any(real.is_relative_to(folder) for folder in folders) else None

    def warning(self, state: State) -> str | None:
        """Return a warning if the pictures of the first items exist but are not permitted."""
        positions = state.index.positions()[:_SAMPLE].tolist()
        named = [
            path
            for item in state.index.items(positions)
            for path in state.collection.image_paths(item.metadata or {})
            if self._permitted(state, path) is None and path.is_file()
        ]
        if not named:
            return None
        folder = os.path.commonpath([os.path.realpath(path.parent) for path in named])
        # Do not suggest a parent folder: a malicious collection could make users expose other files.
        if Path(os.path.realpath(state.collection.path)).is_relative_to(folder):
            return "pictures outside the collection are not shown: name their folder with --pictures"
        return f"pictures in {folder} are not shown: add --pictures {folder} to show them"


@functools.lru_cache(_MAX_CACHED)
def _thumbnail(path: str, modified: int, size: int) -> bytes:
    return make_thumbnail(path, _SIDE)


def make_thumbnail(image_file: Any, side: int) -> bytes:
    """Return an image, a path or bytes, as WebP without metadata; its longest side has at most ``side`` pixels."""
    with quiet_pillow:
        image = open_rgb(image_file, min_size=max(side, _DECODED))
        image.thumbnail((side, side))
        content = BytesIO()
        image.save(content, "WEBP", quality=85)
    return content.getvalue()


def check_image(content: bytes, max_pixels: int) -> str:
    """Return the format of an image; raise an error, without decoding it, if it has too many pixels."""
    from PIL import Image

    if not content:
        raise InputError("the image is empty")
    with quiet_pillow:
        try:
            with Image.open(BytesIO(content), formats=known_formats()) as image:
                n_pixels, kind = image.width * image.height, str(image.format).lower()
        except Image.DecompressionBombError:
            n_pixels, kind = max_pixels + 1, ""
        except Exception:  # decoders raise many types of errors on damaged files
            raise InputError("the image cannot be read: it is damaged, or its format is not supported") from None
    if n_pixels > max_pixels:
        raise RequestError(413, f"the image has more than {max_pixels:,} pixels")
    return kind
