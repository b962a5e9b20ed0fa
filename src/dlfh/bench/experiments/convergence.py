"""The paper's first figure: objective and MAP by iteration, full and stochastic."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row

__all__ = ["CONVERGENCE", "iterations"]

SOLVERS = ("full", "stochastic")


def iterations(last: int) -> list[int]:
    """Return the iterations at which MAP is measured: all of the first, then fewer.

    Examples
    --------
    >>> iterations(30)
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30]
    """
    usual = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30, *range(40, last, 10)]
    return sorted({*(each for each in usual if each < last), last})


def _row(plan: Plan) -> Row:
    """Return the paper's setting, from the settings if they have it."""
    label = "DLFH paper"
    return plan.settings.row(label if label in plan.settings.parameters else "DLFH")


def _cell(plan: Plan, solver: str, bits: int, iteration: int) -> Cell:
    # The same seed gives the same iterations, so stopping after t of them shows the state at t.
    return plan.cell(
        _row(plan),
        bits,
        0,
        size=plan.settings.convergence.size,
        changed={"solver": solver, "max_iter": iteration, "track_objective": True},
    )


def _cells(plan: Plan) -> list[Cell]:
    chosen = plan.settings.convergence
    return [
        _cell(plan, solver, bits, iteration)
        for bits in chosen.bits
        for solver in SOLVERS
        for iteration in iterations(chosen.iterations)
    ]


def _sections(plan: Plan, results: Results) -> list[Section]:
    panels = []
    drops = []
    ends: list[str] = []
    for bits in plan.settings.convergence.bits:
        objective, accuracy = [], []
        for i, solver in enumerate(SOLVERS):
            trace = _objective(plan, results, solver, bits)
            objective.append(
                Line(solver, tuple(map(float, range(len(trace)))), tuple(trace), 3 if i else 2, markers=False)
            )
            if solver == "full":
                drops += [after < before for before, after in itertools.pairwise(trace)]
            accuracy += _map_lines(plan, results, solver, bits)
        ends += _end(bits, objective, accuracy)
        panels += [
            Panel(f"Objective, {bits} bits", "iteration", "log-likelihood", tuple(objective)),
            Panel(f"MAP, {bits} bits", "iteration", "MAP, learned", tuple(accuracy)),
        ]
    deal_size = min(plan.settings.convergence.size, plan.n_train())
    words = (
        f"DLFH in the paper's setting on {deal_size:,} training points of {plan.source.name}. " + _verdict(drops),
        "The full solver stops when nothing changes any more; its lines go on level from there.",
        *ends,
    )
    figure = LineFigure("convergence", "Objective and MAP by iteration, full and stochastic", tuple(panels))
    return [Section("convergence", "Convergence", words, (figure,))]


def _verdict(drops: list[bool]) -> str:
    """Say whether the full solver's objective fell from any iteration to the next."""
    if not drops:
        return "The full solver's objective was not measured."
    return "The full solver's objective falls somewhere." if any(drops) else "The full solver's objective never falls."


def _end(bits: int, objective: list[Line], accuracy: list[Line]) -> Iterator[str]:
    """Say where the lines end."""
    if all(line.y for line in (*objective, *accuracy)):
        said = (f"{line.label} {line.y[-1]:.3g}" for line in objective)
        maps = (f"{line.label} {line.y[-1]:.3f}" for line in accuracy)
        yield f"With {bits} bits the log-likelihood ends at: {', '.join(said)}; MAP at: {', '.join(maps)}."


def _objective(plan: Plan, results: Results, solver: str, bits: int) -> list[float]:
    last = plan.settings.convergence.iterations
    trace = results[_cell(plan, solver, bits, last)].values.get("objective", [])
    return [*trace, *([trace[-1]] * (last + 1 - len(trace)) if trace else [])]


def _map_lines(plan: Plan, results: Results, solver: str, bits: int) -> list[Line]:
    lines = []
    for i, direction in enumerate(plan.directions):
        points = []
        for iteration in iterations(plan.settings.convergence.iterations):
            found = results.scores(_cell(plan, solver, bits, iteration), "learned", direction)
            if found is not None:
                points.append((float(iteration), found["map"]))
        x, y = zip(*points, strict=True) if points else ((), ())
        lines.append(Line(f"{direction}, {solver}", x, y, i, "-" if solver == "full" else "--"))
    return lines


CONVERGENCE = Experiment("convergence", "Objective and MAP by iteration, full and stochastic", _cells, _sections)
