"""`dlfh fit`: train a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlfh._terminal import plain
from dlfh.cli.build import count_trained, describe_model, make_encoder, print_details, quality_sentences, summarize
from dlfh.cli.options import ItemOptions, OutputOptions, TrainingOptions, with_options
from dlfh.cli.output import elapsed


@with_options(items=ItemOptions, training=TrainingOptions, options=OutputOptions)
def fit(
    items: ItemOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the trained model.")],
    training: TrainingOptions,
    options: OutputOptions,
    more: Annotated[
        Path | None,
        typer.Option(
            "--more", help="Folder of a model to train further; it must have been trained with --set keep_sums=true."
        ),
    ] = None,
) -> None:
    """Train a model: features, codes and hash functions.

    A model trained with --set keep_sums=true can later learn from more items (--more). It keeps its features, settings
    and existing codes; new label sets get codes, and the hash functions are fitted to all items.

    [b]Examples[/b]

    $ dlfh fit items.csv --text caption --image file --labels tags -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --method KDLFH --bits 32 -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --set hash_function=kernel -o model/

    $ dlfh fit items.csv --text caption --image file --labels tags --set keep_sums=true -o model/

    $ dlfh fit later.csv --text caption --image file --labels tags --more model/ -o model2/
    """
    from dlfh._persistence.model_folder import check_target
    from dlfh.cli.models import set_verbosity
    from dlfh.collection.evaluation import fit_and_evaluate

    check_target(output, overwrite=options.overwrite)
    options.check([*items.inputs(), output, training.settings])
    if more is not None:
        _fit_more(more, items, output, options)
        return
    encoder, read = make_encoder(training, items, options)
    fitted = fit_and_evaluate(encoder, read, training.hold_out, random_state=training.seed)
    assert fitted.training is not None
    set_verbosity(encoder, False)  # an option of this command, not a property of the model
    encoder.save(output, overwrite=options.overwrite)
    counts = len(fitted.training), fitted.training.n_incomplete
    options.report(
        f"{output}: trained on {count_trained(*counts)} items ({describe_model(encoder)})",
        {"model": str(output), **summarize(encoder, *counts, fitted.report)},
        [*read.problems, *fitted.database_vectors.problems],
    )
    if not options.as_json:
        print_details(encoder, fitted.report)
        for sentence in quality_sentences(encoder, fitted.report):
            typer.echo(plain(sentence))


def _fit_more(more: Path, items: ItemOptions, output: Path, options: OutputOptions) -> None:
    from dlfh.cli.models import load_encoder

    encoder = load_encoder(more, options.verbose)
    read = items.read(encoder.modalities_, outputs=[options.problem_file])
    n_learned, problems = encoder.partial_fit(read)
    encoder.save(output, overwrite=options.overwrite)
    options.report(
        f"{output}: trained on {n_learned:,} more items ({describe_model(encoder)})",
        {"model": str(output), "trained": n_learned, "seconds": round(elapsed(), 3)},
        [*read.problems, *problems],
    )
