"""The experiments: which cells each needs, and the sections it makes of their results."""

from dlfh.bench.experiments.convergence import CONVERGENCE
from dlfh.bench.experiments.curves import CURVES
from dlfh.bench.experiments.map import MAP
from dlfh.bench.experiments.sensitivity import SENSITIVITY
from dlfh.bench.experiments.time import TIME
from dlfh.bench.plan import Experiment

__all__ = ["EXPERIMENTS"]

_PAPER = (MAP, CURVES, SENSITIVITY, CONVERGENCE, TIME)

PAPER = Experiment(
    "paper",
    "The paper's experiments",
    lambda plan: [cell for part in _PAPER for cell in part.cells(plan)],
    lambda plan, results: [section for part in _PAPER for section in part.sections(plan, results)],
)

#: The experiments by name.
EXPERIMENTS = {each.name: each for each in (MAP, TIME, CONVERGENCE, SENSITIVITY, CURVES, PAPER)}
