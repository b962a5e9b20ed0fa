"""Precision-recall and top-N precision curves, from the same cells as the MAP tables."""

from __future__ import annotations

from dlfh.bench.cells import Cell
from dlfh.bench.experiments.map import mean_maps
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.plan import Experiment, Plan, Results, Section
from dlfh.bench.settings import Row


def _bits(plan: Plan) -> int:
    return plan.settings.curves.bits or max(plan.settings.bits)


def _cells(plan: Plan) -> list[Cell]:
    return [cell for row in plan.settings.rows() for cell in plan.cells(row, _bits(plan))]


def _sections(plan: Plan, results: Results) -> list[Section]:
    n_methods = plan.settings.curves.methods
    best = {
        protocol: list(mean_maps(plan, results, _bits(plan), protocol))[:n_methods]
        for protocol in plan.settings.protocols
    }
    figures = tuple(_figure(plan, results, protocol, titles) for protocol, titles in best.items() if titles)
    paragraphs = [f"Means over runs, {_bits(plan)} bits, Hamming ranking."]
    if n_methods < len(plan.settings.rows()):
        paragraphs.append(f"Figures show the {n_methods} methods with the highest MAP in each protocol.")
    return [Section("curves", "Precision and recall", tuple(paragraphs), figures)]


def _figure(plan: Plan, results: Results, protocol: str, titles: list[str]) -> LineFigure:
    panels = []
    rows = {row.title: row for row in plan.settings.rows()}
    for direction in plan.directions:
        curves = {title: _curve(plan, results, rows[title], protocol, direction) for title in titles}
        for kind, x_label, x in (("precision–recall", "recall", "recall"), ("top-N precision", "N", "ranks")):
            lines = tuple(
                Line(title, curve[x], curve["precision"], list(rows).index(title), markers=False)
                for title, curve in curves.items()
            )
            panels.append(Panel(f"{direction}: {kind}", x_label, "precision", lines, log_x=x == "ranks"))
    title = f"Precision–recall and top-N precision on {plan.source.name}, {_bits(plan)} bits, {protocol} database"
    return LineFigure(f"curves-{protocol}", title, tuple(panels))


def _curve(plan: Plan, results: Results, row: Row, protocol: str, direction: str) -> dict[str, tuple[float, ...]]:
    """Return the mean curve over all runs."""
    cells = plan.cells(row, _bits(plan))
    runs = [scores for cell in cells if (scores := results[cell].scores(protocol, direction)) is not None]
    return {
        name: tuple(sum(values) / len(runs) for values in zip(*(run[name] for run in runs), strict=True))
        for name in ("ranks", "precision", "recall")
    }


CURVES = Experiment("curves", "Precision-recall and top-N precision curves", _cells, _sections)
