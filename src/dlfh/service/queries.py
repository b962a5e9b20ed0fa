"""Images that are queries, kept for a while so that a link to a search shows the same image and the same results."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from dlfh._persistence.files import read_regular, replace_file
from dlfh.errors import InputError
from dlfh.service.answering import RequestError
from dlfh.service.thumbnails import check_image, make_thumbnail

#: Longest side of an image in pixels, number of images, and days that an image is kept after it was last used.
_SIDE, _MAX_IMAGES, DAYS = 512, 2000, 30
_MAX_BYTES = 1 << 20


class QueryImages:
    """Images in a folder, named by the hash of their content; without a folder, in a temporary one.

    An image is stored as WebP, without metadata, and reduced. Searches use the stored image, so its results do not
    depend on who searches.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._given = folder
        if folder is not None and not os.path.isdir(folder):
            raise InputError(f"--queries must be a folder, but {os.fspath(folder)} is not a folder")

    @cached_property
    def _folder(self) -> Path:
        if self._given is not None:
            return Path(self._given)
        self._temporary = tempfile.TemporaryDirectory(prefix="dlfh-queries-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    def keep(self, content: bytes, max_pixels: int) -> str:
        """Store an image, and return its key."""
        check_image(content, max_pixels)
        try:
            image = make_thumbnail(content, _SIDE)
        except InputError:
            raise InputError("the image cannot be read: it is damaged, or its format is not supported") from None
        key = hashlib.sha256(image).hexdigest()[:32]
        try:
            self._remove_old()
            replace_file(self._folder / f"{key}.webp", [image])
        except OSError as error:
            raise RequestError(503, f"the image cannot be stored: {error.strerror}", retry_after="5") from None
        return key

    def get(self, key: str) -> bytes:
        """Return an image by its key."""
        path = self._folder / f"{key}.webp"
        try:
            if time.time() - path.stat().st_mtime <= DAYS * 86_400:
                os.utime(path)
                return read_regular(path, _MAX_BYTES)
        except OSError:
            pass
        raise RequestError(404, "this image is not kept any more: upload it again")

    def _remove_old(self) -> None:
        """Remove images that have not been used for long, and the oldest ones if there are too many."""
        times = []
        for file in self._folder.glob("*.webp"):
            with suppress(OSError):
                times.append((file.stat().st_mtime, file))
        times.sort(reverse=True)
        for place, (modified, file) in enumerate(times):
            if place >= _MAX_IMAGES - 1 or time.time() - modified > DAYS * 86_400:
                with suppress(OSError):
                    file.unlink()
