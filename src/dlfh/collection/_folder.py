"""The folder of a collection: how it is told from others, and how it is made whole or not at all."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlfh.errors import InputError, ModelError
from dlfh.persistence._files import exclusive, replace_file, try_lock

__all__ = ["check_free", "is_collection", "new_folder", "read_card", "write_card"]

_CARD = "collection.json"
_FORMAT = "dlfh-collection"

#: Held while a collection is built; and for how many seconds its file may be without a holder and still be in use.
_LOCK, _YOUNG = ".building", 60.0


def is_collection(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is that of a collection."""
    return (Path(folder) / _CARD).exists()


def check_free(folder: str | os.PathLike[str]) -> None:
    """Say so if there is something already where a collection is to be."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"cannot make a collection in {path}: there is something there already")


def write_card(folder: Path, model: str) -> None:
    """Mark a folder as a collection's, with the checksum of its model."""
    card = {"format": _FORMAT, "format_version": 1, "model": model}
    replace_file(folder / _CARD, [json.dumps(card, indent=2).encode()])


def read_card(folder: Path) -> dict[str, Any]:
    """Return what a collection's folder says of itself; raise ModelError if it is none."""
    if not folder.is_dir():
        raise ModelError(
            f"there is no collection at {folder}: " + ("it is a file" if folder.exists() else "no such folder")
        )
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a collection: it has no {_CARD}") from None
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"collection {folder} is damaged: {_CARD} cannot be read") from None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        raise ModelError(f"{folder} is not a collection: its {_CARD} is of something else")
    if card.get("format_version") != 1:
        version = card.get("format_version")
        raise ModelError(f"collection {folder} has format version {version!r}, and this dlfh reads 1")
    return card


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a place to make a folder in; it is where it should be when the block ends, or nothing is there."""
    path = Path(folder)
    check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with exclusive(building / _LOCK):
            yield building / "whole"
        os.rename(building / "whole", path)  # takes the place of an empty folder too
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _remove_leftovers(path: Path) -> None:
    """Remove what builds of the same collection left when they were killed: folders whose lock nobody holds.

    A folder without the lock's file is somebody else's, whatever its name.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        mark = left / _LOCK
        if not mark.is_file() or time.time() - mark.stat().st_mtime < _YOUNG:
            continue  # a lock so young may be about to be taken
        lock = try_lock(mark)
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()
