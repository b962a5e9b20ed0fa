"""`dlfh build`: make a searchable collection from items."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._optional import is_installed
from dlfh._terminal import plain
from dlfh.cli.options import (
    ItemOptions,
    ItemsAt,
    OutputOptions,
    TrainingOptions,
    changed_options,
    flag,
    stored_in,
    with_options,
)
from dlfh.cli.output import duration, elapsed, print_calibration, print_quality, print_trials
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh._selection import Trial
    from dlfh.collection import Encoder
    from dlfh.collection.evaluation import EvaluationReport
    from dlfh.datasets import Items

#: Smallest change of a measure that is worth mentioning.
_NOTABLE_CHANGE = 0.005


@with_options(items=ItemOptions, training=TrainingOptions, options=OutputOptions)
def build(
    items: ItemOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new collection.")],
    training: TrainingOptions,
    options: OutputOptions,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a trained model to use; by default, a model is trained.")
    ] = None,
    items_at: ItemsAt = None,
    details: Annotated[bool, typer.Option("--details", help="Print all trials and measurements.")] = False,
) -> None:
    """Build a searchable collection from images, text or vectors.

    Items may lack an image, a text or labels; input that cannot be read is skipped and listed. Some labelled items are
    held out of training to measure search quality, and are searchable like all others.

    [b]Examples[/b]

    $ dlfh build PHOTOS/ --table items.csv --image file --text caption --labels tags -o shop/

    $ dlfh build PHOTOS/ -o shop/     [dim](labels from folder names, text from file names)[/dim]

    $ dlfh build data.mat --vectors image=I_tr --vectors text=T_tr --labels L_tr -o shop/

    $ dlfh build PHOTOS/ --settings best.toml -o shop/     [dim](settings written by `dlfh tune`)[/dim]

    $ dlfh build PHOTOS/ --model model/ -o shop/     [dim](a model trained by `dlfh fit`)[/dim]
    """
    from dlfh.cli.models import load_encoder, set_verbosity
    from dlfh.collection import Collection
    from dlfh.collection.folder import check_free

    check_free(output)
    options.check([model, *items.inputs(), training.settings])
    if model is None:
        encoder, read = make_encoder(training, items, options)
    else:
        for name in changed_options(training):
            raise InputError(f"{flag(name)} applies to training, but --model is already trained: omit one of the two")
        encoder = load_encoder(model, options.verbose)
        read = items.read(encoder.modalities_, outputs=[options.problem_file])
    built = Collection.build(
        output,
        read,
        encoder,
        fit=model is None,
        hold_out=training.hold_out,
        random_state=training.seed,
        address=items_at,
    )
    set_verbosity(encoder, False)  # an option of this command, not a property of the features to report
    with built.collection as collection:
        n_items, address = len(collection), collection.index.address
    summary: dict[str, Any] = {"collection": str(output), "items": n_items}
    message = f"{output}: {n_items:,} items"
    if model is None:
        summary |= summarize(encoder, built.n_trained, built.n_incomplete, built.evaluation)
        message += (
            f", {count_trained(built.n_trained, built.n_incomplete)} used for training ({describe_model(encoder)})"
        )
    message += stored_in(address)
    options.report(message, summary, built.problems)
    if not options.as_json:
        if details:
            print_details(encoder, built.evaluation)
        if model is None:
            for sentence in quality_sentences(encoder, built.evaluation):
                typer.echo(plain(sentence))
        folder = shlex.quote(str(output))
        serve = f"dlfh serve {folder}{_pictures(read)}"
        typer.echo(plain(f"Next: dlfh search {folder} {_example_query(encoder)}, or {serve}"))


def _pictures(items: Items) -> str:
    """Return the option of `dlfh serve` that permits the pictures of items."""
    lists = [values for values in items.modalities.values() if isinstance(values, list)]
    folders = {os.path.abspath(value.parent) for values in lists for value in values if isinstance(value, Path)}
    if not folders:
        return ""
    folder = os.path.commonpath(folders)
    return f" --pictures {shlex.quote(min(os.path.relpath(folder), folder, key=len))}"


def _example_query(encoder: Encoder) -> str:
    texts = [name for name, featurizer in encoder.featurizers_.items() if featurizer.takes == "texts"]
    return "red shoes" if texts else "--similar ID"


def make_encoder(training: TrainingOptions, items: ItemOptions, options: OutputOptions) -> tuple[Encoder, Items]:
    """Return an untrained encoder and the items to train it on."""
    hasher = training.make_hasher(options.verbose)  # before reading: reject invalid parameters early
    read = items.read(outputs=[options.problem_file], part="train")
    if len(read.modalities) == 1 < hasher.info.n_modalities[0]:
        read = read.with_label_words()
    return training.make_encoder(read, hasher, options.verbose), read


def count_trained(n_trained: int, n_incomplete: int) -> str:
    """Format the number of training items."""
    return f"{n_trained:,}" + (f" ({n_incomplete:,} incomplete)" if n_incomplete else "")


def describe_model(encoder: Encoder) -> str:
    """Describe a trained model in a few words."""
    times = f"{duration(elapsed())}, of which {duration(encoder.model_.fit_seconds_)} for learning codes"
    return f"{type(encoder.model_).__name__}, {encoder.n_bits} bits; {times}"


def summarize(encoder: Encoder, n_trained: int, n_incomplete: int, evaluation: EvaluationReport) -> dict[str, Any]:
    """Return the results of training, for JSON."""
    from dlfh.collection.choosing import trial_summary

    return {
        "trained": n_trained,
        "incomplete": n_incomplete,
        "method": type(encoder.model_).__name__,
        "bits": encoder.n_bits,
        "seconds": round(elapsed(), 3),
        "learning_seconds": round(encoder.model_.fit_seconds_, 3),
        "features": {name: repr(featurizer) for name, featurizer in encoder.featurizers_.items()},
        "chosen": _chosen_learners(encoder),
        "trials": [trial_summary(trial) for trial in encoder.trials_],
        "quality": [asdict(quality) for quality in evaluation.quality],
        "calibration": [asdict(report) for report in evaluation.calibration],
    }


def _chosen_learners(encoder: Encoder) -> dict[str, str]:
    return {name: repr(learner) for name, learner in getattr(encoder.model_, "chosen_", {}).items()}


def print_details(encoder: Encoder, evaluation: EvaluationReport) -> None:
    """Print trials, chosen hash functions, quality and calibration."""
    print_trials(encoder.trials_)
    for name, learner in _chosen_learners(encoder).items():
        typer.echo(plain(f"Hash function for {name}, chosen on held-out points: {learner}"))
    if evaluation.quality:
        print_quality(evaluation.quality, "MAP of held-out items as queries for all others")
    print_calibration(evaluation.calibration)


def quality_sentences(encoder: Encoder, evaluation: EvaluationReport) -> Iterator[str]:
    """Yield sentences about the chosen features, the expected quality, and possible improvements."""
    features = ", ".join(f"{featurizer!r} for {name}" for name, featurizer in encoder.featurizers_.items())
    chosen = " (chosen by trials)" if encoder.trials_ else ""
    yield f"Features: {features}{chosen}. Code length: {encoder.n_bits} bits ({_bytes(encoder.n_bits)})."
    if evaluation.quality:
        directions = "; ".join(
            f"{each.query} → {each.database} {max(each.any, each.asymmetric):.2f} (random order {each.chance:.2f}, "
            f"{each.exact:.0%} of the first five results with exactly the query's labels)"
            for each in evaluation.quality
        )
        yield f"Expected mean average precision (MAP) for new, unlabelled items: {directions}."
        if evaluation.calibration:
            error = max(report.first_ten for report in evaluation.calibration)
            yield f"Calibration error of the probabilities of the first ten results: at most {error:.2f}."
    else:
        yield "Search quality was not measured: too few labelled items to hold any out (see --hold-out)."
    yield from _improvements(encoder, [trial for trial in encoder.trials_ if trial.setting == "bits"])


def _improvements(encoder: Encoder, bit_trials: Sequence[Trial[int]]) -> Iterator[str]:
    if len(bit_trials) == 2:
        used, longer = bit_trials
        map_gain, _, exact_gain = (longer.scores - used.scores).tolist()
        gains = {"MAP": map_gain, "exact matches": exact_gain}
        verdict = "" if max(gains.values()) >= _NOTABLE_CHANGE else ": hardly worth the space"
        changes = " and ".join(f"{name} by {gain:+.3f}" for name, gain in gains.items())
        yield f"In trials, --bits {longer.option} ({_bytes(longer.candidate)}) changed {changes}{verdict}."
    elif getattr(encoder.model_, "hash_function", None) == "linear":
        yield "Without --fast, dlfh tries several features and hash functions and keeps the best."
    images = [name for name in encoder.image_modalities() if encoder.featurizers_[name].kind != "efficientnet"]
    if images and not is_installed("efficientnet_lite_pytorch"):
        yield 'Neural-network features often suit photographs better: pip install "dlfh[cnn]" and build again.'


def _bytes(n_bits: int) -> str:
    from dlfh.codes import n_bytes

    number = n_bytes(n_bits)
    return f"{number} byte{'s' if number != 1 else ''} per code"
