"""Thumbnails of items. Only image paths that the collection stores are read."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from io import BytesIO
from typing import Any

from dlfh.errors import InputError
from dlfh.features.images import known_formats, open_item, quiet_pillow
from dlfh.service.errors import RequestError, unknown_item
from dlfh.service.states import State

#: Longest side of a thumbnail in pixels, and size of the cache.
_SIDE, _MAX_BYTES = 256, 64 << 20


class Thumbnails:
    """Thumbnails, with a cache of the most recently used."""

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def of(self, state: State, identifier: str) -> tuple[bytes, str]:
        """Return the thumbnail of an item as WebP, and its entity tag."""
        if identifier not in state.index:
            raise unknown_item(identifier)
        path = state.collection.image_path(state.collection.get(identifier).metadata or {})
        if path is None:
            raise RequestError(404, f"item {identifier[:200]!r} has no image")
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            raise RequestError(404, f"the image file of item {identifier[:200]!r} is missing") from None
        key = str(path), status.st_mtime_ns, status.st_size
        with self._lock:
            content = self._cache.get(key)
            if content is not None:
                self._cache.move_to_end(key)
        if content is None:
            try:
                content = _thumbnail(path)
            except InputError:
                raise RequestError(404, f"the image of item {identifier[:200]!r} cannot be read") from None
            self._store(key, content)
        return content, hashlib.sha256(repr(key).encode()).hexdigest()[:32]

    def _store(self, key: tuple[Any, ...], content: bytes) -> None:
        with self._lock:
            if key not in self._cache:
                self._cache[key] = content
                self._n_bytes += len(content)
            while self._n_bytes > _MAX_BYTES:
                self._n_bytes -= len(self._cache.popitem(last=False)[1])


def _thumbnail(path: Any) -> bytes:
    with quiet_pillow:
        image = open_item(path, 0)
        image.thumbnail((_SIDE, _SIDE))
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
