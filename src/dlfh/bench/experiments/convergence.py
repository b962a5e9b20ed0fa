"""Figure 1 of the paper: objective and MAP by iteration, full and stochastic."""

from __future__ import annotations

import itertools

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section, Study

SOLVERS = ("full", "stochastic")


def iterations(last: int) -> list[int]:
    """Return the iterations at which MAP is measured, ever further apart."""
    candidates = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30, *range(40, last, 10)]
    return sorted({*(each for each in candidates if each < last), last})


def _cell(plan: Plan, solver: str, bits: int, iteration: int) -> Cell:
    label = "DLFH paper" if "DLFH paper" in plan.settings.parameters else "DLFH"
    # The same seed repeats the same iterations, so stopping after t of them shows the state at t.
    changed = {"solver": solver, "max_iter": iteration, "track_objective": True}
    return plan.cell(plan.settings.row(label), bits, 0, size=plan.settings.convergence.size, changed=changed)


def _cells(plan: Plan) -> list[Cell]:
    settings = plan.settings.convergence
    lengths_and_solvers = itertools.product(settings.bits, SOLVERS)
    return [_cell(plan, each, bits, t) for bits, each in lengths_and_solvers for t in iterations(settings.iterations)]


def _sections(study: Study) -> list[Section]:
    panels: list[Panel] = []
    decreases, ends = [], []
    for bits in study.settings.convergence.bits:
        objective, accuracy = [], []
        for colour, solver in zip((2, 3), SOLVERS, strict=True):
            trace = _objective(study, solver, bits)
            objective.append(Line(solver, tuple(map(float, range(len(trace)))), tuple(trace), colour, markers=False))
            if solver == "full":
                decreases += [after < before for before, after in itertools.pairwise(trace)]
            accuracy += _map_lines(study, solver, bits)
        if all(line.y for line in (*objective, *accuracy)):
            values = ", ".join(f"{line.label} {line.y[-1]:.3g}" for line in objective)
            maps = ", ".join(f"{line.label} {line.y[-1]:.3f}" for line in accuracy)
            ends.append(f"With {bits} bits, the final log-likelihood is: {values}; the final MAP: {maps}.")
        panels += [
            Panel(f"Objective, {bits} bits", "iteration", "log-likelihood", tuple(objective)),
            Panel(f"MAP, {bits} bits", "iteration", "MAP, learned", tuple(accuracy)),
        ]
    size = min(study.settings.convergence.size, study.n_train())
    verdict = "was not measured" if not decreases else "decreases" if any(decreases) else "never decreases"
    paragraphs = (
        f"DLFH in the paper's setting on {size:,} training points of {study.source.name}. The full solver's objective "
        f"{verdict}.",
        "The full solver stops when no bit changes; from there on, its lines are level.",
        *ends,
    )
    figure = LineFigure("convergence", "Objective and MAP by iteration, full and stochastic", tuple(panels))
    return [Section("convergence", "Convergence", paragraphs, (figure,))]


def _objective(study: Study, solver: str, bits: int) -> list[float]:
    """Return the objective by iteration, extended by its last value if the solver stopped early."""
    last = study.settings.convergence.iterations
    trace = study.results[_cell(study, solver, bits, last)].values.get("objective", [])
    return [*trace, *([trace[-1]] * (last + 1 - len(trace)) if trace else [])]


def _map_lines(study: Study, solver: str, bits: int) -> list[Line]:
    lines = []
    for colour, direction in enumerate(study.directions):
        points = []
        for iteration in iterations(study.settings.convergence.iterations):
            scores = study.results[_cell(study, solver, bits, iteration)].scores("learned", direction)
            if scores is not None:
                points.append((float(iteration), scores["map"]))
        x, y = zip(*points, strict=True) if points else ((), ())
        lines.append(Line(f"{direction}, {solver}", x, y, colour, "-" if solver == "full" else "--"))
    return lines


CONVERGENCE = Experiment("convergence", "Objective and MAP by iteration, full and stochastic", _cells, _sections)
