"""`dlfh build` and `dlfh fit`: from items to a searchable collection, or to a model alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._terminal import plain
from dlfh.cli.options import (
    AsJson,
    ItemOptions,
    ItemsAt,
    ModelOptions,
    Overwrite,
    ProblemFile,
    Quiet,
    shows_progress,
    with_options,
)
from dlfh.cli.printing import duration, elapsed, print_calibration, print_quality, print_trials, report

if TYPE_CHECKING:
    from dlfh.collection import Encoder
    from dlfh.collection.evaluation import EvaluationReport
    from dlfh.datasets import Items

__all__ = ["build", "fit"]


@with_options(items=ItemOptions, model=ModelOptions)
def build(
    items: ItemOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the collection to make.", show_default=False)
    ],
    model: ModelOptions,
    items_at: ItemsAt = None,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from your images and texts, and make a collection to search: fit and index in one go.

    Items that lack an image or a text are learned from with what they have, by methods that can (DLFH and KDLFH); items
    without labels are hashed. All are in the collection. What cannot be read is left out, and listed. Some labelled
    items are held out of training, to say how good answers are and how probable each is to be right.

    [b]Examples[/b]

    $ dlfh build PHOTOS/ --table items.csv --image file --text caption --labels tags -o shop/

    $ dlfh build PHOTOS/ -o shop/     [dim](folders are labels, file names are texts)[/dim]

    $ dlfh build data.mat --vectors image=I_tr --vectors text=T_tr --labels L_tr -o shop/

    $ dlfh build PHOTOS/ --settings best.toml -o shop/     [dim](what `dlfh tune` wrote)[/dim]
    """
    from dlfh._persistence.outputs import check_outputs
    from dlfh.collection import Collection
    from dlfh.collection.folder import check_free

    check_free(output)
    check_outputs([problem_file], [*items.inputs(), model.settings], overwrite=overwrite)
    encoder, read = _make_encoder(model, items, problem_file, shows_progress(quiet, as_json))
    built = Collection.build(output, read, encoder, hold_out=model.hold_out, random_state=model.seed, address=items_at)
    with built.collection as collection:
        n_items = len(collection)
    counts = built.n_trained, built.n_incomplete
    learned_from = f"{built.n_trained:,} of them learned from{_incomplete(built.n_incomplete)}"
    report(
        f"{output}: {n_items:,} items to search, {learned_from} ({_model_line(encoder)})",
        {"collection": str(output), "items": n_items, **_summary(encoder, *counts, built.evaluation)},
        built.problems,
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )
    if not as_json:
        _print_held_out(encoder, built.evaluation)
        texts = [name for name, featurizer in encoder.featurizers_.items() if featurizer.takes == "texts"]
        query = '--text "..."' if "text" in texts else f'--ask "{texts[0]}=..."' if texts else "--id ..."
        typer.echo(plain(f"Search it: dlfh search {output} {query}"))


@with_options(items=ItemOptions, model=ModelOptions)
def fit(
    items: ItemOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the model to write.", show_default=False)],
    model: ModelOptions,
    more: Annotated[
        Path | None,
        typer.Option(
            "--more",
            help="Folder of a model that learns from these items, too; it was made with --set keep_sums=true.",
            show_default=False,
        ),
    ] = None,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model: features, codes and hash functions.

    A model that was made with --set keep_sums=true can learn more from items that come later (--more): codes that there
    are stay, new label sets get codes, and hash functions are those of all items. It keeps its features and settings.

    [b]Examples[/b]

    $ dlfh fit items.csv --text caption --image file --labels tags -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --method KDLFH --bits 32 -o model/

    $ dlfh fit data.npz --vectors image=X --vectors text=Y --labels L --set hash_function=kernel -o model/

    $ dlfh fit items.csv --text caption --image file --labels tags --set keep_sums=true -o model/

    $ dlfh fit later.csv --text caption --image file --labels tags --more model/ -o model2/
    """
    from dlfh._persistence.model_folder import check_place
    from dlfh._persistence.outputs import check_outputs
    from dlfh.collection.evaluation import fit_and_evaluate

    check_place(output, overwrite=overwrite)
    check_outputs([problem_file], [*items.inputs(), output, model.settings], overwrite=overwrite)
    if more is not None:
        _fit_more(more, items, output, problem_file, overwrite, as_json=as_json, quiet=quiet)
        return
    encoder, read = _make_encoder(model, items, problem_file, shows_progress(quiet, as_json))
    fitted = fit_and_evaluate(encoder, read, model.hold_out, random_state=model.seed)
    assert fitted.training is not None
    encoder.save(output, overwrite=overwrite)
    counts = len(fitted.training), fitted.training.n_incomplete
    report(
        f"{output}: learned from {counts[0]:,} items{_incomplete(counts[1])} ({_model_line(encoder)})",
        {"model": str(output), **_summary(encoder, *counts, fitted.report)},
        [*read.problems, *fitted.database_vectors.problems],
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )
    if not as_json:
        _print_held_out(encoder, fitted.report)


def _fit_more(
    more: Path,
    items: ItemOptions,
    output: Path,
    problem_file: Path | None,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    from dlfh.cli.models import load_encoder

    encoder = load_encoder(more, shows_progress(quiet, as_json))
    read = items.read(encoder.modalities_, outputs=[problem_file])
    n_learned, problems = encoder.fit_more(read)
    encoder.save(output, overwrite=overwrite)
    report(
        f"{output}: learned from {n_learned:,} more items ({_model_line(encoder)})",
        {"model": str(output), "trained": n_learned, "seconds": round(elapsed(), 3)},
        [*read.problems, *problems],
        as_json=as_json,
        problem_file=problem_file,
        overwrite=overwrite,
    )


def _make_encoder(
    model: ModelOptions, items: ItemOptions, problem_file: Path | None, verbose: bool
) -> tuple[Encoder, Items]:
    """Return an encoder to fit, and the items that it is for."""
    hasher = model.hasher(verbose)  # before anything is read: a wrong parameter is soon said
    read = items.read(outputs=[problem_file])
    if len(read.modalities) == 1 < hasher.info.n_modalities[0]:
        read = read.with_label_words()
    return model.encoder(read, hasher, verbose), read


def _incomplete(number: int) -> str:
    return f", {number:,} incomplete" if number else ""


def _model_line(encoder: Encoder) -> str:
    times = f"{duration(elapsed())}, {duration(encoder.model_.fit_seconds_)} of it learning codes"
    return f"{type(encoder.model_).__name__}, {encoder.n_bits} bits; {times}"


def _summary(encoder: Encoder, n_trained: int, n_incomplete: int, evaluation: EvaluationReport) -> dict[str, Any]:
    return {
        "trained": n_trained,
        "incomplete": n_incomplete,
        "method": type(encoder.model_).__name__,
        "bits": encoder.n_bits,
        "seconds": round(elapsed(), 3),
        "learning_seconds": round(encoder.model_.fit_seconds_, 3),
        "features": {name: repr(featurizer) for name, featurizer in encoder.featurizers_.items()},
        "chosen": _chosen(encoder),
        "trials": [asdict(trial) for trial in encoder.trials_],
        "quality": [asdict(quality) for quality in evaluation.quality],
        "calibration": [asdict(calibration) for calibration in evaluation.calibration],
    }


def _chosen(encoder: Encoder) -> dict[str, str]:
    """Return the hash functions that were chosen, by modality."""
    return {name: repr(learner) for name, learner in getattr(encoder.model_, "chosen_", {}).items()}


def _print_held_out(encoder: Encoder, evaluation: EvaluationReport) -> None:
    from dlfh.cli.expecting import expectations

    print_trials(encoder.trials_)
    for name, learner in _chosen(encoder).items():
        typer.echo(plain(f"Chosen for {name}, by points held out: {learner}"))
    if evaluation.quality:
        print_quality(evaluation.quality, "MAP of items held out of training, asking for the others")
    print_calibration(evaluation.calibration)
    for sentence in expectations(encoder, evaluation):
        typer.echo(plain(sentence))
