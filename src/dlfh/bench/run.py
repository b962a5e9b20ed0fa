"""One run of an experiment: load, compute what is missing, write the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dlfh.bench.cache import Cache, check_folder, make_folder
from dlfh.bench.cells import Cell
from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.figures import check_can_draw
from dlfh.bench.measure import build
from dlfh.bench.plan import Plan, Section
from dlfh.bench.report import write_report
from dlfh.bench.runner import Limits, Runner
from dlfh.bench.settings import Settings
from dlfh.errors import InputError

__all__ = ["check_cells", "limits_of", "run_experiment"]


def run_experiment(
    name: str,
    source: Source,
    settings: Settings,
    folder: Path,
    *,
    report: Path | None = None,
    show: bool = False,
    retry: bool = False,
) -> list[Section]:
    """Compute an experiment and write its report.

    Parameters
    ----------
    name : {"map", "time", "convergence", "sensitivity", "curves", "paper"}
    source : Source
    settings : Settings
    folder : path
        Of the results. Those that are there already are not computed again.
    report : path, optional
        Folder of the report, if it is to be another.
    show : bool
        Whether to show progress.
    retry : bool
        Whether to compute again what failed before.

    Returns
    -------
    list of Section
        What the report shows.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}, but {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    plan = Plan(source, settings)
    limits, cells = limits_of(settings), experiment.cells(plan)
    limits.n_workers()  # what is wrong is said before there is a folder
    check_cells(source, cells)
    if experiment.draws:
        check_can_draw()
    shown_in = report or folder
    check_folder(folder)
    make_folder(shown_in)
    cache = Cache(folder)
    results = Runner(cache, limits, show=show, retry=retry).run(source, cells)
    sections = write_report(shown_in, experiment, plan, results)
    failures = [result.failure for _, result in results.items()]
    if failures and all(failures):
        raise InputError(f"nothing could be measured: {failures[0]}")
    return sections


def check_cells(source: Source, cells: Iterable[Cell]) -> None:
    """Raise InputError for parameters that a method refuses, or splits that leave too few points."""
    for deal in {cell.deal: None for cell in cells}:
        source.check(deal)
    for cell in {(cell.method, cell.parameters, cell.bits): cell for cell in cells}.values():
        try:
            build(cell, 1).check_parameters()
        except InputError as error:
            raise InputError(f"{cell.method}: {error}") from None


def limits_of(settings: Settings) -> Limits:
    """Return what the settings allow a run to use."""
    return Limits(settings.jobs, settings.threads, settings.memory_gb, settings.cell_minutes)
