"""One file per experiment: which cells it needs, and what it makes of their results."""

from dlfh.bench.experiments.convergence import CONVERGENCE
from dlfh.bench.experiments.curves import CURVES
from dlfh.bench.experiments.map import MAP
from dlfh.bench.experiments.paper import PAPER
from dlfh.bench.experiments.sensitivity import SENSITIVITY
from dlfh.bench.experiments.time import TIME

__all__ = ["EXPERIMENTS"]

#: The experiments by name.
EXPERIMENTS = {each.name: each for each in (MAP, TIME, CONVERGENCE, SENSITIVITY, CURVES, PAPER)}
