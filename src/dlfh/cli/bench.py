"""`dlfh bench`: run experiments that compare methods."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlfh._terminal import plain, plain_lines
from dlfh.cli.options import Quiet, argument, check_unset, option, parse_pairs
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.bench.data import Source
    from dlfh.bench.plan import Section
    from dlfh.bench.settings import Settings


_data = functools.partial(option, panel="Data")
_run_option = functools.partial(option, panel="Computation")
_splits = functools.partial(option, panel="For splits")
#: Options of rank and splits, which train no models. Other experiments take all options except those for splits.
_APPLICABLE = {
    "rank": {"output", "bits", "methods", "quiet"},
    "splits": {"output", "file", "seeds", "queries", "points", "check", "overwrite", "quiet"},
}


@dataclass(frozen=True)
class RunOptions:
    """Options for data and computation, shared with `dlfh tune`."""

    output: Path | None = option("Where to write the result.", "--output", "-o")
    file: Path | None = _data("File of a data set that is given by name.")
    points: int | None = _data("Number of points to generate.")
    queries: int | None = _data("Number of queries, if the data set does not define them.")
    settings: Path | None = option("TOML file with settings. Command-line options take precedence.")
    cache: Path | None = _run_option(
        "Folder for intermediate results, from which an interrupted run continues.",
        show_default="as --output for bench, bench-DATA for tune",
    )
    jobs: int | None = _run_option("Number of worker processes.", show_default="one per core")
    threads: int | None = _run_option("Number of threads per worker.", show_default="1")
    memory_gb: float | None = _run_option("Memory limit of one computation.", "--memory-gb", show_default="8")
    cell_minutes: float | None = _run_option("Time limit of one computation.", show_default="60")
    quiet: Quiet = False

    def resolve_settings(self, data: str, **changes: Any) -> Settings:
        """Return the settings for a data set: its defaults, the settings file, then the options."""
        from dlfh.bench.settings import Settings

        defaults = Settings.for_data(data)
        settings = defaults if self.settings is None else Settings.read(self.settings, defaults)
        shared = {name: getattr(self, name) for name in ("queries", "jobs", "threads", "memory_gb", "cell_minutes")}
        return settings.changed(**shared, **changes)

    def load(self, data: str) -> Source:
        from dlfh.bench.data import load_source

        return load_source(data, self.file, n_points=self.points)


@dataclass(frozen=True)
class BenchOptions(RunOptions):
    """Options of `dlfh bench`."""

    output: Path | None = option(
        "Folder for the report; for splits, a JSON file.",
        "--output",
        "-o",
        show_default="bench-DATA; splits are printed",
    )
    methods: str | None = option("Methods, comma-separated; your own as module:Class.", show_default="all")
    codes: list[str] | None = option(
        "Folder of codes computed elsewhere, and their name in tables; repeatable.", metavar="NAME=FOLDER"
    )
    bits: str | None = option("Code lengths, comma-separated.", show_default="16,32,64")
    seeds: int | None = option("Number of runs, each with its own seed.", show_default="5")
    protocols: str | None = option(
        "Any of unseen, hashed, learned and unified, comma-separated.", show_default="unseen,hashed,learned"
    )
    k: int | None = option("Cut-off of MAP@k and precision@k.", "-k", show_default="50")
    unseen_share: float | None = _data(
        "Share of the training points to use as the unseen database, instead of half the queries."
    )
    layout: str | None = option(
        "Directions in LaTeX tables side by side (columns), or one below the other (paper).", show_default="columns"
    )
    interval: str | None = option(
        "± in LaTeX tables: deviation, or half of a 95 % confidence interval.", show_default="deviation"
    )
    retry_failed: bool = _run_option("Repeat computations that failed.", default=False)
    print_settings: bool = option("Print the settings as TOML and exit.", default=False)
    check: Path | None = _splits("File of published splits to compare with.")
    overwrite: bool = _splits("Replace an existing output file.", default=False)


def bench(
    *,
    experiment: str = argument("map, time, convergence, sensitivity, curves, paper, rank or splits.", "EXPERIMENT"),
    data: list[str] = argument(
        "Data set: icons; wiki, iapr-tc12, mirflickr-25k or nus-wide with --file; generated:NAME, such as "
        "generated:nus-wide; or an array file. For rank: report folders of `dlfh bench map`.",
        "DATA",
    ),
    options: BenchOptions,
) -> None:
    """Run an experiment on a data set and write a report (HTML, Markdown, CSV, LaTeX, SVG and PNG).

    An interrupted run continues where it stopped when it is started again.

    [b]map[/b]: accuracy by method, code length, direction and protocol (Table 1 of the DLFH paper).
    [b]time[/b]: training time by method and number of points (Table 2).
    [b]convergence[/b]: objective and MAP by iteration, full and stochastic (Figure 1).
    [b]sensitivity[/b]: MAP against λ and m (Figure 2).
    [b]curves[/b]: precision-recall and top-N precision curves.
    [b]paper[/b]: all of these in one report.
    [b]rank[/b]: mean ranks over several reports, with Friedman's test and Nemenyi's critical difference.
    [b]splits[/b]: the query rows of each seed, with checksums of the data, so that others can repeat an experiment.

    [b]Examples[/b]
    $ dlfh bench paper icons
    $ dlfh bench map icons --methods DLFH,CCAITQ,SCM --bits 16,32
    $ dlfh bench time generated:nus-wide --points 20000 --cell-minutes 5
    $ dlfh bench convergence wiki --file wiki.mat
    $ dlfh bench sensitivity iapr-tc12 --file iapr_tc12.npz --seeds 3
    $ dlfh bench curves my-data.npz --bits 64
    $ dlfh bench map wiki --file wiki.mat --methods my_module:MyHash,DLFH --codes Deep=codes/
    $ dlfh bench rank bench-icons bench-wiki bench-iapr_tc12
    $ dlfh bench splits wiki --file wiki.mat --check docs/splits/wiki.json
    """
    from dlfh._validation import check_choice
    from dlfh.bench.experiments import EXPERIMENTS

    check_choice(experiment, "EXPERIMENT", (*EXPERIMENTS, "rank", "splits"))
    applicable = _APPLICABLE.get(experiment, {field.name for field in fields(options)} - {"check", "overwrite"})
    check_unset(options, applicable, f"does not apply to bench {experiment}")
    if experiment == "rank":
        _rank([Path(report) for report in data], options)
        return
    if len(data) > 1:
        raise InputError(f"bench {experiment} takes one data set, got {len(data)}")
    with resumable():
        if experiment == "splits":
            _write_splits(data[0], options)
        else:
            _run(experiment, data[0], options)


def _run(experiment: str, data: str, options: BenchOptions) -> None:
    from dlfh.bench.experiments import run_experiment
    from dlfh.bench.report import check_report_place, to_cite

    lists = {"methods": split_words(options.methods), "protocols": split_words(options.protocols)}
    others = {name: getattr(options, name) for name in ("seeds", "k", "unseen_share", "layout", "interval")}
    others |= {"bits": _parse_lengths(options.bits), "codes": parse_pairs(options.codes, "--codes")}
    settings = options.resolve_settings(data, **lists, **others)
    if options.print_settings:
        typer.echo(settings.to_toml(), nl=False)
        return
    report = options.output or default_folder(data)
    check_report_place(report, experiment, settings.to_toml(), options.settings)
    source, cache, show = options.load(data), options.cache or report, not options.quiet
    sections = run_experiment(experiment, source, settings, cache, report, show=show, retry=options.retry_failed)
    if show:
        _print_tables([section for section in sections if section.key != "seconds"])
    for line in (f"report: {report / experiment}.html", *to_cite(sections)):
        typer.echo(plain(line))


def _rank(reports: list[Path], options: BenchOptions) -> None:
    from dlfh.bench.ranking import rank_reports

    lengths = _parse_lengths(options.bits)
    if lengths is not None and len(lengths) != 1:
        raise InputError(f"bench rank takes one code length, got --bits {options.bits}")
    output = options.output or Path("bench-rank")
    sections = rank_reports(reports, output, lengths[0] if lengths else None, split_words(options.methods))
    if not options.quiet:
        _print_tables(sections, with_paragraphs=True)
    typer.echo(plain(f"report: {output / 'rank'}.html"))


def _print_tables(sections: list[Section], *, with_paragraphs: bool = False) -> None:
    from dlfh.bench.tables import ReportTable

    for section in sections:
        tables = [block for block in section.blocks if isinstance(block, ReportTable)]
        if tables:
            typer.echo(plain_lines(tables[0].to_text()))
        if with_paragraphs:
            typer.echo(plain_lines("\n".join(section.paragraphs) + "\n"))


def _write_splits(data: str, options: BenchOptions) -> None:
    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh.bench.data import compare_splits, splits_of

    if options.output is not None:
        check_outputs([options.output], [Path(data), options.file, options.check], overwrite=options.overwrite)
    if options.seeds is not None and options.seeds < 1:
        raise InputError(f"--seeds must be positive, got {options.seeds}")
    source = options.load(data)
    if options.check is not None:
        try:
            differences = compare_splits(json.loads(options.check.read_text(encoding="utf-8")), source)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            raise InputError(f"cannot compare with {options.check}: {error}") from None
        if differences:
            raise InputError(f"{data} differs from {options.check}: {'; '.join(differences)}")
        typer.echo(plain(f"{data} and its splits match {options.check}"))
        return
    splits = splits_of(source, 5 if options.seeds is None else options.seeds, options.queries)
    text = json.dumps(splits, separators=(",", ":")).replace('],"', '],\n"') + "\n"
    if options.output is None:
        typer.echo(text, nl=False)
    else:
        write_output(options.output, [text.encode()], overwrite=options.overwrite)


def default_folder(data: str) -> Path:
    """Return the default folder for a report and its intermediate results."""
    return Path(f"bench-{Path(data).stem.replace(':', '-')}")


def split_words(text: str | None) -> tuple[str, ...] | None:
    """Split a comma-separated list."""
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def _parse_lengths(text: str | None) -> tuple[int, ...] | None:
    words = split_words(text)
    if words is None:
        return None
    if not all(word.isdecimal() for word in words):
        raise InputError(f"--bits takes comma-separated whole numbers, such as 16,32, got {text!r}")
    return tuple(map(int, words))


@contextmanager
def resumable() -> Iterator[None]:
    """When interrupted, tell the user how to continue the run."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("dlfh: interrupted; run the same command again to continue", err=True)
        raise typer.Exit(130) from None
