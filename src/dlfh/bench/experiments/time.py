"""Table 2 of the paper: training time by method and number of points."""

from __future__ import annotations

from dataclasses import replace

from dlfh.bench.cells import Cell
from dlfh.bench.plan import Experiment, Plan, Section, Study
from dlfh.bench.published import published, published_seconds
from dlfh.bench.settings import Row
from dlfh.bench.tables import ReportTable, Summary, TableRow

#: Numbers of training points in the paper, which ends with the whole training set of NUS-WIDE.
_PAPER_SIZES = (1000, 5000, 10_000, 50_000, 100_000)


def sizes(plan: Plan) -> list[int]:
    """Return the numbers of training points: those of the settings or the paper, or fractions of small data."""
    n_train = plan.n_train()
    if plan.settings.time.sizes:
        return sorted({min(size, n_train) for size in plan.settings.time.sizes})
    if n_train < 2 * _PAPER_SIZES[0]:
        return [n_train // 4, n_train // 2, n_train]
    return [*(size for size in _PAPER_SIZES if size < n_train), n_train]


def _cell(plan: Plan, row: Row, size: int) -> Cell:
    fit = plan.cell(row, plan.settings.time.bits, 0, size)
    return replace(fit, kind="time", k=Cell.k, train_points=None)


def _cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, row, size) for row in _rows(plan) for size in sizes(plan)]


def _rows(plan: Plan) -> list[Row]:
    return [row for row in plan.settings.rows() if row.codes is None]


def _sections(study: Study) -> list[Section]:
    bits = study.settings.time.bits
    seconds: list[TableRow] = []
    for row in _rows(study):
        seconds.append(_row(study, row, "fit", 1.0))
        paper = [published_seconds(study.source, row.label, size) for size in sizes(study)]
        if any(value is not None for value in paper):
            seconds.append(TableRow(row.label, tuple(Summary(value, None, 1) for value in paper), published=True))
    memory = [_row(study, row, "peak_bytes", 1e9) for row in _rows(study)]
    machine = published()["paper"]["machine"]
    remark = f"Published: from the paper, on real data and {machine}; the code length is not stated."
    remarks = (remark,) if any(row.published for row in seconds) else ()
    columns = tuple(("training points", f"{size:,}") for size in sizes(study))
    title = f"Training time in seconds on {study.source.name}, {bits} bits"
    tables = (
        ReportTable("time", title, columns, tuple(seconds), digits=2, remarks=remarks),
        ReportTable("memory", f"Peak memory in GB, data included, {bits} bits", columns, tuple(memory), digits=2),
    )
    paragraph = (
        "Each fit runs alone on all cores. Times include hash functions but not compilation, which a first fit on a "
        "few points triggers."
    )
    return [Section("time", "Training time", (paragraph,), tables, varies=True)]


def _row(study: Study, row: Row, measure: str, unit: float) -> TableRow:
    entries = []
    for result in (study.results[_cell(study, row, size)] for size in sizes(study)):
        value = result.times.get(measure)
        number = None if value is None else value / unit
        entries.append(Summary(number, runs=int(value is not None), note=result.failure or ""))
    return TableRow(row.title, tuple(entries), replace(row, train_points=None, seeds=None).footnote(0))


TIME = Experiment("time", "Training time by method and number of points", _cells, _sections, draws=False)
