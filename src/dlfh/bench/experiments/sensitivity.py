"""The paper's second figure: MAP against the scale λ, and against the number m of sampled points."""

from __future__ import annotations

from typing import Literal

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row

__all__ = ["SENSITIVITY"]

_NAMES = {"scale": "λ", "sample_size": "m"}

_STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")

#: Up to this share below the best counts as nearly as good.
_NEARLY = 0.05


def _is_full(row: Row) -> bool:
    """Return whether a row's solver sees all pairs: it samples nothing, and cannot learn from many points."""
    return row.parameters.get("solver") == "full"


def _sweep(plan: Plan, row: Row, parameter: str) -> tuple[float, ...]:
    """Return the values of a parameter that a row is tried with."""
    chosen = plan.settings.sensitivity
    if parameter == "scale":
        return chosen.scales
    return () if _is_full(row) else tuple(float(each) for each in chosen.samples if each <= plan.n_train())


def _cell(plan: Plan, row: Row, parameter: str, value: float, seed: int) -> Cell:
    given = int(value) if parameter == "sample_size" else value
    size = plan.settings.convergence.size if _is_full(row) else None
    return plan.cell(row, plan.settings.sensitivity.bits, seed, size=size, changed={parameter: given})


def _rows(plan: Plan) -> list[Row]:
    return [plan.settings.row(label) for label in plan.settings.sensitivity.rows]


def _cells(plan: Plan) -> list[Cell]:
    return [
        _cell(plan, row, parameter, value, seed)
        for row in _rows(plan)
        for parameter in _NAMES
        for value in _sweep(plan, row, parameter)
        for seed in plan.seeds(row)
    ]


def _sections(plan: Plan, results: Results) -> list[Section]:
    bits = plan.settings.sensitivity.bits
    figures = []
    for protocol in plan.settings.protocols:
        panels = [
            Panel(
                f"MAP against {name}",
                f"{name} ({parameter})",
                f"MAP, {protocol}",
                tuple(
                    _line(plan, results, row, i, parameter, direction, j, protocol)
                    for i, row in enumerate(_rows(plan))
                    for j, direction in enumerate(plan.directions)
                ),
                log_x=True,
            )
            for parameter, name in _NAMES.items()
        ]
        if not any(line.x for panel in panels for line in panel.lines):
            continue  # a protocol that no row has
        figures.append(
            LineFigure(
                f"sensitivity-{protocol}",
                f"MAP against λ and against m on {plan.source.name}, {bits} bits, {protocol} database",
                tuple(panels),
            )
        )
    size = min(plan.settings.convergence.size, plan.n_train())
    notes = (
        f"{row.label}{f', on {size:,} training points' if _is_full(row) else ''}: {note}."
        for row in _rows(plan)
        if (note := row.footnote(plan.n_train()))
    )
    ranges = (
        f"Database {protocol}, mean over directions: {'; '.join(said)}."
        for protocol in plan.settings.protocols
        if (said := [each for row in _rows(plan) if (each := _good_ranges(plan, results, row, protocol))])
    )
    runs = "One run" if plan.settings.seeds == 1 else f"Means over {plan.settings.seeds} runs"
    words = (f"{runs}; everything but λ or m is as the settings say.", *notes, *ranges)
    return [Section("sensitivity", "Sensitivity", words, tuple(figures))]


def _good_ranges(plan: Plan, results: Results, row: Row, protocol: str) -> str:
    """Say where each parameter is best, and how far around that it is nearly as good."""
    said = []
    for parameter, name in _NAMES.items():
        lines = [_points(plan, results, row, parameter, direction, protocol) for direction in plan.directions]
        means = {value: sum(line[value] for line in lines) / len(lines) for value in lines[0]}
        if not means:
            continue
        values, best = list(means), max(means, key=lambda value: means[value])
        good = [means[value] >= (1 - _NEARLY) * means[best] for value in values]
        low = high = values.index(best)
        while low and good[low - 1]:
            low -= 1
        while high + 1 < len(values) and good[high + 1]:
            high += 1
        around = f"from {values[low]:g} to {values[high]:g}" if low < high else "nowhere else"
        said.append(f"{name} = {best:g} (MAP {means[best]:.3f}; within {_NEARLY:.0%} of it {around})")
    return f"{row.label} is best at {' and at '.join(said)}" if said else ""


def _line(
    plan: Plan,
    results: Results,
    row: Row,
    style: int,
    parameter: str,
    direction: str,
    colour: int,
    protocol: str,
) -> Line:
    points = _points(plan, results, row, parameter, direction, protocol)
    return Line(
        f"{row.label}, {direction}", tuple(points), tuple(points.values()), colour, _STYLES[style % len(_STYLES)]
    )


def _points(
    plan: Plan, results: Results, row: Row, parameter: str, direction: str, protocol: str
) -> dict[float, float]:
    """Return MAP by value of a parameter, mean over seeds."""
    points = {}
    for value in _sweep(plan, row, parameter):
        cells = (_cell(plan, row, parameter, value, seed) for seed in plan.seeds(row))
        found = [scores["map"] for cell in cells if (scores := results.scores(cell, protocol, direction)) is not None]
        if found:
            points[value] = sum(found) / len(found)
    return points


SENSITIVITY = Experiment("sensitivity", "MAP against λ and against m", _cells, _sections)
