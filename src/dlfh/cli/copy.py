"""`dlfh copy` and `dlfh export`: write a collection to another folder, into a database or to a file."""

from __future__ import annotations

from pathlib import Path

from dlfh.cli.options import AsJson, CollectionFolder, ItemsAt, Overwrite, open_collection, option, stored_in
from dlfh.cli.output import report


def copy(
    *,
    collection: CollectionFolder,
    output: Path = option("Folder of the copy.", "--output", "-o", default=...),
    items_at: ItemsAt = None,
    as_json: AsJson = False,
) -> None:
    """Copy a collection to a new folder, optionally storing its items in a database.

    With --items, the new folder holds the model and the database address. To open it, set the environment variable
    DLFH_ENGINES to this address. Passwords are never stored: include them in DLFH_ENGINES, or use .pgpass.

    [b]Examples[/b]
    $ dlfh copy shop/ -o shop-in-postgres/ --items postgresql://localhost/shop

    $ DLFH_ENGINES=postgresql://localhost/shop dlfh copy shop-in-postgres/ -o backup/
    """
    with open_collection(collection) as opened, opened.copy(output, address=items_at) as copied:
        n_items, address = len(copied), copied.index.address
    about = {"collection": str(output), "items": n_items, "address": address}
    report(f"{output}: {n_items:,} items{stored_in(address)}", about, as_json=as_json)


def export(
    *,
    collection: CollectionFolder,
    output: Path = option("Output file: .parquet, .faiss.zip, or .sql for pgvector.", "--output", "-o", default=...),
    modality: str | None = option("Modality whose codes a .faiss.zip file holds. Default: the first."),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export items, metadata and codes to Parquet, SQL or faiss.

    [b]Examples[/b]
    $ dlfh export shop/ -o shop.parquet
    $ dlfh export shop/ -o shop.faiss.zip --modality image     [dim](codes.faiss and ids.json)[/dim]
    $ dlfh export shop/ -o shop.sql
    """
    from dlfh.collection.exporting import export as write

    with open_collection(collection) as opened:
        write(opened, output, modality=modality, overwrite=overwrite)
        n_items = len(opened)
    report(f"{output}: {n_items:,} items", {"file": str(output), "items": n_items}, as_json=as_json)
