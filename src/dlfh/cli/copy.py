"""`dlfh copy`: copy a collection to another folder or into a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlfh.cli.options import AsJson, CollectionFolder, ItemsAt, stored_in
from dlfh.cli.output import report


def copy(
    collection: CollectionFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the copy.")],
    items_at: ItemsAt = None,
    as_json: AsJson = False,
) -> None:
    """Copy a collection to a new folder, optionally storing its items in a database.

    The new folder holds the model and the address of the items. To open it, name this address in the environment
    variable DLFH_ENGINES. Passwords are never written: give them there, or as the database expects them.

    [b]Examples[/b]

    $ dlfh copy shop/ -o shop-in-postgres/ --items postgresql://localhost/shop

    $ DLFH_ENGINES=postgresql://localhost/shop dlfh copy shop-in-postgres/ -o backup/
    """
    from dlfh.cli.models import open_collection

    with open_collection(collection) as opened, opened.copy(output, address=items_at) as copied:
        n_items = len(copied)
        address = copied.index.address
    report(
        f"{output}: {n_items:,} items{stored_in(address)}",
        {"collection": str(output), "items": n_items, "address": address},
        as_json=as_json,
    )
