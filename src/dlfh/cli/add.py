"""`dlfh add`: add items to a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dlfh.cli.options import CollectionFolder, ItemOptions, OutputOptions, with_options

if TYPE_CHECKING:
    from dlfh.collection import Collection


@with_options(items=ItemOptions, options=OutputOptions)
def add(
    collection: CollectionFolder,
    items: ItemOptions,
    options: OutputOptions,
    update: Annotated[bool, typer.Option("--update", help="Replace items whose id already exists.")] = False,
) -> None:
    """Add items to a collection. If an error occurs, none are added.

    The model is not retrained. Items with labels are found like the training items, so name the label column if there
    is one. Items without labels, or with labels that the model has not seen, are found by their content alone.

    [b]Examples[/b]

    $ dlfh add shop/ NEWPHOTOS/ --table new.csv --image file --text caption --labels tags

    $ dlfh add shop/ NEWPHOTOS/ --table new.csv --image file --text caption --update
    """
    from dlfh.cli.models import open_collection

    options.check([collection, *items.inputs()])
    # Computing features takes long and needs no lock: others may write meanwhile.
    with open_collection(collection, verbose=options.verbose) as opened:
        new = items.read(opened.encoder.modalities_, outputs=[options.problem_file])
        vectors = opened.encoder.featurize_items(new)
    with open_collection(collection, writable=True) as opened:
        n_before, n_learned_before = len(opened), _n_learned(opened)
        n_replaced = int(opened.index.contains(new.ids).sum()) if new.named and update else 0
        problems = opened.add(new, update=update, vectors=vectors)
        n_items, n_learned = len(opened), _n_learned(opened) - n_learned_before
    counts = {"items": n_items, "new": n_items - n_before, "replaced": n_replaced, "learned": n_learned}
    options.report(
        f"{collection}: {n_items:,} items; {n_items - n_before:,} added, {n_replaced:,} replaced, "
        f"{n_learned:,} of them with known labels",
        {"collection": str(collection), **counts},
        [*new.problems, *problems],
    )


def _n_learned(collection: Collection) -> int:
    """Return the number of items that have a learned code in any modality."""
    import numpy as np

    index = collection.index
    return int(np.logical_or.reduce([index.states(name)[1] for name in collection.encoder.modalities_]).sum())
