"""Figure 2 of the paper: MAP against the scale λ and the number m of sampled points."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section, Study
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
    seeds = plan.seeds(row)
    return {
        float(value): [plan.cell(row, settings.bits, seed, size=size, changed={parameter: value}) for seed in seeds]
        for value in values
    }


def _cells(plan: Plan) -> list[Cell]:
    by_value = (_by_value(plan, row, parameter) for row in _rows(plan) for parameter in _SYMBOLS)
    return [cell for each in by_value for cells in each.values() for cell in cells]


def _sections(study: Study) -> list[Section]:
    bits = study.settings.sensitivity.bits
    figures = []
    for protocol in study.settings.protocols:
        panels = tuple(_panel(study, parameter, protocol) for parameter in _SYMBOLS)
        if any(line.x for panel in panels for line in panel.lines):  # unless no row supports the protocol
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
            style = _STYLES[i % len(_STYLES)]
            lines.append(Line(f"{row.label}, {direction}", tuple(points), tuple(points.values()), colour, style))  # type: ignore[arg-type]
    return Panel(f"MAP against {symbol}", f"{symbol} ({parameter})", f"MAP, {protocol}", tuple(lines), log_x=True)


def _good_ranges(study: Study, row: Row, protocol: str) -> str:
    """Describe where each parameter is best, and the range around it that is nearly as good."""
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


SENSITIVITY = Experiment("sensitivity", "MAP against λ and m", _cells, _sections)
