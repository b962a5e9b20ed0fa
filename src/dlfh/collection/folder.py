"""The folder of a collection: its card, the location of its items, and its atomic creation."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dlfh._persistence.files import (
    create_folder,
    exclusive,
    read_regular,
    replace_file,
    sync_folder,
    try_lock,
    version_problem,
)
from dlfh._persistence.model_folder import config_checksum, holds_model, read_model
from dlfh.errors import InputError, ModelError, StorageError
from dlfh.index import Index
from dlfh.index.engines.address import ENGINES, is_address, parse_address

_CARD = "collection.json"
_FORMAT = "dlfh-collection"
#: Incremented when older versions cannot read new files.
_FORMAT_VERSION = 1

#: Lock held while a collection is built, and seconds after which a temporary folder without it counts as abandoned.
_LOCK, _ABANDONED_SECONDS = ".building", 60.0
_WHOLE = "whole"
_MAX_CARD_BYTES = 1 << 16
#: The address of the items, if they are stored in a database, and the variable with addresses that the user trusts.
_ITEMS, _ENGINES = "items.json", "DLFH_ENGINES"

#: Suffix of the folders that `Collection.relearn` writes: of the model and of the index.
_PARTS = re.compile(r"(-[0-9a-f]{16})?")
_PART_NAMES = ("model", "index")

#: File with current and former locations of the collection, and the number of locations to keep.
_LOCATIONS, _MAX_LOCATIONS = "places.json", 16


def is_collection(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder contains a collection."""
    return (Path(folder) / _CARD).exists()


def check_free(folder: str | os.PathLike[str]) -> None:
    """Raise InputError if the folder of a new collection is not empty."""
    _refuse_address(folder)
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"cannot create a collection in {path}: it is not an empty folder")


def _refuse_address(folder: str | os.PathLike[str]) -> None:
    """Raise InputError for a database address. It may hold a password, so the message does not repeat it."""
    prefixes = {prefix.rstrip("/") for prefix in ENGINES}  # a Path merges the two slashes of postgresql://
    if str(folder).startswith(tuple(prefixes)):
        raise InputError(
            "the collection must be a folder, got a database address: pass the address of the items as --items "
            "(address= in Python)"
        )


def write_card(folder: Path, index: Index, parts: str = "") -> None:
    """Write the card of a collection, with its model's checksum, its index's identity, and the address of its items.

    parts: Suffix of the folders of model and index. Writing the card replaces both at once.
    """
    if index.address is not None:  # without password; None if the items are in the folder
        replace_file(folder / _ITEMS, [json.dumps({"items": index.address}, indent=2).encode()])
    model = config_checksum(read_model(folder / f"model{parts}")[0])
    replace_file(folder / _CARD, [_encode(model, index.identity, parts)])


def _encode(model: object, index: object, parts: object = "") -> bytes:
    card = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "model": model, "index": index}
    return json.dumps(card | ({"parts": parts} if parts else {}), indent=2).encode()


def model_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder of a collection's model."""
    return Path(folder) / f"model{read_card(Path(folder)).get('parts', '')}"


def remove_former_parts(folder: Path) -> None:
    """Remove models and indexes that the card does not name, where possible: open readers may keep their files."""
    kept = {name + read_card(folder).get("parts", "") for name in _PART_NAMES}
    for entry in folder.iterdir():
        name = next((name for name in _PART_NAMES if _PARTS.fullmatch(entry.name.removeprefix(name))), "")
        if entry.name not in kept and entry.name.startswith(name or "/") and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a collection; raise ModelError if the folder is not a collection."""
    _refuse_address(folder)
    if not folder.is_dir():
        reason = "it is a file" if folder.exists() else "no such folder"
        raise ModelError(f"there is no collection at {folder}: {reason}")
    try:
        content = read_regular(folder / _CARD, _MAX_CARD_BYTES)
        card = json.loads(content)
    except FileNotFoundError:
        is_model = "it is a model; dlfh build --model creates a collection with it"
        reason = is_model if holds_model(folder) else f"it has no {_CARD}"
        raise ModelError(f"{folder} is not a collection: {reason}") from None
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"collection {folder} is damaged: {_CARD} cannot be read") from None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        raise ModelError(f"{folder} is not a collection: its {_CARD} has another format")
    problem = version_problem(card.get("format_version"), _FORMAT_VERSION)
    if problem is not None:
        raise ModelError(f"collection {folder} {problem}")
    parts = card.get("parts", "")
    is_known = isinstance(parts, str) and _PARTS.fullmatch(parts) is not None
    if not is_known or content != _encode(card.get("model"), card.get("index"), parts):
        raise ModelError(f"collection {folder} is damaged: {_CARD} was altered")
    return card


def open_items(folder: Path, *, writable: bool = False, address: str | None = None) -> Index:
    """Open the items of a collection, in its folder or in a database.

    A folder may be untrusted, and connecting to a database may send it passwords from the environment. A database is
    therefore opened only if the user also names it, as ``address`` or in the environment variable DLFH_ENGINES.
    """
    stored = _read_address(folder)
    if stored is not None:
        named = _engines() if address is None else {parse_address(address).shown: address}
        if stored not in named:
            raise InputError(
                f"collection {folder} says that its items are in {stored}: if you trust this database, set the "
                f"environment variable {_ENGINES} to this address (address= in Python)"
            )
        return Index.open(named[stored], writable=writable)  # as the user wrote it, perhaps with a password
    if address is not None:
        raise InputError(f"the items of collection {folder} are in its folder, not in a database: omit the address")
    return Index.open(folder / f"index{read_card(folder).get('parts', '')}", writable=writable)


def _read_address(folder: Path) -> str | None:
    """Return the normalised address of the items; None if they are in the folder."""
    try:
        address = json.loads(read_regular(folder / _ITEMS, _MAX_CARD_BYTES))["items"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(f"collection {folder} is damaged: {_ITEMS} cannot be read") from None
    with suppress(InputError):
        if is_address(address):
            return parse_address(address).shown
    raise ModelError(f"collection {folder} is damaged: {_ITEMS} does not contain the address of a database")


def _engines() -> dict[str, str]:
    """Return the addresses in DLFH_ENGINES, by normalised form. Spaces separate addresses unless they are quoted."""
    try:
        return {parse_address(address).shown: address for address in shlex.split(os.environ.get(_ENGINES, ""))}
    except InputError as error:
        raise InputError(f"the environment variable {_ENGINES} is not valid: {error}") from None
    except ValueError:
        raise InputError(f"the environment variable {_ENGINES} has a quote that is not closed") from None


def record_location(folder: Path, location: Path) -> None:
    """Record the location of a collection, so that images are found after it has moved."""
    locations = read_locations(folder)
    here = str(location.resolve())
    if here not in map(str, locations):
        kept = [*map(str, locations), here][-_MAX_LOCATIONS:]
        replace_file(folder / _LOCATIONS, [json.dumps(kept).encode()])


def read_locations(folder: Path) -> list[Path]:
    """Return the recorded locations; an empty list if the file cannot be read, since only images depend on it."""
    try:
        locations = json.loads(read_regular(folder / _LOCATIONS, _MAX_CARD_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(locations, list):
        return []
    return [Path(path) for path in locations[:_MAX_LOCATIONS] if isinstance(path, str) and "\0" not in path]


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder that becomes the new folder when the block succeeds, and is removed otherwise."""
    path = Path(folder)
    check_free(path)
    building = path.absolute().parent / f".{path.absolute().name}-{secrets.token_hex(8)}.dlfh"
    try:
        with create_folder(building.parent):
            _remove_abandoned(path)
            try:
                building.mkdir(mode=0o700)
                with exclusive(building / _LOCK):  # until the rename, so that no other process removes it
                    yield building / _WHOLE
                    os.rename(building / _WHOLE, path)  # replaces an empty folder as well
                    sync_folder(building.parent)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    except (ModelError, StorageError) as error:  # name the requested folder, not the temporary one
        raise type(error)(str(error).replace(str(building / _WHOLE), str(path))) from None
    except OSError as error:
        raise StorageError(f"cannot create a collection in {path}: {error.strerror or error}") from None


def _remove_abandoned(path: Path) -> None:
    """Remove temporary folders of killed builds; keep folders without the lock file, or with any other file."""
    pattern = re.compile(rf"\.{re.escape(path.absolute().name)}-[0-9a-f]{{16}}\.dlfh")
    for entry in path.absolute().parent.iterdir():
        lock_file = entry / _LOCK
        if not pattern.fullmatch(entry.name) or not lock_file.is_file() or not {*os.listdir(entry)} <= {_LOCK, _WHOLE}:
            continue
        if time.time() - lock_file.stat().st_mtime < _ABANDONED_SECONDS:
            continue  # another process may be about to lock it
        with suppress(OSError):  # a symbolic link, which no build creates
            lock = try_lock(lock_file)
            if lock is not None:
                shutil.rmtree(entry, ignore_errors=True)
                lock.close()
