"""The folder of a collection: how it is told from others, and how it is made whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlfh._persistence.files import exclusive, made_folder, read_regular, replace_file, sync_folder, try_lock
from dlfh._persistence.model_folder import holds_model
from dlfh.errors import InputError, ModelError, StorageError
from dlfh.index import Index
from dlfh.index.engines import ENGINES, is_address

__all__ = [
    "check_free",
    "is_collection",
    "new_folder",
    "note_place",
    "open_items",
    "read_card",
    "read_places",
    "write_address",
    "write_card",
]

_CARD = "collection.json"
_FORMAT = "dlfh-collection"

#: Held while a collection is built; and for how many seconds its file may be without a holder and still be in use.
_LOCK, _YOUNG = ".building", 60.0
_WHOLE = "whole"
_MOST_CARD_BYTES = 1 << 16
#: Where the items are, if not in the folder.
_ITEMS = "items.json"

#: Where the collection was when items came into it, and the most of these places that are kept.
_PLACES, _MOST_PLACES = "places.json", 16


def is_collection(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is that of a collection."""
    return (Path(folder) / _CARD).exists()


def check_free(folder: str | os.PathLike[str]) -> None:
    """Say so if there is something already where a collection is to be."""
    _refuse_address(folder)
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"cannot make a collection in {path}: there is something there already, which stays")


def _refuse_address(folder: str | os.PathLike[str]) -> None:
    """Say that a collection is a folder; the address, which may hold a password, is not repeated, nor made a folder."""
    beginnings = {start.rstrip("/") for start in ENGINES}  # what a path makes of postgresql:// has one slash
    if str(folder).startswith(tuple(beginnings)):
        raise InputError(
            "a collection is a folder, and this is the address of an engine, where its items may be: "
            "give a folder, and the address as --items (address= in Python)"
        )


def write_card(folder: Path, model: str, index: str) -> None:
    """Mark a folder as a collection's, with the checksum of its model and the identity of its index."""
    replace_file(folder / _CARD, [_encode(model, index)])


def _encode(model: object, index: object) -> bytes:
    card = {"format": _FORMAT, "format_version": 1, "model": model, "index": index}
    return json.dumps(card, indent=2).encode()


def read_card(folder: Path) -> dict[str, Any]:
    """Return what a collection's folder says of itself; raise ModelError if it is none."""
    _refuse_address(folder)
    if not folder.is_dir():
        raise ModelError(
            f"there is no collection at {folder}: " + ("it is a file" if folder.exists() else "no such folder")
        )
    try:
        content = read_regular(folder / _CARD, _MOST_CARD_BYTES)
        card = json.loads(content)
    except FileNotFoundError:
        why = "it is a model; dlfh build --model makes a collection with it" if holds_model(folder) else ""
        raise ModelError(f"{folder} is not a collection: {why or f'it has no {_CARD}'}") from None
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"collection {folder} is damaged: {_CARD} cannot be read") from None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        raise ModelError(f"{folder} is not a collection: its {_CARD} is of something else")
    if card.get("format_version") != 1:
        version = card.get("format_version")
        raise ModelError(f"collection {folder} has format version {version!r}, and this dlfh reads 1")
    if content != _encode(card.get("model"), card.get("index")):
        raise ModelError(f"collection {folder} is damaged: {_CARD} is not as it was written")
    return card


def write_address(folder: Path, address: str) -> None:
    """Keep where the items of a collection are, if they are in an engine; without secrets."""
    replace_file(folder / _ITEMS, [json.dumps({"items": address}, indent=2).encode()])


def open_items(folder: Path, *, writable: bool = False) -> Index:
    """Open the items of a collection, in its folder or in the engine that it names, which has an index's calls."""
    try:
        address = json.loads(read_regular(folder / _ITEMS, _MOST_CARD_BYTES))["items"]
    except FileNotFoundError:
        return Index.open(folder / "index", writable=writable)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(f"collection {folder} is damaged: {_ITEMS} does not say where its items are") from None
    if not is_address(address):
        raise ModelError(f"collection {folder} is damaged: {_ITEMS} has no address of an engine")
    return Index.open(address, writable=writable)


def note_place(folder: Path, place: Path) -> None:
    """Keep where a collection is: pictures of its items are found from there when it has moved."""
    places = read_places(folder)
    here = str(place.resolve())
    if here not in map(str, places):
        kept = [*map(str, places), here][-_MOST_PLACES:]
        replace_file(folder / _PLACES, [json.dumps(kept).encode()])


def read_places(folder: Path) -> list[Path]:
    """Return where a collection was; nothing depends on it but pictures, so that what cannot be read is no error."""
    try:
        places = json.loads(read_regular(folder / _PLACES, _MOST_CARD_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(places, list):
        return []
    return [Path(place) for place in places[:_MOST_PLACES] if isinstance(place, str) and "\0" not in place]


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a place to make a folder in; it is where it should be when the block ends, or nothing is there."""
    path = Path(folder)
    check_free(path)
    building = path.absolute().parent / f".{path.absolute().name}-{secrets.token_hex(8)}.dlfh"
    try:
        with made_folder(building.parent):
            _remove_leftovers(path)
            try:
                building.mkdir(mode=0o700)
                with exclusive(building / _LOCK):  # until it is in place: what nobody holds may be swept
                    yield building / _WHOLE
                    os.rename(building / _WHOLE, path)  # takes the place of an empty folder too
                    sync_folder(building.parent)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    except (ModelError, StorageError) as error:  # of the place that was asked for, not of the one it was built in
        raise type(error)(str(error).replace(str(building / _WHOLE), str(path))) from None
    except OSError as error:
        raise StorageError(f"cannot make a collection in {path}: {error.strerror or error}") from None


def _remove_leftovers(path: Path) -> None:
    """Remove what builds of the same collection left when they were killed: folders whose lock nobody holds.

    A folder of another name, without the lock's file, or with anything that builds do not make, is somebody else's.
    """
    own = re.compile(rf"\.{re.escape(path.absolute().name)}-[0-9a-f]{{16}}\.dlfh")
    for left in path.absolute().parent.iterdir():
        mark = left / _LOCK
        if not own.fullmatch(left.name) or not mark.is_file() or not {*os.listdir(left)} <= {_LOCK, _WHOLE}:
            continue
        if time.time() - mark.stat().st_mtime < _YOUNG:
            continue  # a lock so young may be about to be taken
        lock = try_lock(mark)
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()
