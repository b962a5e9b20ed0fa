"""``dlfh bench`` and ``dlfh tune``: the experiments as commands.

Everything heavy is imported when a command runs, so that help is there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._terminal import plain, plain_lines

if TYPE_CHECKING:
    from dlfh.bench.data import Source
    from dlfh.bench.settings import Settings

__all__ = ["TuneOptions", "bench", "tune"]

bench = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments; a run that was stopped goes on where it was.",
    rich_markup_mode="markdown",
)

Data = Annotated[
    str,
    typer.Argument(
        help="icons; wiki, iapr-tc12, mirflickr-25k or nus-wide, with --data; generated:nus-wide and the like; "
        "or a file.",
        show_default=False,
    ),
]
File = Annotated[Path | None, typer.Option("--data", help="The file of a data set that is given by name.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run.", show_default="bench-DATA")]
Report = Annotated[
    Path | None,
    typer.Option(help="Folder of the report, tables and figures, without the results.", show_default="as --out"),
]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file; flags win over it.")]
Methods = Annotated[str | None, typer.Option(help="Rows of the tables, comma-separated.", show_default="all methods")]
Bits = Annotated[str | None, typer.Option(help="Code lengths, comma-separated.", show_default="16,32,64")]
Seeds = Annotated[int | None, typer.Option(help="Runs of each cell.", show_default="5; for icons 2")]
Protocols = Annotated[str | None, typer.Option(help="Of unseen, hashed, learned and unified, comma-separated.")]
Cut = Annotated[int | None, typer.Option("-k", help="The k of MAP@k and precision@k.", show_default="50")]
Queries = Annotated[int | None, typer.Option(help="Number of queries, for data that has none of its own.")]
HeldOut = Annotated[float | None, typer.Option(help="Share of the training points to hold out as unseen database.")]
Points = Annotated[int | None, typer.Option(help="How many points to generate.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes.", show_default="as many as there are cores")]
Threads = Annotated[int | None, typer.Option(help="Threads of each worker.", show_default="1")]
Memory = Annotated[float | None, typer.Option("--memory-gb", help="Memory of one cell.", show_default="8")]
Minutes = Annotated[float | None, typer.Option("--cell-minutes", help="Time of one cell.", show_default="60")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Compute again what failed before.")]
Print = Annotated[bool, typer.Option("--print-settings", help="Print the settings as TOML, and stop.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no tables.")]

_HELP = {
    "map": "Accuracy of methods by code length, direction and protocol: the paper's first table.",
    "time": "Training time by method and number of points: the paper's second table.",
    "convergence": "Objective and MAP by iteration, full and stochastic: the paper's first figure.",
    "sensitivity": "MAP against λ and against m: the paper's second figure.",
    "curves": "Precision-recall and top-N precision curves.",
    "paper": "All of these in one self-contained HTML report, with Markdown, CSV, LaTeX, SVG and PNG files.",
}
_EXAMPLES = {
    "map": "dlfh bench map icons --methods DLFH,CCAITQ,SCM --bits 16,32",
    "time": "dlfh bench time generated:nus-wide --points 20000 --cell-minutes 5",
    "convergence": "dlfh bench convergence wiki --data wiki.mat",
    "sensitivity": "dlfh bench sensitivity iapr-tc12 --data iapr_tc12.npz --seeds 3",
    "curves": "dlfh bench curves my-data.npz --bits 64",
    "paper": "dlfh bench paper icons",
}


def _experiment(name: str) -> Callable[..., None]:
    def run(
        data: Data,
        file: File = None,
        out: Out = None,
        report: Report = None,
        settings: SettingsFile = None,
        methods: Methods = None,
        bits: Bits = None,
        seeds: Seeds = None,
        protocols: Protocols = None,
        k: Cut = None,
        queries: Queries = None,
        held_out: HeldOut = None,
        points: Points = None,
        jobs: Jobs = None,
        threads: Threads = None,
        memory_gb: Memory = None,
        cell_minutes: Minutes = None,
        retry_failed: Retry = False,
        print_settings: Print = False,
        quiet: Quiet = False,
    ) -> None:
        with _resumable():
            from dlfh.bench.report import check_report_place

            flags = {
                "methods": _words(methods),
                "bits": _numbers(bits, "--bits"),
                "seeds": seeds,
                "protocols": _words(protocols),
                "k": k,
                "queries": queries,
                "held_out": held_out,
                "jobs": jobs,
                "threads": threads,
                "memory_gb": memory_gb,
                "cell_minutes": cell_minutes,
            }
            chosen = _settings(data, settings, flags)
            if print_settings:
                typer.echo(chosen.to_toml(), nl=False)
                return
            folder = out or _folder(data)
            check_report_place(report or folder, name, chosen.to_toml(), settings)
            _run(name, _load(data, file, points), chosen, folder, report or folder, retry_failed, quiet)

    return run


for _name, _help in _HELP.items():
    _text = f"{_help}\n\nExample: `{_EXAMPLES[_name]}`"
    bench.command(_name, help=_text)(_experiment(_name))


@bench.command("rank")
def rank(
    reports: Annotated[
        list[Path],
        typer.Argument(help="Folders of reports of dlfh bench map, one for each data set.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the report.")] = Path("bench-rank"),
    bits: Annotated[
        int | None, typer.Option(help="Code length.", show_default="the longest that all reports have")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Rows to rank, comma-separated.", show_default="those that all reports have")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Rank methods over several data sets, and say which differ: Friedman's test, Nemenyi's critical difference.

    Example: `dlfh bench rank bench-icons bench-wiki bench-iapr_tc12`
    """
    from dlfh.bench.ranking import rank_reports
    from dlfh.bench.tables import ReportTable

    for section in rank_reports(reports, out, bits, _words(methods)):
        tables = [block for block in section.blocks if isinstance(block, ReportTable)]
        if not quiet:
            typer.echo(plain_lines(tables[0].to_text()))
            typer.echo(plain_lines("\n".join(section.paragraphs) + "\n"))
    typer.echo(plain(f"report: {out / 'rank'}.html"))


@dataclass(frozen=True)
class TuneOptions:
    """How `dlfh tune` chooses."""

    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            "-g",
            help="Values to try: NAME=VALUE,VALUE,...; may be repeated.",
            show_default="eight candidates of each method",
        ),
    ] = None
    file: File = None
    out: Out = None
    settings: SettingsFile = None
    bits: Annotated[int | None, typer.Option(help="Code length.", show_default="32; of raw items 128")] = None
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of each candidate, each on its own validation points.", show_default="3"),
    ] = None
    protocol: Annotated[str, typer.Option(help="By whose MAP to choose: unseen, hashed, learned or unified.")] = (
        "unseen"
    )
    validation: Annotated[
        float | None,
        typer.Option(help="Share of the training points to validate on.", show_default="0.2; of raw items a third"),
    ] = None
    halving: Annotated[
        str | None, typer.Option(help="Successive halving by max_iter, size or seeds; a plain grid by default.")
    ] = None
    size: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="How many training points candidates learn from; of raw items, how many they are tried on.",
            show_default="all; of raw items 1200",
        ),
    ] = None
    queries: Queries = None
    points: Points = None
    jobs: Jobs = None
    threads: Threads = None
    memory_gb: Memory = None
    cell_minutes: Minutes = None
    write: Annotated[
        Path | None,
        typer.Option(
            help="Where the best settings go; every candidate's MAP goes beside it, as CSV.",
            show_default="tuned-METHOD.toml in the run's folder; of raw items nowhere",
        ),
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --write.")] = False
    quiet: Quiet = False


def tune(method: str, data: str, options: TuneOptions) -> None:
    """Choose parameters of methods by MAP on a part of the training set; the queries are never looked at."""
    with _resumable():
        from dlfh._persistence.outputs import check_outputs, write_output
        from dlfh._validation import check_choice
        from dlfh.bench.cache import Cache
        from dlfh.bench.plan import Plan
        from dlfh.bench.run import limits_of
        from dlfh.bench.runner import Runner
        from dlfh.bench.settings import PROTOCOLS
        from dlfh.bench.tune import Search, parse_grid, trials_csv, tuned_toml, usual_grid
        from dlfh.methods.catalogue import METHODS

        if options.halving is not None:
            check_choice(options.halving, "--halving", ("max_iter", "size", "seeds"))
        check_choice(options.protocol, "--protocol", PROTOCOLS)
        labels = tuple(METHODS) if method == "all" else _words(method)
        flags = {
            "methods": labels,
            "bits": (options.bits,) if options.bits is not None else (32,) if options.settings is None else None,
            "seeds": 3 if options.seeds is None and options.settings is None else options.seeds,
            "resplit": False,
            "queries": options.queries,
            "jobs": options.jobs,
            "threads": options.threads,
            "memory_gb": options.memory_gb,
            "cell_minutes": options.cell_minutes,
        }
        chosen = _settings(data, options.settings, flags)
        values = parse_grid(options.grid or [])
        source = _load(data, options.file, options.points)
        folder = options.out or _folder(data)
        target = options.write or folder / f"tuned-{method.replace(' ', '-').replace(',', '-')}.toml"
        if target.is_dir():
            _fail(f"cannot write {target}: it is a folder")
        listed = target.with_name(f"{target.stem}-candidates.csv")
        if listed.is_dir():
            _fail(f"cannot write {listed}: it is a folder")
        if options.write is not None:
            check_outputs([target, listed], [Path(data), options.file, options.settings], overwrite=options.overwrite)
        plan = Plan(source, chosen)
        searches = [
            Search(
                plan,
                row.label,
                values or usual_grid(row.method),
                chosen.bits[0],
                options.protocol,
                0.2 if options.validation is None else options.validation,
                options.halving,  # type: ignore[arg-type]
                options.size,
            )
            for row in chosen.rows()
        ]
        runner = Runner(Cache(folder), limits_of(chosen), show=not options.quiet)
        found = []
        for search in searches:
            found.append((search, search.run(runner)))
            if not options.quiet:
                typer.echo(plain_lines(search.table(found[-1][1]).to_text()))
        best = tuned_toml(found)
        write_output(target, [best.encode()], overwrite=options.overwrite or options.write is None)
        write_output(listed, [trials_csv(found).encode()], overwrite=options.overwrite or options.write is None)
        for search, trials in found:
            name = f"{search.method}: " if len(found) > 1 else ""
            typer.echo(plain(f"best: {name}{trials[0].label}"))
        typer.echo(plain(f"settings for dlfh bench --settings: {target}"))


@bench.command()
def splits(
    data: Data,
    file: File = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many splits, from seed 0 on.")] = 5,
    queries: Queries = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file to write.", show_default="printed")] = None,
    check: Annotated[Path | None, typer.Option(help="Compare with a published file instead.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
) -> None:
    """Which points are queries, by seed, with checksums of the data: for others who repeat an experiment.

    Example: `dlfh bench splits wiki --data wiki.mat --check docs/splits/wiki.json`
    """
    with _resumable():
        import json

        from dlfh._persistence.outputs import check_outputs, write_output
        from dlfh.bench.splits import compare_splits, splits_of

        if out is not None:
            check_outputs([out], [Path(data), file, check], overwrite=overwrite)
        source = _load(data, file, None)
        if check is not None:
            try:
                differences = compare_splits(json.loads(check.read_text(encoding="utf-8")), source)
            except (OSError, ValueError, KeyError, StopIteration) as error:
                _fail(f"cannot compare with {check}: {error}")
            if differences:
                _fail(f"{data} differs from {check}: {'; '.join(differences)}")
            typer.echo(plain(f"{data} and its splits are those of {check}"))
            return
        text = json.dumps(splits_of(source, seeds, queries), separators=(",", ":")).replace('],"', '],\n"') + "\n"
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_output(out, [text.encode()], overwrite=overwrite)


def _run(name: str, source: Source, settings: Settings, folder: Path, report: Path, retry: bool, quiet: bool) -> None:
    from dlfh.bench.run import run_experiment
    from dlfh.bench.tables import ReportTable

    sections = run_experiment(name, source, settings, folder, report=report, show=not quiet, retry=retry)
    if not quiet:
        for section in sections:
            tables = [block for block in section.blocks if isinstance(block, ReportTable)]
            if tables and section.key != "seconds":
                typer.echo(plain_lines(tables[0].to_text()))
    typer.echo(plain(f"report: {report / name}.html"))


def _settings(data: str, file: Path | None, flags: dict[str, Any]) -> Settings:
    from dlfh.bench.settings import Settings

    usual = Settings.usual(data)
    return (usual if file is None else Settings.read(file, usual)).changed(**flags)


def _load(data: str, file: Path | None, points: int | None) -> Source:
    from dlfh.bench.sources import load_source

    return load_source(data, file, n_points=points)


def _folder(data: str) -> Path:
    return Path(f"bench-{Path(data).stem.replace(':', '-')}")


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str | None, flag: str) -> tuple[int, ...] | None:
    words = _words(text)
    if words is None:
        return None
    if not all(word.isdecimal() for word in words):
        _fail(f"{flag} must be whole numbers with commas between them, such as 16,32, got {text!r}")
    return tuple(map(int, words))


def _fail(sentence: str) -> None:
    from dlfh.errors import InputError

    raise InputError(sentence)


@contextmanager
def _resumable() -> Iterator[None]:
    """Say, when a run is interrupted, that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("dlfh: stopped; run the same command again to go on", err=True)
        raise typer.Exit(130) from None
