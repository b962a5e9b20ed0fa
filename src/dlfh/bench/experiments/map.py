"""Table 1 of the paper: accuracy by method, code length, direction and protocol."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from dlfh.bench.cells import Cell
from dlfh.bench.measure import EXACT_AT
from dlfh.bench.plan import Experiment, Plan, Results, Section
from dlfh.bench.published import published, published_map
from dlfh.bench.ranking import SCORES_FILE, RunScore, scores_csv
from dlfh.bench.settings import Row
from dlfh.bench.tables import ReportTable, Summary, TableRow, mark_best, summarize
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


def _cells(plan: Plan) -> list[Cell]:
    return [cell for row in plan.settings.rows() for bits in plan.settings.bits for cell in plan.cells(row, bits)]


def _runs(
    plan: Plan, results: Results, row: Row, bits: int, protocol: str, direction: str, measure: str = "map"
) -> list[float | None]:
    """Return a measure for every run of a row, None where it failed."""
    scores = (results[cell].scores(protocol, direction) for cell in plan.cells(row, bits))
    return [None if each is None else each[measure] for each in scores]


def _summary(
    plan: Plan, results: Results, row: Row, bits: int, protocol: str, direction: str, measure: str = "map"
) -> Summary:
    failures = (results[cell].failure or "" for cell in plan.cells(row, bits))
    return summarize(_runs(plan, results, row, bits, protocol, direction, measure), failures)


def _sections(plan: Plan, results: Results) -> list[Section]:
    sections = [_overview(plan, results)] if len(plan.settings.protocols) > 1 else []
    for protocol in plan.settings.protocols:
        size, share = _database(plan, results, protocol)
        paragraphs = [PROTOCOL_DESCRIPTIONS[protocol]]
        if protocol == "unseen":
            paragraphs.append(_unseen_description(plan))
        if size:
            paragraphs.append(f"{share:.3f} of the items are relevant to a query, about the MAP of a random order.")
        if 0 < size < plan.settings.k:
            paragraphs.append(f"A database has only {size} items, so k is {size} instead of {plan.settings.k}.")
        k = min(plan.settings.k, size) or plan.settings.k
        measures = {"map": "MAP", "map_at": f"MAP@{k}", "precision_at": f"Precision@{k}", "ndcg_at": f"nDCG@{k}"}
        measures["exact_at"] = f"Precision@{min(EXACT_AT, size) or EXACT_AT} by all labels"
        measures["asymmetric_map"] = "Asymmetric MAP"
        rows = plan.settings.rows()
        paragraphs += [
            f"{row.title}: codes computed elsewhere, from {row.codes}; relevance, splits and measures are those of the "
            "other rows."
            for row in rows
            if row.codes is not None
        ]
        tables = tuple(
            _table(plan, results, protocol, measure, title)
            for measure, title in measures.items()
            if _is_complete(plan, results, protocol, measure)
        )
        paragraphs += _leaders(plan, results, protocol)
        sections.append(Section(f"map-{protocol}", f"Accuracy, {protocol} database", tuple(paragraphs), tables))
    scores = {SCORES_FILE: scores_csv(_run_scores(plan, results))}
    return [replace(sections[0], files=scores), *sections[1:]]


def _is_complete(plan: Plan, results: Results, protocol: str, measure: str) -> bool:
    """Return whether all results have a measure; results of earlier versions may lack it."""
    scores = [result.scores(protocol, direction) for result in results.values() for direction in plan.directions]
    return all(measure in each for each in scores if each is not None) and any(
        each[measure] is not None for each in scores if each is not None
    )


def _unseen_description(plan: Plan) -> str:
    if plan.settings.unseen_share:
        share = plan.settings.unseen_share
        return f"They are {share:.0%} of the training points, held out of training in all tables of this report."
    if "unseen" in plan.source.parts:
        return "They come with the data set."
    return "Queries are divided into two halves, and each half is the database of the other."


def _database(plan: Plan, results: Results, protocol: str) -> tuple[int, float]:
    """Return the number of items in a database and the share relevant to a query; zeros if unknown."""
    for result in results.values():
        scores = [each for way in plan.directions if (each := result.scores(protocol, way)) is not None]
        if scores:
            return scores[0]["ranks"][-1], sum(each["precision"][-1] for each in scores) / len(scores)
    return 0, 0.0


def mean_maps(plan: Plan, results: Results, bits: int, protocol: str) -> dict[str, float]:
    """Return the MAP of each row, mean over directions, highest first; rows without one are omitted."""
    means = {}
    for row in plan.settings.rows():
        maps = [_summary(plan, results, row, bits, protocol, direction).mean for direction in plan.directions]
        present = [mean for mean in maps if mean is not None]
        if len(present) == len(maps):
            means[row.title] = sum(present) / len(present)
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _over_directions(plan: Plan, results: Results, row: Row, bits: int, protocol: str) -> Summary:
    """Return the MAP of a row, mean over directions."""
    by_direction = [_runs(plan, results, row, bits, protocol, direction) for direction in plan.directions]
    runs = ([value for value in run if value is not None] for run in zip(*by_direction, strict=True))
    means = [sum(run) / len(run) if len(run) == len(by_direction) else None for run in runs]
    return summarize(means, (results[cell].failure or "" for cell in plan.cells(row, bits)))


def _leaders(plan: Plan, results: Results, protocol: str) -> Iterator[str]:
    """Name the best methods with the longest codes."""
    bits = max(plan.settings.bits)
    means = mean_maps(plan, results, bits, protocol)
    if len(means) > 3:
        named = ", ".join(f"{label} ({mean:.3f})" for label, mean in list(means.items())[:3])
        yield f"With {bits} bits, these have the highest MAP, mean over directions: {named}."


def _overview(plan: Plan, results: Results) -> Section:
    """Compare the accuracy of each method between protocols, with the longest codes."""
    bits, protocols = max(plan.settings.bits), plan.settings.protocols
    means = {protocol: mean_maps(plan, results, bits, protocol) for protocol in protocols}
    paragraphs = []
    for before, after in itertools.pairwise(each for each in protocols if each != "unified"):
        both = [label for label in means[before] if label in means[after]]
        if both:
            maps = [sum(means[each][label] for label in both) / len(both) for each in (before, after)]
            paragraphs.append(
                f"From {before} to {after}, the mean MAP of all methods goes from {maps[0]:.3f} to {maps[1]:.3f}."
            )
    rows = []
    for row in plan.settings.rows():
        entries = (
            *(_over_directions(plan, results, row, bits, protocol) for protocol in protocols),
            *(
                # The overview shows the deviations of the means only; the tables below have all.
                replace(_summary(plan, results, row, bits, protocol, direction), std=None)
                for direction in plan.directions
                for protocol in protocols
            ),
        )
        rows.append(TableRow(row.title, entries, row.footnote(plan.n_train())))
    columns = tuple((group, protocol) for group in ("mean", *plan.directions) for protocol in protocols)
    title = f"MAP on {plan.source.name} by protocol, {bits} bits; {_averaging(plan)}"
    table = ReportTable("map-overview", title, columns, mark_best(rows))
    return Section("map-overview", "Accuracy at a glance", tuple(paragraphs), (table,))


def _run_scores(plan: Plan, results: Results) -> Iterator[RunScore]:
    """Yield the MAP of every run."""
    settings = plan.settings
    for row, bits in itertools.product(settings.rows(), settings.bits):
        for protocol, direction in itertools.product(settings.protocols, plan.directions):
            for seed, value in enumerate(_runs(plan, results, row, bits, protocol, direction)):
                if value is not None:
                    yield RunScore(plan.source.name, row.title, bits, protocol, direction, seed, value)


def _table(plan: Plan, results: Results, protocol: str, measure: str, title: str) -> ReportTable:
    columns = tuple(itertools.product(plan.directions, plan.settings.bits))
    rows: list[TableRow] = []
    for row in plan.settings.rows():
        entries = (_summary(plan, results, row, bits, protocol, way, measure) for way, bits in columns)
        notes = [row.footnote(plan.n_train())]
        if row.codes is None and protocol in _UNSUPPORTED and protocol not in METHODS[row.method].info.protocols:
            notes.append(_UNSUPPORTED[protocol])
        rows.append(TableRow(row.title, tuple(entries), "; ".join(filter(None, notes))))
        if measure == "map":
            rows += _published(plan, row, protocol, columns)
    remarks = ["Published: the figures of the paper."] if any(row.published for row in rows) else []
    if plan.settings.seeds > 1 and any(len(plan.seeds(row)) == 1 for row in plan.settings.rows()):
        remarks.append("Rows without ± have a single run: they are deterministic, or a footnote says so.")
    return ReportTable(
        f"{measure.replace('_', '-')}-{protocol}",
        f"{title} on {plan.source.name}, {protocol} database; {_averaging(plan)}",
        tuple((direction, f"{bits} bits") for direction, bits in columns),
        mark_best(rows),
        remarks=tuple(remarks),
    )


def _averaging(plan: Plan) -> str:
    n_runs = plan.settings.seeds
    return f"mean ± standard deviation over {n_runs} runs" if n_runs > 1 else "one run"


def _published(plan: Plan, row: Row, protocol: str, columns: tuple[tuple[str, int], ...]) -> Iterator[TableRow]:
    """Yield the published figures of a row, if the paper has the method and the data set."""
    found = [published_map(plan.source, row.label, protocol, direction, bits) for direction, bits in columns]
    if any(found):
        entries = (Summary() if each is None else Summary(*each, runs=published()["paper"]["runs"]) for each in found)
        yield TableRow(row.label, tuple(entries), published=True)


MAP = Experiment("map", "Accuracy by method, code length, direction and protocol", _cells, _sections, draws=False)
