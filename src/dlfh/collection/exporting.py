"""Export of a collection to Parquet, to SQL for PostgreSQL with pgvector, or to a faiss index."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._imports import require
from dlfh._persistence.outputs import check_outputs, write_output
from dlfh.collection.collection import Collection
from dlfh.collection.item_codes import hashed_codes, without_contents
from dlfh.errors import InputError
from dlfh.index.nearest import import_faiss

_FAISS = ".faiss.zip"
#: Rows in one SQL statement.
_BATCH = 500


def export(collection: Collection, path: Path, *, modality: str | None = None, overwrite: bool = False) -> None:
    """Write a collection to a file in the format of its suffix.

    path: ``.parquet``: all items, with metadata as JSON and codes as bytes. ``.sql``: the same as a PostgreSQL table
        with codes as ``bit(n)``. ``.faiss.zip``: the codes of one modality as an ``IndexBinaryFlat``, ``codes.faiss``,
        and the ids of its rows, ``ids.json``, in one archive, so that both always belong together.
    modality: Modality of a faiss index; by default, the first searchable one.
    overwrite: Replace an existing file.
    """
    modalities = collection.encoder.modalities_
    suffix = next((suffix for suffix in FORMATS if path.name.endswith(suffix)), None)
    if suffix is None:
        raise InputError(f"cannot export to {path.name!r}: its name must end in {', '.join(FORMATS)}")
    if modality is not None and suffix != _FAISS:
        raise InputError(f"modality applies to {_FAISS} files only: {path.name!r} holds all modalities")
    if modality is not None and modality not in modalities:
        raise InputError(f"unknown modality {modality!r}: the collection has {', '.join(map(repr, modalities))}")
    check_outputs([path], [collection.path], overwrite=overwrite)
    name = path.name.removesuffix(suffix)
    content = FORMATS[suffix](collection, modality or collection.encoder.searchable_modalities()[0], name)
    write_output(path, content, overwrite=overwrite)


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    """Yield the items as rows: each modality has a code, its state ("learned" or "hashed"), and the hashed code."""
    modalities = collection.encoder.modalities_
    for item in collection.index.items():
        metadata = without_contents(item.metadata)
        text = None if metadata is None else json.dumps(metadata, ensure_ascii=False)
        row: dict[str, Any] = {"id": item.id, "metadata": text}
        hashed = hashed_codes(item, modalities)
        for name in modalities:
            row[f"{name}_code"] = item.codes[name].tobytes() if name in item.codes else None
            row[f"{name}_state"] = item.states[name]
            row[f"{name}_hashed_code"] = hashed[name].tobytes() if name in hashed else None
        yield row


def _columns(collection: Collection) -> Iterator[tuple[str, bool]]:
    """Yield the columns of the modalities, and whether each contains codes."""
    for name in collection.encoder.modalities_:
        yield from ((f"{name}_code", True), (f"{name}_state", False), (f"{name}_hashed_code", True))


def _as_parquet(collection: Collection, modality: str, name: str) -> Iterable[bytes]:
    pa, parquet = (require(name, "exporting Parquet", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("metadata", pa.string())]
    fields += [pa.field(column, pa.binary() if is_code else pa.string()) for column, is_code in _columns(collection)]
    schema = pa.schema(fields, metadata={"n_bits": str(collection.index.n_bits)})
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([*_rows(collection)], schema=schema), file, compression="zstd")
    return [file.getvalue()]


def _as_faiss(collection: Collection, modality: str, name: str) -> Iterable[bytes]:
    faiss = import_faiss()
    codes = {item.id: item.codes[modality] for item in collection.index.items() if modality in item.codes}
    if not codes:
        raise InputError(f"nothing to export: no item has a code in {modality!r}")
    matrix = np.stack([*codes.values()])
    index = faiss.IndexBinaryFlat(8 * matrix.shape[1])
    index.add(matrix)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        # ZipInfo has a fixed date, so that equal collections produce identical files.
        archive.writestr(zipfile.ZipInfo("codes.faiss"), faiss.serialize_index_binary(index).tobytes())
        archive.writestr(zipfile.ZipInfo("ids.json"), json.dumps([*codes], ensure_ascii=False))
    return [file.getvalue()]


def _as_sql(collection: Collection, modality: str, name: str) -> Iterable[bytes]:
    n_bits, table = collection.index.n_bits, _identifier(name)
    types = {True: f"bit({n_bits})", False: "text"}
    columns = [f"{_identifier(name)} {types[is_code]}" for name, is_code in _columns(collection)]
    definition = ", ".join(["id text PRIMARY KEY", "metadata json", *columns])
    yield f"CREATE EXTENSION IF NOT EXISTS vector;\nCREATE TABLE {table} ({definition});\n".encode()
    rows = _rows(collection)
    while batch := [*itertools.islice(rows, _BATCH)]:
        if invalid := [row["id"] for row in batch if "\0" in row["id"]]:
            raise InputError(f"PostgreSQL cannot store the NUL character in the id {invalid[0]!r}")
        values = ["(" + ", ".join(_literal(value, n_bits) for value in row.values()) + ")" for row in batch]
        yield (f"INSERT INTO {table} VALUES\n" + ",\n".join(values) + ";\n").encode()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str | bytes | None, n_bits: int) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"B'{''.join(map('{:08b}'.format, value))[:n_bits]}'"
    return "'" + value.replace("'", "''") + "'"


#: Writers by file suffix.
FORMATS = {".parquet": _as_parquet, _FAISS: _as_faiss, ".sql": _as_sql}
