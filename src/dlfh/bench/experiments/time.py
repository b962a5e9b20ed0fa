"""The paper's second table: training time by method and number of points."""

from __future__ import annotations

from dlfh.bench.beside import published_seconds
from dlfh.bench.cells import Cell
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.published import published
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row
from dlfh.bench.tables import Entry, Table, TableRow

__all__ = ["TIME", "sizes"]

#: Numbers of training points in the paper; its last is the whole training set of NUS-WIDE.
_PAPER_SIZES = (1000, 5000, 10_000, 50_000, 100_000)


def sizes(plan: Plan) -> list[int]:
    """Return the numbers of training points: the chosen ones, the paper's, or parts of small data."""
    most = plan.n_train()
    if plan.settings.time.sizes:
        return sorted({min(size, most) for size in plan.settings.time.sizes})
    of_paper = [size for size in _PAPER_SIZES if size < most]
    return [*of_paper, most] if len(of_paper) > 1 else [most // 4, most // 2, most]


def _rows(plan: Plan) -> list[Row]:
    return plan.settings.rows()


def _cell(plan: Plan, row: Row, size: int) -> Cell:
    return plan.cell(row, plan.settings.time.bits, 0, kind="time", size=size)


def _cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, row, size) for row in _rows(plan) for size in sizes(plan)]


def _sections(plan: Plan, results: Results) -> list[Section]:
    wanted = sizes(plan)
    seconds, peaks = [], []
    for row in _rows(plan):
        found = [results[_cell(plan, row, size)] for size in wanted]
        note = _note(row)
        seconds.append(
            TableRow(
                row.label, tuple(Entry(each.times.get("fit"), None, 1, note=each.failure or "") for each in found), note
            )
        )
        peak = [each.times.get("peak_bytes") for each in found]
        peaks.append(
            TableRow(
                row.label,
                tuple(
                    Entry(None if each is None else each / 1e9, None, 1, note=result.failure or "")
                    for each, result in zip(peak, found, strict=True)
                ),
                note,
            )
        )
        theirs = [published_seconds(plan.source, plan.settings, row.label, size) for size in wanted]
        if any(value is not None for value in theirs):
            seconds.append(TableRow(row.label, tuple(Entry(value, None, 1) for value in theirs), published=True))
    columns = tuple(("training points", f"{size:,}") for size in wanted)
    bits = plan.settings.time.bits
    has_published = any(row.published for row in seconds)
    machine = f"Published: the paper's, on real data and {published().machine}; the code length is not stated."
    remark = machine if has_published else ""
    blocks = (
        Table(
            "time",
            f"Training time in seconds on {plan.source.name}, {bits} bits",
            columns,
            tuple(seconds),
            digits=2,
            remarks=(remark,) if remark else (),
        ),
        Table(
            "memory", f"Peak memory of the process in GB, data included, {bits} bits", columns, tuple(peaks), digits=2
        ),
    )
    words = (
        "Each fit has all cores for itself, hash functions are included, and a first fit on a few points has "
        "compiled everything."
    )
    return [Section("time", "Training time", (words,), blocks, varies=True)]


def _note(row: Row) -> str:
    return "; ".join(f"{name} = {value}" for name, value in row.parameters.items())


TIME = Experiment("time", "Training time by method and number of points", _cells, _sections)
