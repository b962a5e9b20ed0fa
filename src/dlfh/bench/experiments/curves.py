"""Precision-recall and top-N precision curves, from the cells of the table of MAP."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.experiments.map import mean_maps
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row

__all__ = ["CURVES"]


def _bits(plan: Plan) -> int:
    return plan.settings.curves.bits or max(plan.settings.bits)


def _cells(plan: Plan) -> list[Cell]:
    return [plan.cell(row, _bits(plan), seed) for row in plan.settings.rows() for seed in plan.seeds(row)]


def _sections(plan: Plan, results: Results) -> list[Section]:
    figures = [
        _figure(plan, results, protocol)
        for protocol in plan.settings.protocols
        if mean_maps(plan, results, _bits(plan), protocol)
    ]
    n_methods = plan.settings.curves.methods
    words = [f"Means over runs, {_bits(plan)} bits, Hamming ranking."]
    if n_methods < len(plan.settings.methods):
        words.append(f"Figures show the {n_methods} methods of the highest MAP in each protocol.")
    return [Section("curves", "Precision and recall", tuple(words), tuple(figures))]


def _figure(plan: Plan, results: Results, protocol: str) -> LineFigure:
    best = list(mean_maps(plan, results, _bits(plan), protocol))[: plan.settings.curves.methods]
    rows = [plan.settings.row(label) for label in best]
    panels = []
    for direction in plan.directions:
        curves = {row.label: _curve(plan, results, row, protocol, direction) for row in rows}
        panels += [
            Panel(
                f"{direction}: {title}",
                x_label,
                "precision",
                tuple(
                    Line(label, curve[x], curve["precision"], plan.settings.methods.index(label), markers=False)
                    for label, curve in curves.items()
                ),
                log_x=x == "ranks",
            )
            for title, x_label, x in (("precision–recall", "recall", "recall"), ("top-N precision", "N", "ranks"))
        ]
    return LineFigure(
        f"curves-{protocol}",
        f"Precision–recall and top-N precision on {plan.source.name}, {_bits(plan)} bits, {protocol} database",
        tuple(panels),
    )


def _curve(plan: Plan, results: Results, row: Row, protocol: str, direction: str) -> dict[str, tuple[float, ...]]:
    cells = (plan.cell(row, _bits(plan), seed) for seed in plan.seeds(row))
    found = [scores for cell in cells if (scores := results.scores(cell, protocol, direction)) is not None]
    return {
        name: tuple(sum(values) / len(found) for values in zip(*(each[name] for each in found), strict=True))
        for name in ("ranks", "precision", "recall")
    }


CURVES = Experiment("curves", "Precision-recall and top-N precision curves", _cells, _sections)
