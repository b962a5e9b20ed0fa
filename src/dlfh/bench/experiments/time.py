"""The paper's second table: training time by method and number of points."""

from __future__ import annotations

from dataclasses import replace

from dlfh.bench.cells import Cell
from dlfh.bench.comparison import published_seconds
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.published import published
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row
from dlfh.bench.tables import Entry, ReportTable, TableRow

__all__ = ["TIME", "sizes"]

#: Numbers of training points in the paper; its last is the whole training set of NUS-WIDE.
_PAPER_SIZES = (1000, 5000, 10_000, 50_000, 100_000)


def sizes(plan: Plan) -> list[int]:
    """Return the numbers of training points: the chosen ones, the paper's, or parts of small data."""
    most = plan.n_train()
    if plan.settings.time.sizes:
        return sorted({min(size, most) for size in plan.settings.time.sizes})
    if most < 2 * _PAPER_SIZES[0]:
        return [most // 4, most // 2, most]
    return [*(size for size in _PAPER_SIZES if size < most), most]


def _cell(plan: Plan, row: Row, size: int) -> Cell:
    return plan.cell(row, plan.settings.time.bits, 0, kind="time", size=size)


def _cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, row, size) for row in plan.settings.rows() for size in sizes(plan)]


def _sections(plan: Plan, results: Results) -> list[Section]:
    words = (
        "Each fit has all cores for itself, hash functions are included, and a first fit on a few points has "
        "compiled everything."
    )
    blocks = (_seconds(plan, results), _memory(plan, results))
    return [Section("time", "Training time", (words,), blocks, varies=True)]


def _columns(plan: Plan) -> tuple[tuple[str, str], ...]:
    return tuple(("training points", f"{size:,}") for size in sizes(plan))


def _row(plan: Plan, results: Results, row: Row, measure: str, unit: float) -> TableRow:
    found = [results[_cell(plan, row, size)] for size in sizes(plan)]
    entries = []
    for result in found:
        value = result.times.get(measure)
        number = None if value is None else value / unit
        entries.append(Entry(number, runs=int(value is not None), note=result.failure or ""))
    return TableRow(row.label, tuple(entries), replace(row, train_points=None, seeds=None).footnote(0))


def _seconds(plan: Plan, results: Results) -> ReportTable:
    rows = []
    for row in plan.settings.rows():
        rows.append(_row(plan, results, row, "fit", 1.0))
        theirs = [published_seconds(plan.source, plan.settings, row.label, size) for size in sizes(plan)]
        if any(value is not None for value in theirs):
            rows.append(TableRow(row.label, tuple(Entry(value, None, 1) for value in theirs), published=True))
    remark = f"Published: the paper's, on real data and {published().machine}; the code length is not stated."
    return ReportTable(
        "time",
        f"Training time in seconds on {plan.source.name}, {plan.settings.time.bits} bits",
        _columns(plan),
        tuple(rows),
        digits=2,
        remarks=(remark,) if any(row.published for row in rows) else (),
    )


def _memory(plan: Plan, results: Results) -> ReportTable:
    return ReportTable(
        "memory",
        f"Peak memory of the process in GB, data included, {plan.settings.time.bits} bits",
        _columns(plan),
        tuple(_row(plan, results, row, "peak_bytes", 1e9) for row in plan.settings.rows()),
        digits=2,
    )


TIME = Experiment("time", "Training time by method and number of points", _cells, _sections, draws=False)
