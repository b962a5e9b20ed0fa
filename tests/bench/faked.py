"""Invented results of runs, and a small figure."""

from __future__ import annotations

from dlfh.bench.cells import Cell, Result
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Plan


def faked(plan: Plan, experiment: str) -> dict[Cell, Result]:
    """Return the same invented result for every cell of an experiment."""
    score = {
        "map": 0.5,
        "map_at": 0.6,
        "precision_at": 0.7,
        "ndcg_at": 0.8,
        "exact_at": 0.2,
        "asymmetric_map": 0.55,
        "ranks": [1, 9],
        "precision": [1, 0.1],
        "recall": [0, 1],
    }
    protocols = {name: dict.fromkeys(plan.directions, score) for name in plan.settings.protocols}
    result = Result({"protocols": protocols}, {"fit": 2.0, "total": 3.0, "processor": 1.0, "peak_bytes": 10**9})
    return dict.fromkeys(EXPERIMENTS[experiment].cells(plan), result)


def figure() -> LineFigure:
    lines = (Line("DLFH", (1, 10, 100), (0.5, 0.6, 0.7)), Line("SCM", (1, 10, 100), (0.4, 0.5, 0.6), 9))
    return LineFigure(
        "sweep", "MAP against λ", (Panel("a", "λ", "MAP", lines, log_x=True), Panel("b", "m", "MAP", lines))
    )
