"""The experiments: each lists the cells that it needs, and turns their results into sections."""

from __future__ import annotations

from pathlib import Path

from dlfh.bench.cells import Cache, check_folder, make_folder
from dlfh.bench.data import Source
from dlfh.bench.experiments.paper_figures import CONVERGENCE, SENSITIVITY
from dlfh.bench.experiments.paper_tables import CURVES, MAP, TIME
from dlfh.bench.figures import check_can_draw
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.report import write_report
from dlfh.bench.runner import Runner, n_workers
from dlfh.bench.settings import Settings
from dlfh.errors import InputError

_PAPER = (MAP, CURVES, SENSITIVITY, CONVERGENCE, TIME)
PAPER = Experiment(
    "paper",
    "The paper's experiments",
    lambda plan: [cell for part in _PAPER for cell in part.cells(plan)],
    lambda study: [section for part in _PAPER for section in part.report(study)],
)
#: The experiments by name.
EXPERIMENTS = {each.name: each for each in (MAP, TIME, CONVERGENCE, SENSITIVITY, CURVES, PAPER)}


def run_experiment(
    name: str, source: Source, settings: Settings, cache: Path, report: Path, *, show: bool = False, retry: bool = False
) -> list[Section]:
    """Compute the cells of an experiment that are not cached, with ``retry`` also failed ones, and write its report."""
    experiment, plan = EXPERIMENTS[name], Plan(source, settings)
    cells = experiment.cells(plan)
    n_workers(settings)  # reject invalid settings before creating a folder
    plan.check(cells)
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
