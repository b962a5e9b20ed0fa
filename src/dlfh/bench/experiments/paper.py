"""All experiments of the paper on one data set."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.experiments.convergence import CONVERGENCE
from dlfh.bench.experiments.curves import CURVES
from dlfh.bench.experiments.map import MAP
from dlfh.bench.experiments.sensitivity import SENSITIVITY
from dlfh.bench.experiments.time import TIME
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results

__all__ = ["PAPER"]

_PARTS = (MAP, CURVES, SENSITIVITY, CONVERGENCE, TIME)


def _cells(plan: Plan) -> list[Cell]:
    return [cell for part in _PARTS for cell in part.cells(plan)]


def _sections(plan: Plan, results: Results) -> list[Section]:
    return [section for part in _PARTS for section in part.sections(plan, results)]


PAPER = Experiment("paper", "The paper's experiments", _cells, _sections)
