"""Engines: databases that hold the items of an index."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dlfh.errors import StorageError
from dlfh.index.engines.address import ENGINES, Address, is_address, parse_address

if TYPE_CHECKING:
    from dlfh.index.engines.engine import Engine

__all__ = ["ENGINES", "create_engine", "is_address", "open_engine", "parse_address"]

_CLASSES = {"duckdb": "DuckEngine", "postgres": "PostgresEngine", "milvus": "MilvusEngine"}


def create_engine(address: str, n_bits: int, modalities: tuple[str, ...]) -> Engine:
    """Create an empty index at an address."""
    parsed = parse_address(address)
    return _class_of(parsed).create(parsed, n_bits, modalities)


def open_engine(address: str) -> Engine:
    """Open the index at an address."""
    parsed = parse_address(address)
    if parsed.file is not None and not parsed.file.exists():
        raise StorageError(f"there is no index at {parsed.shown}: no such file")
    return _class_of(parsed).open(parsed)


def _class_of(address: Address) -> type[Engine]:
    module = "postgres" if address.engine == "postgresql" else address.engine
    found: type[Engine] = getattr(import_module(f"dlfh.index.engines.{module}"), _CLASSES[module])
    return found
