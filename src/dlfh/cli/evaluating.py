"""`dlfh evaluate`: how well queries find what they ask for."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from dlfh.cli.options import AsJson, ItemOptions, Quiet, shows_progress, with_options
from dlfh.cli.printing import print_calibration, print_json, print_problems, print_quality

__all__ = ["evaluate"]


@with_options(items=ItemOptions)
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a collection, or of a model.", show_default=False)],
    items: ItemOptions,
    queries: Annotated[
        int | None, typer.Option(help="With a model: so many of the items ask for the others.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw of queries.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure mean average precision (MAP): labelled items ask, those that share a label are right answers.

    Beside it, of the asymmetric ranking: nDCG@10, for which more shared labels are better, and "exact", the share of
    the first five that have the query's labels, all of them and no others.

    With a collection, the items ask for the collection's, whose codes are learned or hashed, as the table says. With a
    model, some of the items ask for the others, all of them hashed.

    [b]Examples[/b]

    $ dlfh evaluate shop/ test.csv --image file --text caption --labels tags

    $ dlfh evaluate model/ data.mat --vectors image=I_te --vectors text=T_te --labels L_te --queries 200
    """
    from dlfh.cli.models import load_encoder, open_collection
    from dlfh.collection.evaluation import fit_and_evaluate
    from dlfh.collection.folder import is_collection
    from dlfh.errors import InputError

    verbose = shows_progress(quiet, as_json)
    if is_collection(model):
        if queries is not None:
            raise InputError(f"--queries is for models, and {model} is a collection: all the items ask for its own")
        with open_collection(model, verbose=verbose) as collection:
            report = collection.evaluate(items.read(collection.encoder.modalities_))
        problems = report.problems
    else:
        encoder = load_encoder(model, verbose)
        if queries is None or queries < 1:
            raise InputError(
                f"{model} is a model without items: say with --queries how many of the items ask for the others"
            )
        read = items.read(encoder.modalities_)
        parts = fit_and_evaluate(encoder, read, queries, fit=False, random_state=seed)
        report = parts.report
        problems = [*read.problems, *parts.query_vectors.problems, *parts.database_vectors.problems]
    if as_json:
        print_json(asdict(replace(report, problems=problems)))
    else:
        print_problems(problems)
        print_quality(report.quality, "MAP over the whole ranking; ties in database order")
        print_calibration(report.calibration)
