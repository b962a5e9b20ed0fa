"""Figure 2 of the paper: MAP against the scale λ and the number m of sampled points."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Results, Section
from dlfh.bench.settings import Row

_SYMBOLS = {"scale": "λ", "sample_size": "m"}

_STYLES = ("-", "--", ":")

#: Values whose MAP is at most this share below the best are reported as good.
_TOLERANCE = 0.05


def _is_full(row: Row) -> bool:
    """Return whether a row has the full solver, which samples nothing and learns from few points."""
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
    return {
        float(value): [
            plan.cell(row, settings.bits, seed, size=size, changed={parameter: value}) for seed in plan.seeds(row)
        ]
        for value in values
    }


def _cells(plan: Plan) -> list[Cell]:
    return [
        cell
        for row in _rows(plan)
        for parameter in _SYMBOLS
        for cells in _by_value(plan, row, parameter).values()
        for cell in cells
    ]


def _sections(plan: Plan, results: Results) -> list[Section]:
    bits = plan.settings.sensitivity.bits
    figures = []
    for protocol in plan.settings.protocols:
        panels = tuple(_panel(plan, results, parameter, protocol) for parameter in _SYMBOLS)
        if any(line.x for panel in panels for line in panel.lines):  # unless no row supports the protocol
            title = f"MAP against λ and m on {plan.source.name}, {bits} bits, {protocol} database"
            figures.append(LineFigure(f"sensitivity-{protocol}", title, panels))
    size = min(plan.settings.convergence.size, plan.n_train())
    notes = (
        f"{row.label}{f', on {size:,} training points' if _is_full(row) else ''}: {note}."
        for row in _rows(plan)
        if (note := row.footnote(plan.n_train()))
    )
    ranges = (
        f"Database {protocol}, mean over directions: {'; '.join(good)}."
        for protocol in plan.settings.protocols
        if (good := [text for row in _rows(plan) if (text := _good_ranges(plan, results, row, protocol))])
    )
    runs = "One run" if plan.settings.seeds == 1 else f"Means over {plan.settings.seeds} runs"
    paragraphs = (f"{runs}; all parameters but λ or m have their values from the settings.", *notes, *ranges)
    return [Section("sensitivity", "Sensitivity", paragraphs, tuple(figures))]


def _panel(plan: Plan, results: Results, parameter: str, protocol: str) -> Panel:
    symbol = _SYMBOLS[parameter]
    lines = []
    for i, row in enumerate(_rows(plan)):
        for colour, direction in enumerate(plan.directions):
            points = _points(plan, results, row, parameter, direction, protocol)
            style = _STYLES[i % len(_STYLES)]
            lines.append(Line(f"{row.label}, {direction}", tuple(points), tuple(points.values()), colour, style))  # type: ignore[arg-type]
    return Panel(f"MAP against {symbol}", f"{symbol} ({parameter})", f"MAP, {protocol}", tuple(lines), log_x=True)


def _good_ranges(plan: Plan, results: Results, row: Row, protocol: str) -> str:
    """Describe where each parameter is best, and the range around it that is nearly as good."""
    descriptions = []
    for parameter, symbol in _SYMBOLS.items():
        lines = [_points(plan, results, row, parameter, direction, protocol) for direction in plan.directions]
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


def _points(
    plan: Plan, results: Results, row: Row, parameter: str, direction: str, protocol: str
) -> dict[float, float]:
    """Return MAP by value of a parameter, mean over seeds."""
    points = {}
    for value, cells in _by_value(plan, row, parameter).items():
        maps = [scores["map"] for cell in cells if (scores := results[cell].scores(protocol, direction)) is not None]
        if maps:
            points[value] = sum(maps) / len(maps)
    return points


SENSITIVITY = Experiment("sensitivity", "MAP against λ and m", _cells, _sections)
