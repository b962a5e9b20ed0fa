"""Run an experiment: compute what is missing and write the report."""

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
from dlfh.bench.runner import Runner, n_workers
from dlfh.bench.settings import Settings
from dlfh.errors import InputError


def run_experiment(
    name: str,
    source: Source,
    settings: Settings,
    cache: Path,
    report: Path,
    *,
    show: bool = False,
    retry: bool = False,
) -> list[Section]:
    """Compute the cells of an experiment that are not cached, and write its report.

    Parameters
    ----------
    name : str
        A key of `EXPERIMENTS`.
    source : Source
    settings : Settings
    cache, report : path
        Folders of the results and of the report.
    show : bool
        Whether to show progress.
    retry : bool
        Whether to repeat cells that failed.
    """
    experiment = EXPERIMENTS[name]
    plan = Plan(source, settings)
    cells = experiment.cells(plan)
    n_workers(settings)  # reject invalid settings before creating a folder
    check_cells(source, cells)
    if experiment.draws:
        check_can_draw()
    check_folder(cache)
    make_folder(report)
    results = Runner(Cache(cache), settings, show=show, retry=retry).run(source, cells)
    sections = write_report(report, experiment, plan, results)
    failures = [result.failure for result in results.values()]
    if failures and all(failures):
        raise InputError(f"every computation failed: {failures[0]}")
    return sections


def check_cells(source: Source, cells: Iterable[Cell]) -> None:
    """Raise InputError for parameters that a method refuses, or splits that leave too few points."""
    for split in {cell.split: None for cell in cells}:
        source.check(split)
    for cell in {(cell.method, cell.parameters, cell.bits): cell for cell in cells}.values():
        try:
            build(cell, 1).check_parameters()
        except InputError as error:
            raise InputError(f"{cell.method}: {error}") from None
