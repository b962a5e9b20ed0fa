"""A collection for those who need no engine of ours: as Parquet, as an index of faiss, as SQL for pgvector."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._optional import require
from dlfh._persistence.outputs import check_outputs, write_output
from dlfh.collection.columns import hashed_codes, without_contents
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.index.nearest import import_faiss

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["FORMATS", "export", "ids_beside"]

#: Items in one statement of SQL.
_BATCH = 500


def ids_beside(path: Path) -> Path:
    """Return where the ids of an index of faiss go.

    Examples
    --------
    >>> ids_beside(Path("shop.faiss")).name
    'shop.faiss.ids.json'
    """
    return path.with_name(path.name + ".ids.json")


def export(collection: Collection, path: Path, *, modality: str | None = None, overwrite: bool = False) -> list[Path]:
    """Write a collection to a file, of the kind that its name ends in; return what was written.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.parquet``: all items, with metadata as JSON and codes as bytes. ``.sql``: the same as a table of PostgreSQL
        with codes as ``bit(n)``. ``.faiss``: the codes of one modality as an ``IndexBinaryFlat``, and beside it a list
        of their ids.
    modality : str, optional
        Whose codes an index of faiss has; the first that is searched by default.
    overwrite : bool
        Whether files that are there are replaced.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"a collection is exported to a file that ends in {', '.join(FORMATS)}, got {path.name!r}")
    if modality is not None and (path.suffix != ".faiss" or modality not in collection.encoder.modalities_):
        known = ", ".join(map(repr, collection.encoder.modalities_))
        raise InputError(f"an index of faiss has the codes of one modality of {known}; other files have all of them")
    files = [path, ids_beside(path)] if path.suffix == ".faiss" else [path]
    check_outputs(files, [collection.path], overwrite=overwrite)
    contents = FORMATS[path.suffix](collection, modality or collection.encoder.searchable()[0], path.stem)
    for file, content in zip(files, contents, strict=True):
        write_output(file, content, overwrite=overwrite)
    return files


def _as_parquet(collection: Collection, modality: str, name: str) -> list[Iterable[bytes]]:
    pa = require("pyarrow", "exporting Parquet", "parquet")
    parquet = require("pyarrow.parquet", "exporting Parquet", "parquet")
    columns: dict[str, list[Any]] = {"id": [], "metadata": []}
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("metadata", pa.string())]
    for own in collection.encoder.modalities_:
        names = (f"{own}_code", f"{own}_state", f"{own}_hashed_code")
        columns |= {name: [] for name in names}
        fields += [pa.field(name, pa.string() if name.endswith("_state") else pa.binary()) for name in names]
    for item in collection.index.items():
        for column, value in _row(collection, item).items():
            columns[column].append(value)
    table = pa.table(columns, schema=pa.schema(fields, metadata={"n_bits": str(collection.index.n_bits)}))
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return [[file.getvalue()]]


def _row(collection: Collection, item: Item) -> dict[str, Any]:
    """Return an item as a row: a code is learned, or hashed; the hashed one is there in either case."""
    metadata = without_contents(item.metadata)
    row: dict[str, Any] = {
        "id": item.id,
        "metadata": None if metadata is None else json.dumps(metadata, ensure_ascii=False),
    }
    hashed = hashed_codes(item, collection.encoder.modalities_)
    for name in collection.encoder.modalities_:
        row[f"{name}_code"] = item.codes[name].tobytes() if name in item.codes else None
        row[f"{name}_state"] = item.states[name]
        row[f"{name}_hashed_code"] = hashed[name].tobytes() if name in hashed else None
    return row


def _as_faiss(collection: Collection, modality: str, name: str) -> list[Iterable[bytes]]:
    faiss = import_faiss()
    pairs = [(item.id, item.codes[modality]) for item in collection.index.items() if modality in item.codes]
    if not pairs:
        raise InputError(f"there is nothing to export: no item has a code in {modality!r}")
    codes = np.stack([code for _, code in pairs])
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    ids = json.dumps([identifier for identifier, _ in pairs], ensure_ascii=False)
    return [[faiss.serialize_index_binary(index).tobytes()], [ids.encode()]]


def _as_sql(collection: Collection, modality: str, name: str) -> list[Iterable[bytes]]:
    return [(line.encode() for line in _statements(collection, name))]


def _statements(collection: Collection, name: str) -> Iterator[str]:
    n_bits = collection.index.n_bits
    columns = ["id text PRIMARY KEY", "metadata json"]
    for own in collection.encoder.modalities_:
        columns += [f"{_named(own + '_code')} bit({n_bits})", f"{_named(own + '_state')} text"]
        columns.append(f"{_named(own + '_hashed_code')} bit({n_bits})")
    yield f"CREATE EXTENSION IF NOT EXISTS vector;\nCREATE TABLE {_named(name)} ({', '.join(columns)});\n"
    rows = []
    for item in collection.index.items():
        if "\0" in item.id:
            raise InputError(f"PostgreSQL cannot hold a NUL, and the id {item.id!r} has one")
        rows.append("(" + ", ".join(_value(value, n_bits) for value in _row(collection, item).values()) + ")")
        if len(rows) == _BATCH:
            yield f"INSERT INTO {_named(name)} VALUES\n" + ",\n".join(rows) + ";\n"
            rows.clear()
    if rows:
        yield f"INSERT INTO {_named(name)} VALUES\n" + ",\n".join(rows) + ";\n"


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(value: str | bytes | None, n_bits: int) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"B'{''.join(map('{:08b}'.format, value))[:n_bits]}'"
    return "'" + value.replace("'", "''") + "'"


#: How a collection is written, by the end of a file's name.
FORMATS = {".parquet": _as_parquet, ".faiss": _as_faiss, ".sql": _as_sql}
