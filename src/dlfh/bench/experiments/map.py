"""The paper's first table: accuracy of methods by code length and direction, by protocol."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from dlfh.bench.cells import Cell
from dlfh.bench.comparison import published_map
from dlfh.bench.measure import EXACT_AT
from dlfh.bench.outcomes import OUTCOMES_FILE, Outcome, outcomes_csv
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.published import published
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row
from dlfh.bench.tables import Entry, ReportTable, TableRow, mark_best, summarize
from dlfh.methods.catalogue import METHODS

__all__ = ["MAP", "PROTOCOL_WORDS", "mean_maps", "scores"]

PROTOCOL_WORDS = {
    "learned": "The database is the training set with the codes that training gave it: the paper's protocol.",
    "hashed": "The database is the training set, encoded by the hash functions.",
    "unseen": "The database holds points that training never saw, encoded by the hash functions: what a user's new "
    "items get.",
    "unified": "The database is the training set, each point encoded from all its modalities together, by the methods "
    "that have a rule for it.",
}
_HASHED_ALONE = "has no codes but those of its hash functions"
_NOT_UNIFIED = "has no rule for one code from several modalities"


def _cells(plan: Plan) -> list[Cell]:
    return [
        plan.cell(row, bits, seed)
        for row in plan.settings.rows()
        for bits in plan.settings.bits
        for seed in plan.seeds(row)
    ]


def scores(
    plan: Plan, results: Results, row: Row, bits: int, protocol: str, direction: str, measure: str
) -> tuple[list[float | None], list[str]]:
    """Return what the seeds of a row gave, None for what failed, and why it did."""
    values: list[float | None] = []
    failures = []
    for seed in plan.seeds(row):
        cell = plan.cell(row, bits, seed)
        found = results.scores(cell, protocol, direction)
        values.append(None if found is None else found[measure])
        failures.append(results[cell].failure or "")
    return values, failures


def _sections(plan: Plan, results: Results) -> list[Section]:
    asked = plan.settings.k
    sections = [_overview(plan, results)] if len(plan.settings.protocols) > 1 else []
    for protocol in plan.settings.protocols:
        size, share = _database(plan, results, protocol)
        paragraphs = [PROTOCOL_WORDS[protocol]]
        if protocol == "unseen":
            paragraphs.append(_unseen_words(plan))
        if size:
            paragraphs.append(f"Of the items, {share:.3f} are relevant to a query: about the MAP of a random order.")
        if 0 < size < asked:
            paragraphs.append(f"There are only {size} items to a database, so k is {size} instead of {asked}.")
        k = min(asked, size) or asked
        measures = {"map": "MAP", "map_at": f"MAP@{k}", "precision_at": f"Precision@{k}", "ndcg_at": f"nDCG@{k}"}
        measures["exact_at"] = f"Precision@{min(EXACT_AT, size) or EXACT_AT} by all labels"
        measures["asymmetric_map"] = "Asymmetric MAP"
        known = {measure: title for measure, title in measures.items() if _is_known(plan, results, protocol, measure)}
        tables = [_table(plan, results, protocol, measure, title) for measure, title in known.items()]
        paragraphs += _leaders(plan, results, protocol)
        sections.append(Section(f"map-{protocol}", f"Accuracy, {protocol} database", tuple(paragraphs), tuple(tables)))
    outcomes = {OUTCOMES_FILE: outcomes_csv(_outcomes(plan, results))}
    return [replace(sections[0], files=outcomes), *sections[1:]]


def _is_known(plan: Plan, results: Results, protocol: str, measure: str) -> bool:
    """Return whether all results have a measure: those of earlier runs lack what was measured later."""
    found = [results.scores(cell, protocol, way) for cell, _ in results.items() for way in plan.directions]
    return all(measure in scores for scores in found if scores is not None)


def _unseen_words(plan: Plan) -> str:
    if plan.settings.unseen_share:
        share = plan.settings.unseen_share
        return f"They are {share:.0%} of the training points, held out of training in all tables here."
    if "unseen" in plan.source.parts:
        return "They came with the data."
    return "Queries are dealt into two halves, each of which is the other's database."


def _database(plan: Plan, results: Results, protocol: str) -> tuple[int, float]:
    """Return how many items a database has, and the share of them that is relevant to a query; zeros if unknown."""
    for cell, _ in results.items():
        found = [scores for way in plan.directions if (scores := results.scores(cell, protocol, way)) is not None]
        if found:
            return found[0]["ranks"][-1], sum(scores["precision"][-1] for scores in found) / len(found)
    return 0, 0.0


def mean_maps(plan: Plan, results: Results, bits: int, protocol: str) -> dict[str, float]:
    """Return the MAP of each row, mean over directions, the highest first; without rows that have none."""
    means = {}
    for row in plan.settings.rows():
        each = [summarize(*scores(plan, results, row, bits, protocol, way, "map")).mean for way in plan.directions]
        found = [mean for mean in each if mean is not None]
        if len(found) == len(each):
            means[row.label] = sum(found) / len(found)
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _over_directions(plan: Plan, results: Results, row: Row, bits: int, protocol: str) -> Entry:
    """Return the MAP of a row as mean over directions."""
    found = [scores(plan, results, row, bits, protocol, each, "map") for each in plan.directions]
    runs = ([value for value in run if value is not None] for run in zip(*(values for values, _ in found), strict=True))
    means = [sum(run) / len(run) if len(run) == len(found) else None for run in runs]
    return summarize(means, found[0][1])


def _leaders(plan: Plan, results: Results, protocol: str) -> Iterator[str]:
    """Say which methods are best with the longest codes."""
    bits = max(plan.settings.bits)
    means = mean_maps(plan, results, bits, protocol)
    if len(means) > 3:
        named = ", ".join(f"{label} ({mean:.3f})" for label, mean in list(means.items())[:3])
        yield f"With {bits} bits the highest MAP, mean over directions, is that of {named}."


def _overview(plan: Plan, results: Results) -> Section:
    """Return what becomes of each method's accuracy from one protocol to the next, with the longest codes."""
    bits, protocols = max(plan.settings.bits), plan.settings.protocols
    means = {protocol: mean_maps(plan, results, bits, protocol) for protocol in protocols}
    words = []
    for before, after in itertools.pairwise(each for each in protocols if each != "unified"):
        both = [label for label in means[before] if label in means[after]]
        if both:
            sums = [sum(means[each][label] for label in both) / len(both) for each in (before, after)]
            words.append(f"From {before} to {after}, the methods' mean MAP goes from {sums[0]:.3f} to {sums[1]:.3f}.")
    rows = []
    for row in plan.settings.rows():
        entries = (
            *(_over_directions(plan, results, row, bits, protocol) for protocol in protocols),
            *(
                # At a glance the spread of the means is enough; the tables below have all of it.
                replace(summarize(*scores(plan, results, row, bits, protocol, direction, "map")), std=None)
                for direction in plan.directions
                for protocol in protocols
            ),
        )
        rows.append(TableRow(row.label, entries, row.footnote(plan.n_train())))
    columns = tuple((group, protocol) for group in ("mean", *plan.directions) for protocol in protocols)
    title = f"MAP on {plan.source.name} by protocol, {bits} bits; {_runs_in_words(plan)}"
    table = ReportTable("map-overview", title, columns, mark_best(rows))
    return Section("map-overview", "Accuracy at a glance", tuple(words), (table,))


def _outcomes(plan: Plan, results: Results) -> Iterator[Outcome]:
    """Yield what each run gave."""
    for row, bits in itertools.product(plan.settings.rows(), plan.settings.bits):
        for protocol, direction in itertools.product(plan.settings.protocols, plan.directions):
            found, _ = scores(plan, results, row, bits, protocol, direction, "map")
            for seed, value in enumerate(found):
                if value is not None:
                    yield Outcome(plan.source.name, row.label, bits, protocol, direction, seed, value)


def _table(plan: Plan, results: Results, protocol: str, measure: str, title: str) -> ReportTable:
    columns = [(direction, f"{bits} bits") for direction in plan.directions for bits in plan.settings.bits]
    rows: list[TableRow] = []
    for row in plan.settings.rows():
        entries = [
            summarize(*scores(plan, results, row, bits, protocol, direction, measure))
            for direction in plan.directions
            for bits in plan.settings.bits
        ]
        rows.append(TableRow(row.label, tuple(entries), _note(row, protocol, plan.n_train())))
        if protocol == "learned" and measure == "map":
            rows += _published(plan, row)
    n_runs = plan.settings.seeds
    remarks = ["Published: the paper's own figures."] if any(row.published for row in rows) else []
    if n_runs > 1 and any(len(plan.seeds(row)) == 1 for row in plan.settings.rows()):
        remarks.append("Rows without ± are of one run: nothing in them is random, or a footnote says so.")
    return ReportTable(
        f"{measure.replace('_', '-')}-{protocol}",
        f"{title} on {plan.source.name}, {protocol} database; {_runs_in_words(plan)}",
        tuple(columns),
        mark_best(rows),
        remarks=tuple(remarks),
    )


def _runs_in_words(plan: Plan) -> str:
    n_runs = plan.settings.seeds
    return f"mean ± standard deviation over {n_runs} runs" if n_runs > 1 else "one run"


def _note(row: Row, protocol: str, n_train: int) -> str:
    notes = [row.footnote(n_train)]
    if protocol == "learned" and "learned" not in METHODS[row.method].info.protocols:
        notes.append(_HASHED_ALONE)
    if protocol == "unified" and "unified" not in METHODS[row.method].info.protocols:
        notes.append(_NOT_UNIFIED)
    return "; ".join(filter(None, notes))


def _published(plan: Plan, row: Row) -> Iterator[TableRow]:
    """Yield the paper's figures for a row, if the data set is the same and the paper has the method."""
    entries = []
    for direction in plan.directions:
        for bits in plan.settings.bits:
            found = published_map(plan.source, plan.settings, row.label, direction, bits)
            entries.append(Entry() if found is None else Entry(*found, runs=published().runs))
    if any(entry.mean is not None for entry in entries):
        yield TableRow(row.label, tuple(entries), published=True)


MAP = Experiment("map", "Accuracy by method, code length, direction and protocol", _cells, _sections, draws=False)
