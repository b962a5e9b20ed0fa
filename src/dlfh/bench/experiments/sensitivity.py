"""The paper's second figure: MAP against the scale λ, and against the number m of sampled points."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.figures import Figure, Line, Panel
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row

__all__ = ["SENSITIVITY"]


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
        figures.append(
            Figure(
                f"sensitivity-{protocol}",
                f"MAP against λ and against m on {plan.source.name}, {bits} bits, {protocol} database",
                tuple(panels),
            )
        )
    notes = tuple(f"{row.label}: {note}." for row in _rows(plan) if (note := row.footnote(plan.n_train())))
    words = (f"Means over {plan.settings.seeds} runs; everything else as in the tables above.", *notes)
    return [Section("sensitivity", "Sensitivity", words, tuple(figures))]


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
    points = []
    for value in _sweeps(plan)[parameter]:
        found = [
            result.values["protocols"][protocol][direction]["map"]
            for seed in plan.seeds(row)
            if protocol in (result := results[_cell(plan, row, parameter, value, seed)]).values.get("protocols", {})
        ]
        if found:
            points.append((value, sum(found) / len(found)))
    x, y = zip(*points, strict=True) if points else ((), ())
    return Line(f"{row.label}, {direction}", x, y, colour, "--" if style else "-")


SENSITIVITY = Experiment("sensitivity", "MAP against λ and against m", _cells, _sections)
