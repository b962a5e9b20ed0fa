"""`dlfh suggest`: suggest labels for the items of a collection."""

from __future__ import annotations

from pathlib import Path

import typer

from dlfh.cli.options import AsJson, CollectionFolder, Overwrite, open_collection, option, parse_filters
from dlfh.cli.output import print_json, print_table

_MAX_SHOWN = 50  # rows of the table on the terminal


def suggest(
    collection: CollectionFolder,
    output: Path | None = option("Output file: .csv, .json or .parquet.", "--output", "-o"),
    precision: float = option("Minimum share of correct suggestions.", default=0.8),
    k: int = option("Maximum number of labels per item.", "-k", default=10),
    missing: bool = option("Also suggest missing labels of labelled items, with no minimum precision.", default=False),
    ids: list[str] | None = option("Only the item with this id; repeat for several.", metavar="ID"),
    where: list[str] | None = option("Filter: brand=Acme, 'price<20' or JSON; repeatable.", metavar="FILTER"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Suggest labels for the items that have none.

    Labels are predicted from images and texts, and suggested if their probability is above a threshold. The threshold
    is chosen on labelled items, to reach the given precision.

    [b]Examples[/b]
    $ dlfh suggest shop/ -o suggestions.csv
    $ dlfh suggest shop/ --precision 0.95 --where brand=Acme
    $ dlfh suggest shop/ --missing --ids sku-17     [dim](also missing labels of a labelled item)[/dim]
    """
    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh.collection.suggesting import check_suffix

    suffix = "" if output is None else check_suffix(output)
    check_outputs([output], [collection], overwrite=overwrite)
    filters = parse_filters(where)
    with open_collection(collection) as opened:
        found = opened.suggest(ids, filters, precision=precision, k=k, missing=missing)
    if output is not None:
        write_output(output, [found.to_file(suffix)], overwrite=overwrite)
    if as_json:
        print_json(found.to_dict())
        return
    if found and output is None:
        rows = [(id, label, f"{p:.0%}") for id, label, p in found[:_MAX_SHOWN]]
        print_table("", ("id", "label", "probability"), rows, whole=("id",))
        if len(found) > _MAX_SHOWN:
            typer.echo(f"the first {_MAX_SHOWN}; --output FILE writes all")
    typer.echo(found.summary)
