"""`dlfh export`: a collection as files that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlfh.cli.options import AsJson, Overwrite
from dlfh.cli.printing import report

__all__ = ["export"]


def export(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    output: Annotated[
        Path, typer.Argument(help="File to write: .parquet, .faiss, or .sql for pgvector.", show_default=False)
    ],
    modality: Annotated[
        str | None,
        typer.Option("--in", help="Whose codes an index of faiss has. Default: the first.", show_default=False),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a collection for those who need no engine of ours: items, metadata and codes.

    [b]Examples[/b]

    $ dlfh export shop/ shop.parquet

    $ dlfh export shop/ shop.faiss --in image     [dim](and shop.faiss.ids.json, the ids by row)[/dim]

    $ dlfh export shop/ shop.sql
    """
    from dlfh.cli.models import open_collection
    from dlfh.collection.exporting import export as write

    with open_collection(collection) as opened:
        files = write(opened, output, modality=modality, overwrite=overwrite)
        n_items = len(opened)
    report(
        f"{' and '.join(map(str, files))}: {n_items:,} items",
        {"files": [str(file) for file in files], "items": n_items},
        [],
        as_json=as_json,
        problem_file=None,
    )
