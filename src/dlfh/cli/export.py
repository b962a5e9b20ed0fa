"""`dlfh export`: export a collection to Parquet, SQL or faiss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlfh.cli.options import AsJson, CollectionFolder, Overwrite
from dlfh.cli.output import report


def export(
    collection: CollectionFolder,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output file: .parquet, .faiss.zip, or .sql for pgvector.")
    ],
    modality: Annotated[
        str | None, typer.Option(help="Modality whose codes a .faiss.zip file holds. Default: the first.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export items, metadata and codes to Parquet, SQL or faiss.

    [b]Examples[/b]

    $ dlfh export shop/ -o shop.parquet

    $ dlfh export shop/ -o shop.faiss.zip --modality image     [dim](codes.faiss and ids.json)[/dim]

    $ dlfh export shop/ -o shop.sql
    """
    from dlfh.cli.models import open_collection
    from dlfh.collection.exporting import export as write

    with open_collection(collection) as opened:
        write(opened, output, modality=modality, overwrite=overwrite)
        n_items = len(opened)
    report(f"{output}: {n_items:,} items", {"file": str(output), "items": n_items}, as_json=as_json)
