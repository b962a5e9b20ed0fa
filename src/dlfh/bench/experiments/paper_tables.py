"""Tables 1 and 2 of the paper, accuracy and training time, beside the published figures; curves from the same cells."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from dlfh.bench.cells import Cell
from dlfh.bench.data import Source
from dlfh.bench.figures import Line, LineFigure, Panel
from dlfh.bench.measure import EXACT_AT
from dlfh.bench.plan import Experiment, Plan, Section, Study
from dlfh.bench.ranking import SCORES_FILE, RunScore, scores_csv
from dlfh.bench.settings import DEFAULT_PARAMETERS, Row
from dlfh.bench.tables import ReportTable, Summary, TableRow, mark_best
from dlfh.methods.catalogue import METHODS

PROTOCOL_DESCRIPTIONS = {
    "learned": "The database is the training set with the codes learned for it, as in the paper.",
    "hashed": "The database is the training set, encoded by the hash functions.",
    "unseen": "The database consists of points held out of training, encoded by the hash functions, like the new items "
    "of a user.",
    "unified": "The database is the training set, each point encoded from all its modalities together, for the methods "
    "that support it.",
}
_UNSUPPORTED = {
    "learned": "has only the codes of its hash functions",
    "unified": "cannot encode several modalities into one code",
}
_PUBLISHED_NAMES = {"CCAITQ": "CCA-ITQ"}
_DIRECTIONS = {"image → text": "I→T", "text → image": "T→I"}
_PAPER_SIZES = (1000, 5000, 10_000, 50_000, 100_000)  # and the whole training set of NUS-WIDE


@cache
def published() -> dict[str, Any]:
    """Return the tables of the paper, with its method names and the keys of `dlfh.datasets.descriptions.DATA_SETS`."""
    return tomllib.loads(resources.files("dlfh.bench").joinpath("published.toml").read_text(encoding="utf-8"))


def published_map(source: Source, label: str, protocol: str, direction: str, bits: int) -> tuple[float, float] | None:
    """Return the published MAP of a row and its standard deviation, or None if there is none for this protocol."""
    table, method = published()["map"], _published_name(label)
    row = table["methods"].get(method, {}).get(f"{source.like} {_DIRECTIONS.get(direction)}")
    is_same = source.as_published and table["protocols"].get(method, "learned") == protocol and bits in table["bits"]
    return tuple(row[table["bits"].index(bits)]) if row and is_same else None


def published_seconds(source: Source, label: str, size: int) -> float | None:
    """Return the published training time of a row, also for generated data of the same shape; None if there is none."""
    table = published()["time"]
    row = table["methods"].get(_published_name(label), ()) if source.like == table["data_set"] else ()
    times = zip(table["sizes"], row, strict=False)
    # The last published size is the whole training set, whose exact size depends on the file.
    found = next((seconds for n_points, seconds in times if abs(n_points - size) <= n_points / 100), math.nan)
    return None if math.isnan(found) else found  # the method ran out of memory, or was not measured


def _published_name(label: str) -> str | None:
    """Return the name in the paper of a row with the paper's setting, and None for other rows."""
    name, _, words = label.partition(" ")
    is_paper = words == ("paper" if f"{name} paper" in DEFAULT_PARAMETERS else "")
    return _PUBLISHED_NAMES.get(name, name) if is_paper else None


def _cells(plan: Plan) -> list[Cell]:
    return [cell for row in plan.settings.rows() for bits in plan.settings.bits for cell in plan.cells(row, bits)]


def _sections(study: Study) -> list[Section]:
    sections = [_overview(study)] if len(study.settings.protocols) > 1 else []
    for protocol in study.settings.protocols:
        found = (result.scores(protocol, way) for result in study.results.values() for way in study.directions)
        scores = [each for each in found if each is not None]
        first = scores[: len(study.directions)]  # scores of one run
        size = first[0]["ranks"][-1] if first else 0
        paragraphs = [PROTOCOL_DESCRIPTIONS[protocol]]
        if protocol == "unseen":
            share, is_given = study.settings.unseen_share, "unseen" in study.source.parts
            halves = "Queries are divided into two halves, and each half is the database of the other."
            drawn = f"They are {share:.0%} of the training points, held out of training in all tables of this report."
            paragraphs.append(drawn if share else "They come with the data set." if is_given else halves)
        if size:
            share = sum(each["precision"][-1] for each in first) / len(first)
            paragraphs.append(f"{share:.3f} of the items are relevant to a query, about the MAP of a random order.")
        if 0 < size < study.settings.k:
            paragraphs.append(f"A database has only {size} items, so k is {size} instead of {study.settings.k}.")
        k = min(study.settings.k, size) or study.settings.k
        measures = {"map": "MAP", "map_at": f"MAP@{k}", "precision_at": f"Precision@{k}", "ndcg_at": f"nDCG@{k}"}
        measures["exact_at"] = f"Precision@{min(EXACT_AT, size) or EXACT_AT} by all labels"
        measures |= {"asymmetric_map": "Asymmetric MAP", "any_map": 'MAP by label probabilities, "any"'}
        measures["all_map"] = 'MAP by label probabilities, "all"'
        equal = "relevance, splits and measures are the same as for the other rows"
        given = [row for row in study.settings.rows() if row.codes is not None]
        paragraphs += [f"{row.title}: codes computed elsewhere, from {row.codes}; {equal}." for row in given]
        tables = tuple(
            _table(study, protocol, measure, title)
            for measure, title in measures.items()
            if any(each.get(measure) is not None for each in scores)
        )
        bits, means = max(study.settings.bits), _mean_maps(study, max(study.settings.bits), protocol)
        if len(means) > 3:
            named = ", ".join(f"{label} ({mean:.3f})" for label, mean in list(means.items())[:3])
            paragraphs.append(f"With {bits} bits, these have the highest MAP, mean over directions: {named}.")
        sections.append(Section(f"map-{protocol}", f"Accuracy, {protocol} database", tuple(paragraphs), tables))
    runs = {SCORES_FILE: scores_csv(_run_scores(study))}
    return [replace(sections[0], files=runs), *sections[1:]]


def _mean_maps(study: Study, bits: int, protocol: str) -> dict[str, float]:
    """Return the MAP of each row, mean over directions, highest first; rows without one are omitted."""
    means = {}
    for row in study.settings.rows():
        maps = [study.summary(row, bits, protocol, direction).mean for direction in study.directions]
        present = [mean for mean in maps if mean is not None]
        if len(present) == len(maps):
            means[row.title] = sum(present) / len(present)
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _overview(study: Study) -> Section:
    """Compare the accuracy of each method between protocols, with the longest codes."""
    bits, protocols = max(study.settings.bits), study.settings.protocols
    means = {protocol: _mean_maps(study, bits, protocol) for protocol in protocols}
    paragraphs = []
    for before, after in itertools.pairwise(each for each in protocols if each != "unified"):
        both = [label for label in means[before] if label in means[after]]
        if both:
            old, new = (f"{sum(means[each][label] for label in both) / len(both):.3f}" for each in (before, after))
            paragraphs.append(f"From {before} to {after}, the mean MAP of all methods goes from {old} to {new}.")
    rows = []
    for row in study.settings.rows():
        means_of_row = [study.summary(row, bits, protocol) for protocol in protocols]
        # The overview shows standard deviations for the means only; the tables below show all of them.
        places = itertools.product(study.directions, protocols)
        others = (replace(study.summary(row, bits, protocol, way), std=None) for way, protocol in places)
        rows.append(TableRow(row.title, (*means_of_row, *others), row.footnote(study.n_train())))
    columns = tuple((group, protocol) for group in ("mean", *study.directions) for protocol in protocols)
    title = f"MAP on {study.source.name} by protocol, {bits} bits; {_averaging(study)}"
    table = ReportTable("map-overview", title, columns, mark_best(rows))
    return Section("map-overview", "Accuracy at a glance", tuple(paragraphs), (table,))


def _run_scores(study: Study) -> Iterator[RunScore]:
    settings = study.settings
    for row, bits in itertools.product(settings.rows(), settings.bits):
        for protocol, direction in itertools.product(settings.protocols, study.directions):
            for seed, value in enumerate(study.runs(row, bits, protocol, direction)):
                if value is not None:
                    yield RunScore(study.source.name, row.title, bits, protocol, direction, seed, value)


def _table(study: Study, protocol: str, measure: str, title: str) -> ReportTable:
    columns = tuple(itertools.product(study.directions, study.settings.bits))
    rows: list[TableRow] = []
    for row in study.settings.rows():
        entries = (study.summary(row, bits, protocol, way, measure) for way, bits in columns)
        notes = [row.footnote(study.n_train())]
        if row.codes is None and protocol in _UNSUPPORTED and protocol not in METHODS[row.method].info.protocols:
            notes.append(_UNSUPPORTED[protocol])
        rows.append(TableRow(row.title, tuple(entries), "; ".join(filter(None, notes))))
        paper = [published_map(study.source, row.label, protocol, way, bits) for way, bits in columns]
        if measure == "map" and any(paper):
            n_runs = published()["paper"]["runs"]
            figures = (Summary() if each is None else Summary(*each, runs=n_runs) for each in paper)
            rows.append(TableRow(row.label, tuple(figures), published=True))
    remarks = ["Published: the figures of the paper."] if any(row.published for row in rows) else []
    if study.settings.seeds > 1 and any(len(study.seeds(row)) == 1 for row in study.settings.rows()):
        remarks.append("Rows without ± have a single run: they are deterministic, or a footnote says so.")
    key, title = f"{measure.replace('_', '-')}-{protocol}", f"{title} on {study.source.name}, {protocol} database"
    heads = tuple((direction, f"{bits} bits") for direction, bits in columns)
    table = ReportTable(key, f"{title}; {_averaging(study)}", heads, mark_best(rows), remarks=tuple(remarks))
    return replace(table, layout=study.settings.layout, interval=study.settings.interval)


def _averaging(study: Study) -> str:
    n_runs = study.settings.seeds
    return f"mean ± standard deviation over {n_runs} runs" if n_runs > 1 else "one run"


def _curve_bits(plan: Plan) -> int:
    return plan.settings.curves.bits or max(plan.settings.bits)


def _curve_cells(plan: Plan) -> list[Cell]:
    return [cell for row in plan.settings.rows() for cell in plan.cells(row, _curve_bits(plan))]


def _curve_sections(study: Study) -> list[Section]:
    n_methods = study.settings.curves.methods
    protocols = study.settings.protocols
    best = {each: list(_mean_maps(study, _curve_bits(study), each))[:n_methods] for each in protocols}
    figures = tuple(_figure(study, protocol, titles) for protocol, titles in best.items() if titles)
    paragraphs = [f"Means over runs, {_curve_bits(study)} bits, Hamming ranking."]
    if n_methods < len(study.settings.rows()):
        paragraphs.append(f"Figures show the {n_methods} methods with the highest MAP in each protocol.")
    return [Section("curves", "Precision and recall", tuple(paragraphs), figures)]


def _figure(study: Study, protocol: str, titles: list[str]) -> LineFigure:
    panels = []
    rows = {row.title: row for row in study.settings.rows()}
    for direction in study.directions:
        curves = {title: _curve(study, rows[title], protocol, direction) for title in titles}
        for kind, x_label, x in (("precision–recall", "recall", "recall"), ("top-N precision", "N", "ranks")):
            lines = tuple(
                Line(title, curve[x], curve["precision"], list(rows).index(title), markers=False)
                for title, curve in curves.items()
            )
            panels.append(Panel(f"{direction}: {kind}", x_label, "precision", lines, log_x=x == "ranks"))
    data = f"{study.source.name}, {_curve_bits(study)} bits, {protocol} database"
    return LineFigure(f"curves-{protocol}", f"Precision–recall and top-N precision on {data}", tuple(panels))


def _curve(study: Study, row: Row, protocol: str, direction: str) -> dict[str, tuple[float, ...]]:
    cells = study.cells(row, _curve_bits(study))
    runs = [scores for cell in cells if (scores := study.results[cell].scores(protocol, direction)) is not None]
    return {
        name: tuple(sum(values) / len(runs) for values in zip(*(run[name] for run in runs), strict=True))
        for name in ("ranks", "precision", "recall")
    }


MAP = Experiment("map", "Accuracy by method, code length, direction and protocol", _cells, _sections, draws=False)
CURVES = Experiment("curves", "Precision-recall and top-N precision curves", _curve_cells, _curve_sections)


def time_sizes(plan: Plan) -> list[int]:
    """Return the training set sizes: as in the settings, as in the paper or, for small data, fractions of it."""
    n_train = plan.n_train()
    if plan.settings.time.sizes:
        return sorted({min(size, n_train) for size in plan.settings.time.sizes})
    if n_train < 2 * _PAPER_SIZES[0]:
        return [n_train // 4, n_train // 2, n_train]
    return [*(size for size in _PAPER_SIZES if size < n_train), n_train]


def _time_cell(plan: Plan, row: Row, size: int) -> Cell:
    fit = plan.cell(row, plan.settings.time.bits, 0, size)
    return replace(fit, kind="time", k=Cell.k, train_points=None)


def _time_cells(plan: Plan) -> list[Cell]:
    return [_time_cell(plan, row, size) for row in _timed_rows(plan) for size in time_sizes(plan)]


def _timed_rows(plan: Plan) -> list[Row]:
    return [row for row in plan.settings.rows() if row.codes is None]


def _time_sections(study: Study) -> list[Section]:
    bits = study.settings.time.bits
    seconds: list[TableRow] = []
    for row in _timed_rows(study):
        seconds.append(_time_row(study, row, "fit", 1.0))
        paper = [published_seconds(study.source, row.label, size) for size in time_sizes(study)]
        if any(value is not None for value in paper):
            seconds.append(TableRow(row.label, tuple(Summary(value, None, 1) for value in paper), published=True))
    memory = [_time_row(study, row, "peak_bytes", 1e9) for row in _timed_rows(study)]
    machine = published()["paper"]["machine"]
    remark = f"Published: from the paper, on real data and {machine}; the code length is not stated."
    remarks = (remark,) if any(row.published for row in seconds) else ()
    columns = tuple(("training points", f"{size:,}") for size in time_sizes(study))
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


def _time_row(study: Study, row: Row, measure: str, unit: float) -> TableRow:
    entries = []
    for result in (study.results[_time_cell(study, row, size)] for size in time_sizes(study)):
        value = result.times.get(measure)
        number = None if value is None else value / unit
        entries.append(Summary(number, runs=int(value is not None), note=result.failure or ""))
    return TableRow(row.title, tuple(entries), replace(row, train_points=None, seeds=None).footnote(0))


TIME = Experiment("time", "Training time by method and number of points", _time_cells, _time_sections, draws=False)
