"""`dlfh index`: the items of a collection, as they come and go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh.cli.options import AsJson, ItemOptions, ItemsAt, Overwrite, ProblemFile, Quiet, shows_progress, with_options
from dlfh.cli.printing import print_json, print_table, report

if TYPE_CHECKING:
    from dlfh.collection import Collection

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Make a collection of a model and items; add and remove items; look at it."
)

_Folder = Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)]


@app.command("build")
@with_options(items=ItemOptions)
def build(
    model: Annotated[Path, typer.Argument(help="Folder of a model.", show_default=False)],
    items: ItemOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the collection to make.", show_default=False)
    ],
    items_at: ItemsAt = None,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a collection of items that a model encodes.

    Items with labels that the model knows have learned codes, the others hashed ones.

    [b]Example[/b]

    $ dlfh index build model/ PHOTOS/ --table items.csv --image file --text caption --labels tags -o shop/
    """
    from dlfh._persistence.outputs import check_outputs
    from dlfh.cli.models import load_encoder
    from dlfh.collection import Collection
    from dlfh.collection.folder import check_free

    check_free(output)
    check_outputs([problem_file], [model, *items.inputs()], overwrite=overwrite)
    encoder = load_encoder(model, shows_progress(quiet, as_json))
    built = Collection.build(
        output, items.read(encoder.modalities_, outputs=[problem_file]), encoder, fit=False, address=items_at
    )
    with built.collection as collection:
        n_items = len(collection)
    report(
        f"{output}: {n_items:,} items to search",
        {"collection": str(output), "items": n_items},
        built.problems,
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )


@app.command("add")
@with_options(items=ItemOptions)
def add(
    collection: _Folder,
    items: ItemOptions,
    update: Annotated[bool, typer.Option("--update", help="Replace items whose id is there already.")] = False,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add items to a collection: all of them, or none if something goes wrong.

    Nothing is trained again. Items with labels get the learned code of their labels, and are found like those that
    were trained with; items without, or with labels that training never saw, are found by their hashed codes and by
    their words. Name the column of labels if there is one.

    [b]Examples[/b]

    $ dlfh index add shop/ NEWPHOTOS/ --table new.csv --image file --text caption --labels tags

    $ dlfh index add shop/ NEWPHOTOS/ --table new.csv --image file --text caption
    """
    from dlfh._persistence.outputs import check_outputs
    from dlfh.cli.models import open_collection

    check_outputs([problem_file], [collection, *items.inputs()], overwrite=overwrite)
    # Describing images takes long, and needs no lock: others may write meanwhile.
    with open_collection(collection, verbose=shows_progress(quiet, as_json)) as opened:
        read = items.read(opened.encoder.modalities_, outputs=[problem_file])
        vectors = opened.encoder.describe(read)
    with open_collection(collection, writable=True) as opened:
        before = len(opened)
        n_known = int(opened.index.contains(read.ids).sum()) if read.named and update else 0
        learned = _n_learned(opened)
        problems = opened.add(read, update=update, vectors=vectors)
        after, learned = len(opened), _n_learned(opened) - learned
    counts = {"items": after, "new": after - before, "replaced": n_known, "learned": learned}
    report(
        f"{collection}: {after:,} items, {after - before:,} of them new, {n_known:,} replaced; "
        f"{learned:,} more have learned codes",
        {"collection": str(collection), **counts},
        [*read.problems, *problems],
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )


def _n_learned(collection: Collection) -> int:
    """Return how many items have a learned code."""
    import numpy as np

    index = collection.index
    return int(np.logical_or.reduce([index.states(name)[1] for name in collection.encoder.modalities_]).sum())


@app.command("remove")
def remove(
    collection: _Folder,
    ids: Annotated[list[str], typer.Argument(help="Ids of the items to remove.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Remove items from a collection: all of them, or none if one is unknown.

    [b]Example[/b]

    $ dlfh index remove shop/ sku-17 sku-18
    """
    from dlfh.cli.models import open_collection

    with open_collection(collection, writable=True) as opened:
        opened.remove(ids)
        after = len(opened)
    report(
        f"{collection}: {after:,} items",
        {"collection": str(collection), "items": after},
        [],
        as_json=as_json,
        problem_file=None,
    )


@app.command("copy")
def copy(
    collection: _Folder,
    output: Annotated[Path, typer.Argument(help="Folder of the copy to make.", show_default=False)],
    items_at: ItemsAt = None,
    as_json: AsJson = False,
) -> None:
    """Copy a collection to a new folder, and its items to an engine if one is named.

    The folder keeps the model and says where the items are; a password is not written there, but taken from the
    environment when the copy is opened.

    [b]Examples[/b]

    $ dlfh index copy shop/ shop-in-postgres/ --items postgresql://localhost/shop

    $ dlfh index copy shop-in-postgres/ backup/
    """
    from dlfh.cli.models import open_collection

    with open_collection(collection) as opened, opened.copy(output, address=items_at) as made:
        n_items = len(made)
        where = getattr(made.index, "address", None)
    report(
        f"{output}: {n_items:,} items to search" + (f", which are in {where}" if where else ""),
        {"collection": str(output), "items": n_items, "in": where},
        [],
        as_json=as_json,
        problem_file=None,
    )


@app.command("info")
def info(
    collection: _Folder,
    verify: Annotated[bool, typer.Option("--verify", help="Check every byte against its checksum.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a collection holds.

    [b]Example[/b]

    $ dlfh index info shop/ --verify
    """
    from dlfh.cli.models import open_collection

    with open_collection(collection) as opened:
        if verify:
            opened.verify()
        counts = {
            name: {state: opened.index.count(name, state) for state in ("learned", "hashed")}
            for name in opened.encoder.modalities_
        }
        summary: dict[str, Any] = {
            "collection": str(collection),
            "items": len(opened),
            "bits": opened.index.n_bits,
            "method": type(opened.encoder.model_).__name__,
            "codes": counts,
            "features": {name: repr(featurizer) for name, featurizer in opened.encoder.featurizers_.items()},
        }
    if as_json:
        print_json(summary)
        return
    print_table(
        f"{collection}: {summary['items']:,} items, {summary['bits']} bits, {summary['method']}"
        + (", every checksum right" if verify else ""),
        ("modality", "learned codes", "hashed codes", "features"),
        [
            (name, f"{count['learned']:,}", f"{count['hashed']:,}", summary["features"][name])
            for name, count in counts.items()
        ],
    )
