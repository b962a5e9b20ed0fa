"""Figures 1 and 2 of the paper: objective and MAP by iteration, and MAP against the parameters λ and m."""

from __future__ import annotations

import itertools

from dlfh.bench.cells import Cell
from dlfh.bench.figures import STYLES, Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section, Study
from dlfh.bench.settings import Row

SOLVERS = ("full", "stochastic")
_SYMBOLS = {"scale": "λ", "sample_size": "m"}
_TOLERANCE = 0.05  # a value is reported as good if its MAP is at most this share below the best


def iterations(last: int) -> list[int]:
    """Return the iterations at which MAP is measured, at increasing intervals."""
    candidates = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30, *range(40, last, 10)]
    return sorted({*(each for each in candidates if each < last), last})


def _cell(plan: Plan, solver: str, bits: int, iteration: int) -> Cell:
    label = "DLFH paper" if "DLFH paper" in plan.settings.parameters else "DLFH"
    # Equal seeds give equal iterations, so a fit that stops after t iterations shows the state of a longer fit at t.
    changed = {"solver": solver, "max_iter": iteration, "track_objective": True}
    return plan.cell(plan.settings.row(label), bits, 0, size=plan.settings.convergence.size, changed=changed)


def _convergence_cells(plan: Plan) -> list[Cell]:
    settings = plan.settings.convergence
    lengths_and_solvers = itertools.product(settings.bits, SOLVERS)
    return [_cell(plan, each, bits, t) for bits, each in lengths_and_solvers for t in iterations(settings.iterations)]


def _convergence_sections(study: Study) -> list[Section]:
    panels: list[Panel] = []
    decreases, ends = [], []
    last = study.settings.convergence.iterations
    for bits in study.settings.convergence.bits:
        objective, accuracy = [], []
        for colour, solver in zip((2, 3), SOLVERS, strict=True):
            trace = study.results[_cell(study, solver, bits, last)].values.get("objective", [])
            trace = [*trace, *trace[-1:] * (last + 1 - len(trace))]  # the solver may stop early
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


CONVERGENCE = Experiment(
    "convergence", "Objective and MAP by iteration, full and stochastic", _convergence_cells, _convergence_sections
)


def _is_full(row: Row) -> bool:
    """Return whether a row uses the full solver, which has no sample size and is slow, so it learns from few points."""
    return row.parameters.get("solver") == "full"


def _rows(plan: Plan) -> list[Row]:
    return [plan.settings.row(label) for label in plan.settings.sensitivity.rows]


def _by_value(plan: Plan, row: Row, parameter: str) -> dict[float, list[Cell]]:
    """Return the cells of a row by value of a parameter, one for each seed."""
    settings = plan.settings.sensitivity
    values: list[float] = list(settings.scales)
    if parameter == "sample_size":
        values = [] if _is_full(row) else [each for each in settings.samples if each <= plan.n_train()]
    size = plan.settings.convergence.size if _is_full(row) else None
    seeds = plan.seeds(row)
    return {
        float(value): [plan.cell(row, settings.bits, seed, size=size, changed={parameter: value}) for seed in seeds]
        for value in values
    }


def _sensitivity_cells(plan: Plan) -> list[Cell]:
    by_value = (_by_value(plan, row, parameter) for row in _rows(plan) for parameter in _SYMBOLS)
    return [cell for each in by_value for cells in each.values() for cell in cells]


def _sensitivity_sections(study: Study) -> list[Section]:
    bits = study.settings.sensitivity.bits
    figures = []
    for protocol in study.settings.protocols:
        panels = tuple(_panel(study, parameter, protocol) for parameter in _SYMBOLS)
        if any(line.x for panel in panels for line in panel.lines):  # if any row supports the protocol
            title = f"MAP against λ and m on {study.source.name}, {bits} bits, {protocol} database"
            figures.append(LineFigure(f"sensitivity-{protocol}", title, panels))
    size = min(study.settings.convergence.size, study.n_train())
    notes = (
        f"{row.label}{f', on {size:,} training points' if _is_full(row) else ''}: {note}."
        for row in _rows(study)
        if (note := row.footnote(study.n_train()))
    )
    ranges = (
        f"Database {protocol}, mean over directions: {'; '.join(good)}."
        for protocol in study.settings.protocols
        if (good := [text for row in _rows(study) if (text := _good_ranges(study, row, protocol))])
    )
    runs = "One run" if study.settings.seeds == 1 else f"Means over {study.settings.seeds} runs"
    paragraphs = (f"{runs}; all parameters but λ or m have their values from the settings.", *notes, *ranges)
    return [Section("sensitivity", "Sensitivity", paragraphs, tuple(figures))]


def _panel(study: Study, parameter: str, protocol: str) -> Panel:
    symbol = _SYMBOLS[parameter]
    lines = []
    for i, row in enumerate(_rows(study)):
        for colour, direction in enumerate(study.directions):
            points = _points(study, row, parameter, direction, protocol)
            style = STYLES[i % len(STYLES)]
            lines.append(Line(f"{row.label}, {direction}", tuple(points), tuple(points.values()), colour, style))  # type: ignore[arg-type]
    return Panel(f"MAP against {symbol}", f"{symbol} ({parameter})", f"MAP, {protocol}", tuple(lines), log_x=True)


def _good_ranges(study: Study, row: Row, protocol: str) -> str:
    """Describe the best value of each parameter, and the range around it that is nearly as good."""
    descriptions = []
    for parameter, symbol in _SYMBOLS.items():
        lines = [_points(study, row, parameter, direction, protocol) for direction in study.directions]
        means = {value: sum(line[value] for line in lines) / len(lines) for value in lines[0]}
        if not means:
            continue
        values, best = list(means), max(means, key=lambda value: means[value])
        good = [means[value] >= (1 - _TOLERANCE) * means[best] for value in values]
        low = high = values.index(best)
        while low and good[low - 1]:
            low -= 1
        while high + 1 < len(values) and good[high + 1]:
            high += 1
        around = f"from {values[low]:g} to {values[high]:g}" if low < high else "nowhere else"
        descriptions.append(f"{symbol} = {best:g} (MAP {means[best]:.3f}; within {_TOLERANCE:.0%} of it {around})")
    return f"{row.label} is best at {' and at '.join(descriptions)}" if descriptions else ""


def _points(study: Study, row: Row, parameter: str, direction: str, protocol: str) -> dict[float, float]:
    """Return MAP by value of a parameter, mean over seeds."""
    points = {}
    for value, cells in _by_value(study, row, parameter).items():
        scores = (study.results[cell].scores(protocol, direction) for cell in cells)
        maps = [each["map"] for each in scores if each is not None]
        if maps:
            points[value] = sum(maps) / len(maps)
    return points


SENSITIVITY = Experiment("sensitivity", "MAP against λ and m", _sensitivity_cells, _sensitivity_sections)
