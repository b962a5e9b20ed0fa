"""Engines: items in a database that is there already, behind the calls of an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlfh.errors import StorageError
from dlfh.index.engines.address import ENGINES, Address, is_address, parse_address
from dlfh.index.index import Index

if TYPE_CHECKING:
    from dlfh.index.engines.engine import Engine

__all__ = ["ENGINES", "create_index", "is_address", "open_index", "parse_address"]


def create_index(address: str | Path, n_bits: int, modalities: Sequence[str]) -> Index | Engine:
    """Make an empty index in a new folder, or at the address of an engine.

    Parameters
    ----------
    address : str or path
        A folder; or ``postgresql://USER@HOST/DATABASE#TABLE``, ``duckdb:FILE#TABLE``, ``milvus://HOST:PORT#TABLE`` or
        ``milvus:FILE.db#TABLE``. What is not said (the table, a password) is by default ``dlfh``, or from the
        environment.
    n_bits : int
    modalities : sequence of str

    Returns
    -------
    Index, or an engine with its calls

    Examples
    --------
    >>> import numpy as np
    >>> with create_index("duckdb:", n_bits=8, modalities=["image"]) as index:
    ...     index.add(["a", "b"], {"image": np.array([[7], [1]], np.uint8)}, metadata=[{"price": 3}, {"price": 5}])
    ...     index.search("image", np.array([[3]], np.uint8), where={"price": {"<": 4}})[0]
    [Hit(id='a', distance=1, learned=False)]
    """
    if not is_address(address):
        return Index.create(address, n_bits, modalities)
    parsed = parse_address(str(address))
    return _class_of(parsed).create(parsed, n_bits, modalities)


def open_index(address: str | Path, *, writable: bool = False) -> Index | Engine:
    """Open the index in a folder, or at the address of an engine, as `create_index` takes it.

    Parameters
    ----------
    address : str or path
    writable : bool
        Whether a folder is opened for writing; who may write to an engine, that says.
    """
    if not is_address(address):
        return Index.open(address, writable=writable)
    parsed = parse_address(str(address))
    if parsed.file is not None and not parsed.file.exists():
        raise StorageError(f"there is no index at {parsed.shown}: no such file")
    return _class_of(parsed).open(parsed)


def _class_of(address: Address) -> type[Engine]:
    if address.engine == "duckdb":
        from dlfh.index.engines.duckdb import DuckIndex

        return DuckIndex
    if address.engine == "postgresql":
        from dlfh.index.engines.postgres import PostgresIndex

        return PostgresIndex
    from dlfh.index.engines.milvus import MilvusIndex

    return MilvusIndex
