"""`dlfh bench`: run experiments that compare methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._terminal import plain, plain_lines
from dlfh.cli.options import Quiet, changed_options, flag, parse_pairs, with_options
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.bench.data import Source
    from dlfh.bench.plan import Section
    from dlfh.bench.settings import Settings


def _option(help: str, *names: str, panel: str | None = None, default: str | bool = True) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=default)


_DATA, _RUN, _SPLITS = "Data", "Computation", "For splits"

#: Options of the "experiments" that compute nothing; all options but those for splits apply to the others.
_APPLICABLE = {
    "rank": {"output", "bits", "methods", "quiet"},
    "splits": {"output", "file", "seeds", "queries", "points", "check", "overwrite", "quiet"},
}


@dataclass(frozen=True)
class RunOptions:
    """Options for data and computation, shared with `dlfh tune`."""

    output: Annotated[Path | None, _option("Where to write the result.", "--output", "-o")] = None
    file: Annotated[Path | None, _option("File of a data set that is given by name.", panel=_DATA)] = None
    points: Annotated[int | None, _option("Number of points to generate.", panel=_DATA)] = None
    queries: Annotated[int | None, _option("Number of queries, if the data set does not define them.", panel=_DATA)] = (
        None
    )
    settings: Annotated[Path | None, _option("TOML file with settings. Command-line options take precedence.")] = None
    cache: Annotated[
        Path | None,
        _option(
            "Folder for intermediate results, from which an interrupted run continues.",
            panel=_RUN,
            default="as --output for bench, bench-DATA for tune",
        ),
    ] = None
    jobs: Annotated[int | None, _option("Number of worker processes.", panel=_RUN, default="one per core")] = None
    threads: Annotated[int | None, _option("Number of threads per worker.", panel=_RUN, default="1")] = None
    memory_gb: Annotated[
        float | None, _option("Memory limit of one computation.", "--memory-gb", panel=_RUN, default="8")
    ] = None
    cell_minutes: Annotated[float | None, _option("Time limit of one computation.", panel=_RUN, default="60")] = None
    quiet: Quiet = False

    def resolve_settings(self, data: str, **changes: Any) -> Settings:
        """Return the settings for a data set: its defaults, the settings file, then the options."""
        from dlfh.bench.settings import Settings

        defaults = Settings.for_data(data)
        settings = defaults if self.settings is None else Settings.read(self.settings, defaults)
        shared = {name: getattr(self, name) for name in ("queries", "jobs", "threads", "memory_gb", "cell_minutes")}
        return settings.changed(**shared, **changes)

    def load(self, data: str) -> Source:
        """Load a data set."""
        from dlfh.bench.sources import load_source

        return load_source(data, self.file, n_points=self.points)


@dataclass(frozen=True)
class BenchOptions(RunOptions):
    """Options of `dlfh bench`."""

    output: Annotated[
        Path | None,
        _option(
            "Folder for the report; for splits, a JSON file.",
            "--output",
            "-o",
            default="bench-DATA; splits are printed",
        ),
    ] = None
    methods: Annotated[str | None, _option("Methods, comma-separated; your own as module:Class.", default="all")] = None
    codes: Annotated[
        list[str] | None,
        _option("Codes computed elsewhere, as a row of the tables: NAME=FOLDER; repeatable.", default="none"),
    ] = None
    bits: Annotated[str | None, _option("Code lengths, comma-separated.", default="16,32,64")] = None
    seeds: Annotated[int | None, _option("Number of runs, each with its own seed.", default="5")] = None
    protocols: Annotated[
        str | None,
        _option("Any of unseen, hashed, learned and unified, comma-separated.", default="unseen,hashed,learned"),
    ] = None
    k: Annotated[int | None, _option("Cut-off of MAP@k and precision@k.", "-k", default="50")] = None
    unseen_share: Annotated[
        float | None,
        _option(
            "Share of the training points to use as the unseen database, instead of half the queries.", panel=_DATA
        ),
    ] = None
    retry_failed: Annotated[bool, _option("Repeat computations that failed.", "--retry-failed", panel=_RUN)] = False
    print_settings: Annotated[bool, _option("Print the settings as TOML and exit.", "--print-settings")] = False
    check: Annotated[Path | None, _option("Published splits to compare with.", panel=_SPLITS)] = None
    overwrite: Annotated[bool, _option("Replace an existing output file.", "--overwrite", panel=_SPLITS)] = False


@with_options(options=BenchOptions)
def bench(
    experiment: Annotated[
        str,
        typer.Argument(
            help="map, time, convergence, sensitivity, curves, paper, rank or splits.", metavar="EXPERIMENT"
        ),
    ],
    data: Annotated[
        list[str],
        typer.Argument(
            help="Data set: icons; wiki, iapr-tc12, mirflickr-25k or nus-wide with --file; generated:NAME, such as "
            "generated:nus-wide; or an array file. For rank: report folders of `dlfh bench map`.",
            metavar="DATA",
        ),
    ],
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
    for name in changed_options(options):
        if name not in _APPLICABLE.get(experiment, {name} - {"check", "overwrite"}):
            raise InputError(f"{flag(name)} does not apply to bench {experiment}")
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
    from dlfh.bench.report import check_report_place

    settings = options.resolve_settings(
        data,
        methods=split_words(options.methods),
        bits=_parse_lengths(options.bits),
        seeds=options.seeds,
        protocols=split_words(options.protocols),
        k=options.k,
        unseen_share=options.unseen_share,
    )
    settings = settings.with_codes(parse_pairs(options.codes, "--codes"))
    if options.print_settings:
        typer.echo(settings.to_toml(), nl=False)
        return
    report = options.output or default_folder(data)
    check_report_place(report, experiment, settings.to_toml(), options.settings)
    sections = run_experiment(
        experiment,
        options.load(data),
        settings,
        options.cache or report,
        report,
        show=not options.quiet,
        retry=options.retry_failed,
    )
    if not options.quiet:
        _print_tables([section for section in sections if section.key != "seconds"])
    typer.echo(plain(f"report: {report / experiment}.html"))


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
    """Print the first table of each section."""
    from dlfh.bench.tables import ReportTable

    for section in sections:
        tables = [block for block in section.blocks if isinstance(block, ReportTable)]
        if tables:
            typer.echo(plain_lines(tables[0].to_text()))
        if with_paragraphs:
            typer.echo(plain_lines("\n".join(section.paragraphs) + "\n"))


def _write_splits(data: str, options: BenchOptions) -> None:
    import json

    from dlfh._persistence.outputs import check_outputs, write_output
    from dlfh.bench.splits import compare_splits, splits_of

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
    """Return the default folder of a report and of intermediate results."""
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
