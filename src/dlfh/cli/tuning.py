"""`dlfh tune`: parameters by what was not learned from, of a data set of vectors or of items as they are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlfh._terminal import plain
from dlfh.bench.commands import TuneOptions
from dlfh.cli.options import ItemOptions, method_named, with_options

if TYPE_CHECKING:
    from dlfh.collection.choosing import Trial
    from dlfh.collection.tuning import Candidate

__all__ = ["tune"]

#: Options that raw items have a use for; the others are of data sets of vectors.
_OF_ITEMS = {"grid", "bits", "seeds", "validation", "size", "write", "overwrite", "quiet"}


@dataclass(frozen=True)
class Data(ItemOptions):
    """What parameters are chosen for."""

    source: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of images or a table, as for `dlfh build`; or icons, a data set's name with --data FILE, "
            "generated:NAME, or a file of arrays, as for `dlfh bench`.",
            show_default=False,
        ),
    ] = None


@with_options(data=Data, options=TuneOptions)
def tune(
    method: Annotated[
        str, typer.Argument(help="A method, such as DLFH; several, comma-separated; or all.", show_default=False)
    ],
    data: Data,
    options: TuneOptions,
) -> None:
    """Choose parameters by what was not learned from: for a collection of raw items, or of a data set of vectors.

    Of raw items features are chosen, too, by MAP, nDCG@10 and exact precision of items that trials did not see, means
    over draws; `dlfh build --settings` takes what is written. Of a data set of vectors a part of the training set
    takes the place of queries, which are never looked at; `dlfh bench --settings` takes what is written. Without
    `--grid` each method has the same number of candidates, so that none is tried harder than another.

    [b]Examples[/b]

    $ dlfh tune DLFH PHOTOS/ --table items.csv --image file --text caption --labels tags --write best.toml

    $ dlfh tune DLFH,KDLFH items.csv --text caption --image file --labels tags --bits 64 --size 3000 --write best.toml

    $ dlfh tune DLFH icons --grid scale=2,4,8,16 --grid max_iter=30,100
    """
    from dlfh.errors import InputError

    if data.source is None and not data.names_something():
        raise InputError("name what to choose parameters for: a folder, a table or a data set")
    if _is_raw(data):
        _tune_items(method, data, options)
    else:
        from dlfh.bench.commands import tune as tune_vectors

        tune_vectors(method, str(data.source), options)


def _is_raw(data: Data) -> bool:
    """Return whether items are to be read as they are: a folder, a table, or whatever has its columns named."""
    from dlfh.datasets.descriptions import DATA_SETS
    from dlfh.datasets.tables import TABLE_SUFFIXES

    if data.names_something() or data.source is None:
        return True
    if str(data.source) in ("icons", *DATA_SETS):
        return False
    return data.source.is_dir() or (data.source.suffix.lower() in TABLE_SUFFIXES and data.source.suffix != ".parquet")


def _tune_items(method: str, data: Data, options: TuneOptions) -> None:
    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh.cli.options import shows_progress
    from dlfh.cli.printing import print_trials
    from dlfh.cli.settings import BuildSettings
    from dlfh.collection.candidates import N_BITS
    from dlfh.collection.choosing import HELD_OUT, MOST_ITEMS
    from dlfh.collection.tuning import tune_items
    from dlfh.errors import InputError

    for field in fields(options):
        if field.name not in _OF_ITEMS and getattr(options, field.name) != field.default:
            raise InputError(f"--{field.name.replace('_', '-')} is for data sets of vectors, and these are raw items")
    if options.validation is not None and not 0 < options.validation < 1:
        raise InputError(f"--validation must be a share between 0 and 1, got {options.validation}")
    check_outputs([options.write], data.inputs(), overwrite=options.overwrite)
    candidates = _candidates(method, options.grid or [])
    n_bits = N_BITS if options.bits is None else options.bits
    models = [candidate.model(n_bits, 0) for candidate in candidates]  # before anything is read: what is wrong is said
    items = data.read(outputs=[options.write])
    if len(items.modalities) == 1 < min(model.info.n_modalities[0] for model in models):
        items = items.with_label_words()

    def tell(trial: Trial) -> None:
        if shows_progress(options.quiet, False):
            typer.echo(plain(f"{trial.what}: {trial.option}: {trial.merit:.3f}"), err=True)

    tuned = tune_items(
        items,
        candidates,
        n_bits=n_bits,
        n_draws=options.seeds or 3,
        n_items=options.size or MOST_ITEMS,
        held_out=options.validation or HELD_OUT,
        on_trial=tell,
    )
    if not options.quiet:
        print_trials(tuned.trials, n_draws=options.seeds or 3)
    for failed, sentence in tuned.failures.items():
        typer.echo(plain(f"not measured: {failed}: {sentence}"), err=True)
    features = {f"{kind}_features": name for kind, name in tuned.features.items()}
    settings = BuildSettings(
        method=tuned.candidate.method, bits=n_bits, parameters=tuned.candidate.parameters, **features
    )
    described = ", ".join(f"{kind} by {name}" for kind, name in tuned.features.items())
    best = f"{tuned.candidate.method}, {tuned.candidate}"
    typer.echo(plain(f"best: {best}" + (f"; {described}" if described else "")))
    if options.write is None:
        typer.echo(settings.to_toml(), nl=False)
    else:
        write_output(options.write, [settings.to_toml().encode()], overwrite=options.overwrite)
        typer.echo(plain(f"settings for dlfh build --settings: {options.write}"))


def _candidates(methods: str, grid: list[str]) -> list[Candidate]:
    """Return what is tried: each method with all combinations of values."""
    import itertools

    from dlfh.bench.tune import parse_grid, usual_grid
    from dlfh.collection.tuning import Candidate
    from dlfh.methods.catalogue import METHODS

    values = parse_grid(grid)
    names = [*METHODS] if methods == "all" else [method_named(name.strip()) for name in methods.split(",")]
    return [
        Candidate(name, dict(zip(own, combination, strict=True)))
        for name, own in ((name, values or usual_grid(name)) for name in names)
        for combination in itertools.product(*own.values())
    ]
