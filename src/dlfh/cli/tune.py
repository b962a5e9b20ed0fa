"""`dlfh tune`: choose a method, its parameters and features on held-out data."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlfh._terminal import plain, plain_lines
from dlfh.cli.bench import RunOptions, default_folder, resumable, split_words
from dlfh.cli.options import ItemOptions, Overwrite, argument, check_unset, method_named, option
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.collection.choosing import Candidate

#: Options that apply to raw items; the others are for data sets of vectors.
_FOR_ITEMS = {"grid", "bits", "seeds", "validation_share", "size", "output", "overwrite", "quiet"}


@dataclass(frozen=True)
class TuneItems(ItemOptions):
    """Options that select the data to tune on."""

    source: Path | None = argument(
        "Folder of images or table, as for `dlfh build`; or icons, a data set's name with --file, generated:NAME, or "
        "an array file, as for `dlfh bench`.",
        "DATA",
        None,
    )


@dataclass(frozen=True)
class TuneOptions(RunOptions):
    """Options of `dlfh tune`."""

    output: Path | None = option(
        "File for the best settings; for vectors, a CSV file beside it lists the MAP of every candidate.",
        "--output",
        "-o",
        show_default="printed; for vectors, tuned-METHOD.toml in the --cache folder",
    )
    grid: list[str] | None = option(
        "Values to try; repeatable.", "-g", "--grid", show_default="eight per method", metavar="NAME=VALUE,..."
    )
    bits: int | None = option("Code length.", show_default="128; for vectors 32")
    seeds: int | None = option("Runs per candidate, each with different validation points.", show_default="3")
    protocol: str = option("Protocol whose MAP is compared: unseen, hashed, learned or unified.", default="unseen")
    validation_share: float | None = option("Share of the points to validate on.", show_default="1/3; for vectors 0.2")
    halving: str | None = option("Successive halving by max_iter, size or seeds, instead of a full grid.")
    size: int | None = option(
        "Number of items to compare candidates on; for vectors, number of training points.",
        min=2,
        show_default="1200; for vectors all",
    )
    overwrite: Overwrite = False


def tune(
    *,
    method: str = argument("Method, such as DLFH; several, comma-separated; or all.", "METHOD"),
    data: TuneItems,
    options: TuneOptions,
) -> None:
    """Choose a method, its parameters and features by their quality on held-out data.

    For raw items, candidates are compared by the mean of MAP, nDCG@10 and exact precision on items held out of
    training, over several random samples; features are chosen too. `dlfh build --settings` reads the result.

    For vectors, part of the training set serves as queries, and the data set's own queries are never used. `dlfh bench
    --settings` reads the result. Unless --grid is given, every method has the same number of candidates.

    [b]Examples[/b]
    $ dlfh tune DLFH PHOTOS/ --table items.csv --image file --text caption --labels tags -o best.toml
    $ dlfh tune DLFH,KDLFH items.csv --text caption --image file --labels tags --bits 64 --size 3000 -o best.toml
    $ dlfh tune DLFH icons --grid scale=2,4,8,16 --grid max_iter=30,100
    """
    if data.source is None and not data.names_columns():
        raise InputError("no data to tune on: name a folder, a table or a data set")
    if _is_raw(data):
        _tune_items(method, data, options)
    else:
        with resumable():
            _tune_vectors(method, str(data.source), options)


def _is_raw(data: TuneItems) -> bool:
    from dlfh.datasets.arrays import is_array_folder
    from dlfh.datasets.descriptions import DATA_SETS
    from dlfh.datasets.tables import TABLE_SUFFIXES

    if data.names_columns() or data.source is None:
        return True
    if str(data.source) in ("icons", *DATA_SETS):
        return False
    is_folder = data.source.is_dir() and not is_array_folder(data.source)
    return is_folder or (data.source.suffix.lower() in TABLE_SUFFIXES and data.source.suffix != ".parquet")


def _tune_items(method: str, data: TuneItems, options: TuneOptions) -> None:
    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh.cli.build import BuildSettings
    from dlfh.cli.output import print_trials
    from dlfh.collection.choosing import HELD_OUT, MAX_ITEMS, N_BITS, tune_items

    check_unset(options, _FOR_ITEMS, "applies only to data sets of vectors, not to raw items")
    if options.validation_share is not None and not 0 < options.validation_share < 1:
        raise InputError(f"--validation-share must be between 0 and 1, got {options.validation_share}")
    check_outputs([options.output], data.inputs(), overwrite=options.overwrite)
    candidates = _candidates(method, options.grid or [])
    n_bits = N_BITS if options.bits is None else options.bits
    for candidate in candidates:  # before reading: reject invalid parameters early
        candidate.model(n_bits, 0)
    items = data.read(outputs=[options.output], part="train")
    if len(items.modalities) == 1:  # a direction needs two
        items = items.with_label_words()

    n_draws, show = options.seeds or 3, not options.quiet
    sizes: dict[str, Any] = {"n_items": options.size or MAX_ITEMS, "held_out": options.validation_share or HELD_OUT}
    tuned = tune_items(items, candidates, n_bits=n_bits, n_draws=n_draws, show_progress=show, **sizes)
    if show:
        print_trials(tuned.trials, n_draws=n_draws)
    for failed, reason in tuned.failures.items():
        typer.echo(plain(f"not measured: {failed}: {reason}"), err=True)
    best, features = tuned.candidate, {f"{kind}_features": name for kind, name in tuned.features.items()}
    settings = BuildSettings(method=best.method, bits=n_bits, parameters=best.parameters, **features)
    described = "".join(f"; {kind} features {name}" for kind, name in tuned.features.items())
    typer.echo(plain(f"best: {best.method}, {best}{described}"))
    if options.output is None:
        typer.echo(settings.to_toml(), nl=False)
    else:
        write_output(options.output, [settings.to_toml().encode()], overwrite=options.overwrite)
        typer.echo(plain(f"settings for dlfh build --settings: {options.output}"))


def _candidates(methods: str, grid: list[str]) -> list[Candidate]:
    from dlfh.bench.tune import default_grid, parse_grid
    from dlfh.collection.choosing import Candidate
    from dlfh.methods.catalogue import MODULES

    values = parse_grid(grid)
    names = [*MODULES] if methods == "all" else [method_named(name.strip()) for name in methods.split(",")]
    return [
        Candidate(name, dict(zip(parameters, combination, strict=True)))
        for name, parameters in ((name, values or default_grid(name)) for name in names)
        for combination in itertools.product(*parameters.values())
    ]


def _tune_vectors(method: str, data: str, options: TuneOptions) -> None:
    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh._validation import check_choice
    from dlfh.bench.cells import Cache
    from dlfh.bench.plan import Plan
    from dlfh.bench.runner import Runner
    from dlfh.bench.settings import PROTOCOLS
    from dlfh.bench.tune import ParameterSearch, default_grid, parse_grid, trials_csv, tuned_toml
    from dlfh.methods.catalogue import MODULES

    if options.halving is not None:
        check_choice(options.halving, "--halving", ("max_iter", "size", "seeds"))
    check_choice(options.protocol, "--protocol", PROTOCOLS)
    methods = tuple(MODULES) if method == "all" else split_words(method)
    bits = (options.bits,) if options.bits is not None else (32,) if options.settings is None else None
    seeds = 3 if options.seeds is None and options.settings is None else options.seeds
    settings = options.resolve_settings(data, methods=methods, bits=bits, seeds=seeds, resplit=False)
    grid = parse_grid(options.grid or [])
    source = options.load(data)
    cache = options.cache or default_folder(data)
    target = options.output or cache / f"tuned-{method.translate(str.maketrans(' ,:', '---'))}.toml"
    candidates = target.parent / f"{target.stem}-candidates.csv"  # Path.with_name fails for "."
    for path in (target, candidates):
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
    if options.output is not None:
        inputs = [Path(data), options.file, options.settings]
        check_outputs([target, candidates], inputs, overwrite=options.overwrite)
    plan = Plan(source, settings)
    share, halving = 0.2 if options.validation_share is None else options.validation_share, options.halving
    chosen: Any = settings.bits[0], options.protocol, share, halving, options.size
    rows = settings.rows()
    searches = [ParameterSearch(plan, row.label, grid or default_grid(row.method), *chosen) for row in rows]
    runner = Runner(Cache(cache), settings, show=not options.quiet)
    results = []
    for search in searches:
        results.append((search, search.run(runner)))
        if not options.quiet:
            typer.echo(plain_lines(search.table(results[-1][1]).to_text()))
    overwrite = options.overwrite or options.output is None
    write_output(target, [tuned_toml(results).encode()], overwrite=overwrite)
    write_output(candidates, [trials_csv(results).encode()], overwrite=overwrite)
    for search, trials in results:
        name = f"{search.method}: " if len(results) > 1 else ""
        typer.echo(plain(f"best: {name}{trials[0].option}"))
    typer.echo(plain(f"settings for dlfh bench --settings: {target}"))
