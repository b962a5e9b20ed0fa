"""Find image files: all in a folder, or the ones named in a table."""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlfh._imports import is_installed, missing

#: Suffixes of the files in a folder that are read as images.
IMAGE_SUFFIXES = (
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
_HEIC_SUFFIXES = (".heic", ".heif")
#: Suffixes of unsupported image formats: vector graphics, layered images, raw camera data.
_OTHER_SUFFIXES = (
    ".arw", ".cr2", ".cr3", ".dng", ".eps", ".jxl", ".nef", ".orf", ".psd", ".raf", ".rw2", ".svg", ".svgz", ".xcf",
)  # fmt: skip
#: Number of names to try in each folder, and maximum numbers of folders and of entries per folder.
_N_TRIED, _MAX_FOLDERS, _MAX_ENTRIES = 20, 200, 5_000


def images_in(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """Return the images in a folder and its subfolders, sorted, and the reasons why others cannot be read, by path."""
    files, unreadable = [], {}
    reasons = {suffix: f"{suffix} files are not supported: convert it to PNG or JPEG" for suffix in _OTHER_SUFFIXES}
    if not is_installed("pillow_heif"):
        reasons |= dict.fromkeys(_HEIC_SUFFIXES, str(missing("pillow_heif", "reading HEIC images", "heic")))
    for path in sorted(folder.rglob("*")):
        suffix = path.suffix.lower()
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if (suffix not in reasons and suffix not in IMAGE_SUFFIXES) or is_hidden or not path.is_file():
            continue
        if suffix in reasons:
            unreadable[path] = reasons[suffix]
        else:
            files.append(path)
    return files, unreadable


def find_image(folder: Path, written: str) -> tuple[Path | None, str]:
    """Return the file that a table names, relative to a folder; if there is none, return None and the reason."""
    # File systems differ in the Unicode form of accented names; Windows writes backslashes.
    spellings = [unicodedata.normalize(form, written) for form in ("NFC", "NFD")]
    try:
        for spelling in (*spellings, *(spelling.replace("\\", "/") for spelling in spellings)):
            if (folder / spelling).is_file():
                return folder / spelling, ""
    except (OSError, ValueError) as error:  # an impossible file name, or a folder without permission
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return None, f"cannot look for the file {written[:60]!r}: {reason}"
    return None, f"no such file: {folder / written}"


def folder_with(names: Sequence[str], near: Sequence[Path]) -> Path | None:
    """Return a folder, in or below the given ones, that has most of a sample of the named files."""
    tried = names[:: max(1, len(names) // _N_TRIED)][:_N_TRIED]
    relative = [name for name in tried if not Path(name).is_absolute()]
    for folder in itertools.islice(_folders(near), _MAX_FOLDERS):
        if sum(find_image(folder, name)[0] is not None for name in relative) > len(tried) / 2:
            return folder
    return None


def _folders(near: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders and their subfolders, breadth first."""
    queue = deque(near)
    seen: set[str] = set()
    while queue:
        folder = queue.popleft()
        if (place := os.path.realpath(folder)) in seen:
            continue
        seen.add(place)
        yield folder
        try:
            with os.scandir(folder) as entries:
                some = itertools.islice(entries, _MAX_ENTRIES)
                inner = [entry.name for entry in some if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        queue.extend(folder / name for name in sorted(inner) if not name.startswith("."))
