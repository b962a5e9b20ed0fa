"""Cached results: one JSON file per cell, written atomically."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._persistence.files import remove_leftovers, replace_file, try_lock
from dlfh.bench.cells import Cell
from dlfh.errors import InputError


@dataclass(frozen=True)
class Result:
    """The result of a cell."""

    #: Measurements that the settings determine.
    values: dict[str, Any]
    #: Seconds and bytes, which vary from run to run.
    times: dict[str, Any]
    #: Reason why there are no values.
    failure: str | None = None
    #: The limit that the cell exceeded: ``{"minutes": 5}`` or ``{"gigabytes": 8}``.
    limit: dict[str, float] | None = None
    #: Where it was computed.
    machine: dict[str, Any] | None = None

    def scores(self, protocol: str, direction: str) -> dict[str, Any] | None:
        """Return the measurements in a protocol and direction, or None."""
        scores: dict[str, Any] | None = self.values.get("protocols", {}).get(protocol, {}).get(direction)
        return scores

    def may_succeed_with(self, limits: dict[str, float]) -> bool:
        """Return whether the cell exceeded a limit that is now higher."""
        return self.limit is not None and any(limits[name] > value for name, value in self.limit.items())


def _is_valid(result: Result) -> bool:
    limit = {} if result.limit is None else result.limit
    return (
        isinstance(result.values, dict)
        and isinstance(result.times, dict)
        and isinstance(result.failure, str | None)
        and isinstance(result.machine, dict | None)
        and all(name in ("minutes", "gigabytes") and type(value) in (int, float) for name, value in limit.items())
    )


def check_folder(path: Path) -> None:
    """Raise InputError if the path exists and is not a folder."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, but a folder is needed")


def make_folder(path: Path) -> Path:
    """Create a folder if needed and return it."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {path}: {error.strerror}") from None
    return path


class Cache:
    """Results in a folder, with a log of every computation; the folder is created if needed."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = make_folder(Path(folder))
        self.cells = make_folder(self.folder / "cells")
        self.log_file = self.folder / "log.jsonl"

    def get(self, cell: Cell) -> Result | None:
        """Return the result of a cell, or None if no valid one is cached."""
        try:
            document = json.loads((self.cells / f"{cell.key}.json").read_bytes())
            result = Result(**{name: document[name] for name in Result.__dataclass_fields__})
            is_valid = Cell.from_plain(document["cell"]).key == cell.key and _is_valid(result)
        except (FileNotFoundError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            return None
        return result if is_valid else None

    def put(self, cell: Cell, result: Result) -> None:
        """Store the result of a cell."""
        document = {"cell": cell.plain(), **result.__dict__}
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
        replace_file(self.cells / f"{cell.key}.json", [text.encode()])
        self.log("computed", cell)

    def log(self, event: str, cell: Cell) -> None:
        """Append an event to the log."""
        line = {"event": event, "key": cell.key, "pid": os.getpid(), "at": round(time.time(), 3)}
        with open(self.log_file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock that lets only one run compute in this folder."""
        lock = try_lock(self.folder / ".running")
        if lock is None:
            raise InputError(f"another run is using {self.folder}: wait for it, or choose another --cache")
        with lock:
            for folder in (self.folder, self.cells):
                remove_leftovers(folder)
            yield
