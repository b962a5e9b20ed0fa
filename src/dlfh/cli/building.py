"""`dlfh build` and `dlfh fit`: from items to a searchable collection, or to a model alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh.cli.options import (
    AsJson,
    ItemOptions,
    ModelOptions,
    ProblemFile,
    Quiet,
    check_parent,
    shows_progress,
    with_options,
)
from dlfh.cli.printing import print_qualities, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.collection._encoder import Encoder
    from dlfh.collection._evaluation import Quality
    from dlfh.datasets import Items

__all__ = ["build", "fit"]


@with_options(items=ItemOptions, model=ModelOptions)
def build(
    items: ItemOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the collection to make.", show_default=False)
    ],
    model: ModelOptions,
    codes: Annotated[
        str, typer.Option(help="Codes of the training items: learned, or hashed like those of all others.")
    ] = "learned",
    problem_file: ProblemFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from your images and texts, and make a collection to search: fit and index in one go.

    Items that lack an image, a text or labels are not learned from, but are in the collection with what they have.
    What cannot be read is left out, and listed.

    [b]Examples[/b]

    $ dlfh build PHOTOS/ --table items.csv --image file --text caption --labels tags -o shop/

    $ dlfh build PHOTOS/ -o shop/     [dim](folders are labels, file names are texts)[/dim]

    $ dlfh build data.mat --vectors image=I_tr --vectors text=T_tr --labels L_tr -o shop/
    """
    from dlfh._validation import check_choice
    from dlfh.collection._build import build_collection
    from dlfh.collection._collection import check_free

    check_choice(codes, "--codes", ("learned", "hashed"))
    check_free(output)
    check_parent(problem_file)
    encoder, read = _pipeline(model, items, shows_progress(quiet, as_json))
    built = build_collection(
        output, read, encoder, hold_out=model.hold_out, learned=codes == "learned", random_state=model.seed
    )
    with built.collection as collection:
        n_items = len(collection)
    report(
        f"{output}: {n_items:,} items to search, {built.n_trained:,} of them learned from ({_said_of(encoder)})",
        {"collection": str(output), "items": n_items, **_summary(encoder, built.n_trained, built.qualities)},
        built.problems,
        as_json=as_json,
        problem_file=problem_file,
    )
    if not as_json:
        _print_held_out(built.qualities)
        texts = [name for name, featurizer in encoder.features.items() if featurizer.takes == "texts"]
        query = '--text "..."' if "text" in texts else f'--ask "{texts[0]}=..."' if texts else "--id ..."
        typer.echo(f"Search it: dlfh search {output} {query}")


@with_options(items=ItemOptions, model=ModelOptions)
def fit(
    items: ItemOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the model to write.", show_default=False)],
    model: ModelOptions,
    problem_file: ProblemFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model: features, codes and hash functions.

    [b]Examples[/b]

    $ dlfh fit items.csv --text caption --image file --labels tags -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --method KDLFH --bits 32 -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --set hash_function=kernel -o model/
    """
    from dlfh.collection._build import hashed_databases, hold_items_out
    from dlfh.collection._evaluation import measure
    from dlfh.persistence._model_folder import check_place

    check_place(output)
    check_parent(problem_file)
    encoder, read = _pipeline(model, items, shows_progress(quiet, as_json))
    held, rest = hold_items_out(read, model.hold_out, model.seed)
    described, trained = encoder.fit_items(rest)
    qualities = [] if held is None else measure(encoder, held, hashed_databases(encoder, rest, described))
    encoder.save(output)
    report(
        f"{output}: learned from {len(trained):,} items ({_said_of(encoder)})",
        {"model": str(output), **_summary(encoder, len(trained), qualities)},
        [*read.problems, *described.problems],
        as_json=as_json,
        problem_file=problem_file,
    )
    if not as_json:
        _print_held_out(qualities)


def _pipeline(model: ModelOptions, items: ItemOptions, verbose: bool) -> tuple[Encoder, Items]:
    from dlfh.collection._encoder import Encoder, choose_features

    hasher = model.hasher(verbose)  # before anything is read: a wrong parameter is soon said
    read = items.read()
    features = choose_features(read, image=model.image_features, text=model.text_features, verbose=verbose)
    return Encoder(features, hasher), read


def _said_of(encoder: Encoder) -> str:
    return f"{type(encoder.model).__name__}, {encoder.n_bits} bits, {encoder.model.fit_seconds_:.2f} s"


def _summary(encoder: Encoder, n_trained: int, qualities: Sequence[Quality]) -> dict[str, Any]:
    return {
        "trained": n_trained,
        "method": type(encoder.model).__name__,
        "bits": encoder.n_bits,
        "seconds": round(encoder.model.fit_seconds_, 3),
        "quality": [asdict(quality) for quality in qualities],
    }


def _print_held_out(qualities: Sequence[Quality]) -> None:
    if qualities:
        print_qualities(qualities, "MAP of items held out of training, asking for the others")
