"""Cells, the units of computation, and the cache of their results: one JSON file per cell, written atomically."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from dlfh._parallel import available_cores
from dlfh._persistence.files import remove_leftovers, replace_file, try_lock
from dlfh._version import __version__
from dlfh.errors import InputError


@dataclass(frozen=True)
class SplitSpec:
    """How to split a data set into training points, queries and unseen points."""

    seed: int = 0
    queries: int | None = None  # number of queries, for data sets that do not define them
    #: Share of the training points to hold out as the *unseen* database. With 0, the queries are divided into two
    #: halves, and each half is the unseen database of the other.
    unseen_share: float = 0.0
    #: Share of the training points that replace the queries when parameters are tuned, and the seed for choosing them.
    validation_share: float = 0.0
    validation_seed: int = 0
    size: int | None = None  # number of training points to keep; None keeps all


@dataclass(frozen=True)
class Cell:
    """One computation: a method with its parameters on a split of a data set."""

    data: str
    fingerprint: str  # hash of the data set's arrays
    method: str
    parameters: dict[str, Any]  # parameters that differ from the method's defaults
    bits: int
    seed: int
    split: SplitSpec = field(default_factory=SplitSpec)
    #: Accuracy of a fit; training time and memory, measured while no other cell runs; or accuracy of codes in a file.
    kind: Literal["retrieval", "time", "codes"] = "retrieval"
    k: int = 50  # cut-off of MAP@k and precision@k
    #: Number of training points that the method learns from (None for all); it encodes the others.
    train_points: int | None = None
    #: Version of the library and, for a method of another package, of its source; codes may differ between versions.
    version: str = __version__

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the result; the cached result is stored under it."""
        relevant = {name: value for name, value in self.plain().items() if name != "data"}
        text = json.dumps(relevant, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __hash__(self) -> int:
        return hash(self.key)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Cell:
        return cls(**{**plain, "split": SplitSpec(**plain["split"])})


@dataclass(frozen=True)
class Result:
    """The result of a cell."""

    values: dict[str, Any]  # reproducible measurements
    times: dict[str, Any]  # seconds and bytes, which vary from run to run
    failure: str | None = None  # reason for missing values
    #: The limit that the cell exceeded: ``{"minutes": 5}`` or ``{"gigabytes": 8}``.
    limit: dict[str, float] | None = None
    machine: dict[str, Any] | None = None  # the machine that computed the result

    def scores(self, protocol: str, direction: str) -> dict[str, Any] | None:
        return cast("dict[str, Any] | None", self.values.get("protocols", {}).get(protocol, {}).get(direction))

    def may_succeed_with(self, limits: dict[str, float]) -> bool:
        """Return whether the cell exceeded a limit that is now higher."""
        return self.limit is not None and any(limits[name] > value for name, value in self.limit.items())

    def is_valid(self) -> bool:
        kinds = {"values": dict, "times": dict, "failure": str | None, "machine": dict | None}
        limits = (self.limit or {}).items()
        return all(isinstance(getattr(self, name), kind) for name, kind in kinds.items()) and all(
            name in ("minutes", "gigabytes") and type(value) in (int, float) for name, value in limits
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

    def get(self, cell: Cell) -> Result | None:
        try:
            document = json.loads((self.cells / f"{cell.key}.json").read_bytes())
            result = Result(**{name: document[name] for name in Result.__dataclass_fields__})
            is_valid = Cell.from_plain(document["cell"]).key == cell.key and result.is_valid()
        except (FileNotFoundError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            return None
        return result if is_valid else None

    def put(self, cell: Cell, result: Result) -> None:
        document = {"cell": cell.plain(), **result.__dict__}
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
        replace_file(self.cells / f"{cell.key}.json", [text.encode()])
        self.log("computed", cell)

    def log(self, event: str, cell: Cell) -> None:
        line = {"event": event, "key": cell.key, "pid": os.getpid(), "at": round(time.time(), 3)}
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
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


def describe_machine() -> dict[str, Any]:
    """Return the processor, cores, memory, operating system and library versions."""
    processor = find_in_file("/proc/cpuinfo", r"model name\s*:\s*(.+)")
    kilobytes = find_in_file("/proc/meminfo", r"MemTotal:\s*(\d+) kB")
    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "numba", "faiss-cpu")}
    return {
        "processor": processor.strip() or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "memory": f"{int(kilobytes) / 2**20:.0f} GiB" if kilobytes else "unknown",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"dlfh": __version__, "python": platform.python_version(), **libraries},
    }


def find_in_file(file: str, pattern: str) -> str:
    """Return the first group of a pattern in a text file; empty if the file or the pattern is missing."""
    match = re.search(pattern, Path(file).read_text()) if Path(file).exists() else None
    return match[1] if match else ""
