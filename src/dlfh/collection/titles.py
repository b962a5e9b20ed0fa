"""Titles: the names by which people know items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlfh._persistence.files import read_regular, replace_file
from dlfh.errors import InputError
from dlfh.index.where import values_of

#: File with the name of the column that titles come from, and its maximum size.
_FILE, _MAX_BYTES = "title.txt", 1 << 12
_COLUMNS = ("title", "name")  # columns that titles come from, if no other is chosen
_MAX_CHARACTERS = 200


class Titles:
    """Returns titles: the value of a column, or else the first text, or else the id.

    ``column`` is the chosen column, which may also be a text modality; None for a column called title or name.
    """

    def __init__(self, texts: Sequence[str], column: str | None = None) -> None:
        self.column = column
        self._names = (*([column] if column else _COLUMNS), *texts)

    def __call__(self, identifier: str, metadata: Mapping[str, Any] | None) -> str:
        values = (values_of(metadata, name) for name in self._names)
        found = next((str(each[0]) for each in values if each and str(each[0]).strip()), identifier)
        title = " ".join(found.split()) or identifier
        return title if len(title) <= _MAX_CHARACTERS else title[: _MAX_CHARACTERS - 1] + "…"


def read_title(folder: Path) -> str | None:
    """Return the column that a collection's titles come from; None if none was chosen."""
    with suppress(OSError, ValueError):
        return read_regular(folder / _FILE, _MAX_BYTES).decode().strip() or None
    return None


def write_title(folder: Path, column: str | None) -> None:
    """Record the column that a collection's titles come from, if one was chosen."""
    if column is not None:
        replace_file(folder / _FILE, [f"{column}\n".encode()])


def check_title(column: str | None, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
    """Raise InputError if no item has a value in the column that titles should come from."""
    if column is not None and not any(values_of(metadata, column) for metadata in all_metadata):
        raise InputError(f"--title: no item has a text or a column called {column!r}")
