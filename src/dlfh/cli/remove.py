"""`dlfh remove`: remove items from a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from dlfh.cli.options import AsJson, CollectionFolder
from dlfh.cli.output import report


def remove(
    collection: CollectionFolder,
    ids: Annotated[list[str], typer.Argument(help="Ids of the items to remove.", metavar="ID")],
    as_json: AsJson = False,
) -> None:
    """Remove items from a collection. If any id is unknown, nothing is removed.

    [b]Example[/b]

    $ dlfh remove shop/ sku-17 sku-18
    """
    from dlfh.cli.models import open_collection

    with open_collection(collection, writable=True) as opened:
        opened.remove(ids)
        n_items = len(opened)
    report(f"{collection}: {n_items:,} items", {"collection": str(collection), "items": n_items}, as_json=as_json)
