"""The paper's second figure: MAP against the scale λ, and against the number m of sampled points."""

from __future__ import annotations

from collections.abc import Iterator

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Figure, Line, Panel
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row

__all__ = ["SENSITIVITY"]

#: Up to this share below the best counts as nearly as good.
_NEARLY = 0.05


def _sweeps(plan: Plan) -> dict[str, tuple[float, ...]]:
    chosen = plan.settings.sensitivity
    fits = tuple(float(each) for each in chosen.samples if each <= plan.n_train())
    return {"scale": chosen.scales, "sample_size": fits}


def _cell(plan: Plan, row: Row, parameter: str, value: float, seed: int) -> Cell:
    given = int(value) if parameter == "sample_size" else value
    return plan.cell(row, plan.settings.sensitivity.bits, seed, changed={parameter: given})


def _rows(plan: Plan) -> list[Row]:
    return [plan.settings.row(label) for label in plan.settings.sensitivity.rows]


def _cells(plan: Plan) -> list[Cell]:
    return [
        _cell(plan, row, parameter, value, seed)
        for row in _rows(plan)
        for parameter, values in _sweeps(plan).items()
        for value in values
        for seed in plan.seeds(row)
    ]


def _sections(plan: Plan, results: Results) -> list[Section]:
    names = {"scale": "λ (scale)", "sample_size": "m (sample_size)"}
    bits = plan.settings.sensitivity.bits
    figures = []
    for protocol in plan.settings.protocols:
        panels = [
            Panel(
                f"MAP against {names[parameter]}",
                names[parameter],
                f"MAP, {protocol}",
                tuple(
                    _line(plan, results, row, i, parameter, direction, j, protocol)
                    for i, row in enumerate(_rows(plan))
                    for j, direction in enumerate(plan.directions)
                ),
                log_x=True,
            )
            for parameter in _sweeps(plan)
        ]
        if not any(line.x for panel in panels for line in panel.lines):
            continue  # a protocol that no row has
        figures.append(
            Figure(
                f"sensitivity-{protocol}",
                f"MAP against λ and against m on {plan.source.name}, {bits} bits, {protocol} database",
                tuple(panels),
            )
        )
    notes = (f"{row.label}: {note}." for row in _rows(plan) if (note := row.footnote(plan.n_train())))
    ranges = (
        f"{row.label}, {protocol} database: MAP, mean over directions, {' and '.join(said)}."
        for protocol in plan.settings.protocols
        for row in _rows(plan)
        if (said := [*_good_ranges(plan, results, row, protocol)])
    )
    words = (f"Means over {plan.settings.seeds} runs; everything else as in the tables above.", *notes, *ranges)
    return [Section("sensitivity", "Sensitivity", words, tuple(figures))]


def _good_ranges(plan: Plan, results: Results, row: Row, protocol: str) -> Iterator[str]:
    """Say where each parameter is best, and how far around that nearly as good."""
    for parameter, name in (("scale", "λ"), ("sample_size", "m")):
        lines = [_points(plan, results, row, parameter, direction, protocol) for direction in plan.directions]
        if not lines[0]:
            continue
        means = {value: sum(line[value] for line in lines) / len(lines) for value in lines[0]}
        values = list(means)
        best = max(values, key=lambda value: means[value])
        good = {value for value in values if means[value] >= (1 - _NEARLY) * means[best]}
        low = high = values.index(best)
        while low and values[low - 1] in good:
            low -= 1
        while high + 1 < len(values) and values[high + 1] in good:
            high += 1
        yield (
            f"is highest at {name} = {best:g} ({means[best]:.3f}) and at least {1 - _NEARLY:.0%} of that from "
            f"{values[low]:g} to {values[high]:g}"
        )


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
    return Line(f"{row.label}, {direction}", tuple(points), tuple(points.values()), colour, "--" if style else "-")


def _points(
    plan: Plan, results: Results, row: Row, parameter: str, direction: str, protocol: str
) -> dict[float, float]:
    """Return MAP by value of a parameter, mean over seeds."""
    points = {}
    for value in _sweeps(plan)[parameter]:
        found = [
            result.values["protocols"][protocol][direction]["map"]
            for seed in plan.seeds(row)
            if protocol in (result := results[_cell(plan, row, parameter, value, seed)]).values.get("protocols", {})
        ]
        if found:
            points[value] = sum(found) / len(found)
    return points


SENSITIVITY = Experiment("sensitivity", "MAP against λ and against m", _cells, _sections)
