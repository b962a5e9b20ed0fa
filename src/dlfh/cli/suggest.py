"""`dlfh suggest`, `dlfh label` and `dlfh relearn`: suggest labels, change them, and learn from them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from dlfh.cli.options import AsJson, CollectionFolder, Overwrite, argument, open_collection, option, parse_filters
from dlfh.cli.output import print_json, print_table, report
from dlfh.errors import InputError

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


def label(
    collection: CollectionFolder,
    ids: list[str] | None = argument("Ids of the items to label.", "[ID]...", default=None),
    add: list[str] | None = option("Label to add; repeatable.", metavar="LABEL"),
    remove: list[str] | None = option("Label to remove; repeatable.", metavar="LABEL"),
    next: int | None = option("Print the ids of this many items to label next, typical ones.", metavar="N"),
    as_json: AsJson = False,
) -> None:
    """Add and remove labels of items. If any id is unknown, nothing is changed.

    The items are found by their new labels at once. Run `dlfh relearn` to predict the labels of other items from them.

    [b]Examples[/b]
    $ dlfh label shop/ --next 20     [dim](what to label next)[/dim]
    $ dlfh label shop/ sku-17 sku-18 --add sale --remove old
    """
    if next is not None:
        if ids or add or remove:
            raise InputError("--next only prints ids: omit ids, --add and --remove")
        with open_collection(collection) as opened:
            found = opened.label_next(next)
        report("\n".join(found) or "every item has labels", {"next": found}, as_json=as_json)
        return
    if not ids or not (add or remove):
        raise InputError("name ids of items, and labels with --add or --remove; or ask what to label with --next 20")
    with open_collection(collection, writable=True) as opened:
        n = opened.label(ids, add=add or (), remove=remove or ())
    about = {"collection": str(collection), "changed": n}
    report(f"{collection}: changed the labels of {n:,} item{'' if n == 1 else 's'}", about, as_json=as_json)


def relearn(collection: CollectionFolder, as_json: AsJson = False) -> None:
    """Learn again from all labels, in seconds, and predict labels anew.

    Features stay as they are, and so do the codes of known labels. Searches continue to work meanwhile.

    [b]Example[/b]
    $ dlfh relearn shop/
    """
    with open_collection(collection, writable=True) as opened:
        learned = opened.relearn()
    report(f"{collection}: {learned}", {"collection": str(collection), **asdict(learned)}, as_json=as_json)
