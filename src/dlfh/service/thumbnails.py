"""Small pictures of items, from the paths that the collection keeps and from no other."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from io import BytesIO
from typing import Any

from dlfh.errors import InputError
from dlfh.features.images import known_formats, open_item, quiet_pillow
from dlfh.service.errors import Refusal
from dlfh.service.states import State

#: The longest side of a small picture, and how many bytes of them are kept.
_SIDE, _MOST_BYTES = 256, 64 << 20


class Thumbnails:
    """Small pictures, the last ones kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def of(self, state: State, identifier: str) -> tuple[bytes, str]:
        """Return an item's small picture as WebP, and what tells it from others."""
        if identifier not in state.index:
            raise Refusal(404, f"there is no item {identifier[:200]!r}")
        path = state.collection.image_path(state.collection.get(identifier).metadata or {})
        if path is None:
            raise Refusal(404, f"the item {identifier[:200]!r} has no picture")
        try:
            about = os.stat(path)
        except (OSError, ValueError):
            raise Refusal(404, f"the picture of {identifier[:200]!r} is not where it was") from None
        key = str(path), about.st_mtime_ns, about.st_size
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is None:
            try:
                kept = _small(path)
            except InputError:
                raise Refusal(404, f"the picture of {identifier[:200]!r} cannot be read") from None
            self._keep(key, kept)
        return kept, hashlib.sha256(repr(key).encode()).hexdigest()[:32]

    def _keep(self, key: tuple[Any, ...], content: bytes) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = content
                self._n_bytes += len(content)
            while self._n_bytes > _MOST_BYTES:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])


def _small(path: Any) -> bytes:
    with quiet_pillow:
        image = open_item(path, 0)
        image.thumbnail((_SIDE, _SIDE))
        content = BytesIO()
        image.save(content, "WEBP", quality=85)
    return content.getvalue()


def check_pixels(content: bytes, most: int) -> str:
    """Refuse a picture with too many pixels, before anything decodes it; return what its format is."""
    from PIL import Image

    if not content:
        raise InputError("the image is empty")
    with quiet_pillow:
        try:
            with Image.open(BytesIO(content), formats=known_formats()) as image:
                n_pixels, kind = image.width * image.height, str(image.format).lower()
        except Image.DecompressionBombError:
            n_pixels, kind = most + 1, ""
        except Exception:  # decoders raise all sorts of things on broken files
            raise InputError("the image cannot be read: it is broken, or of no known format") from None
    if n_pixels > most:
        raise Refusal(413, f"the image has more than {most:,} pixels, the most that is taken")
    return kind
