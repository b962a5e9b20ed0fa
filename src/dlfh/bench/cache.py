"""Results on disk: one JSON file per cell, whole or not there at all."""

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

__all__ = ["Cache", "Result", "check_folder", "make_folder"]


@dataclass(frozen=True)
class Result:
    """What came of a cell.

    Attributes
    ----------
    values : dict
        Numbers that the settings decide: the same in every run.
    times : dict
        Seconds and bytes, which differ from run to run.
    failure : str or None
        Why there are no values, in one sentence.
    limit : dict
        For a cell that was stopped: the limit it ran into, ``{"minutes": 5}`` or ``{"gigabytes": 8}``.
    machine : dict
        Where it was computed.
    """

    values: dict[str, Any]
    times: dict[str, Any]
    failure: str | None = None
    limit: dict[str, float] | None = None
    machine: dict[str, Any] | None = None

    def may_succeed_with(self, limits: dict[str, float]) -> bool:
        """Return whether the cell was stopped by a limit that is wider now."""
        return self.limit is not None and any(limits[name] > value for name, value in self.limit.items())


def _is_sound(result: Result) -> bool:
    """Return whether a result has the types that runs write."""
    limit = {} if result.limit is None else result.limit
    return (
        isinstance(result.values, dict)
        and isinstance(result.times, dict)
        and isinstance(result.failure, str | None)
        and isinstance(result.machine, dict | None)
        and all(name in ("minutes", "gigabytes") and type(most) in (int, float) for name, most in limit.items())
    )


def check_folder(path: Path) -> None:
    """Raise InputError if there is something else than a folder."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; a run needs a folder")


def make_folder(path: Path) -> Path:
    """Make a folder if it is not there, and return it."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None
    return path


class Cache:
    """The results in a run's folder, and a log of every computation.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = make_folder(Path(folder))
        self.cells = make_folder(self.folder / "cells")
        self.log_file = self.folder / "log.jsonl"

    def get(self, cell: Cell) -> Result | None:
        """Return the result of a cell, or None if it has not been computed."""
        try:
            text = (self.cells / f"{cell.key}.json").read_bytes()
        except FileNotFoundError:
            return None
        try:
            document = json.loads(text)
            result = Result(**{name: document[name] for name in Result.__dataclass_fields__})
            is_sound = Cell.from_plain(document["cell"]).key == cell.key and _is_sound(result)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            is_sound = False
        return result if is_sound else None  # what no run wrote is computed again, and replaced

    def put(self, cell: Cell, result: Result) -> None:
        """Keep the result of a cell."""
        document = {"cell": cell.plain(), **result.__dict__}
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
        replace_file(self.cells / f"{cell.key}.json", [text.encode()])
        self.log("computed", cell)

    def log(self, event: str, cell: Cell) -> None:
        """Add a line to the log of computations."""
        line = {"event": event, "key": cell.key, "pid": os.getpid(), "at": round(time.time(), 3)}
        with open(self.log_file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one run at a time compute in this folder."""
        lock = try_lock(self.folder / ".running")
        if lock is None:
            raise InputError(f"another run is using {self.folder}: wait for it, or choose another --cache")
        with lock:
            for place in (self.folder, self.cells):
                remove_leftovers(place)
            yield
