"""``dlfh bench rank``: methods ranked over the reports of several data sets, and which of them differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dlfh.bench.cache import make_folder
from dlfh.bench.figures import RankFigure, check_can_draw
from dlfh.bench.friedman import Floats, Ranking, critical_difference, rank_methods
from dlfh.bench.outcomes import Outcome, read_outcomes
from dlfh.bench.plan import Section
from dlfh.bench.report import TITLE, check_report_place, write_sections
from dlfh.bench.tables import Entry, ReportTable, TableRow
from dlfh.bench.toml import to_toml
from dlfh.errors import InputError

__all__ = ["rank_reports"]


def rank_reports(
    reports: Sequence[Path], folder: Path, bits: int | None = None, rows: Sequence[str] | None = None
) -> list[Section]:
    """Rank the rows that reports have in common, protocol by protocol, and write a report of it.

    Parameters
    ----------
    reports : sequence of path
        Folders that `dlfh bench map` wrote, one for each data set.
    folder : path
    bits : int, optional
        Code length; by default the longest that all have.
    rows : sequence of str, optional
        Which rows to rank; by default those that all have.
    """
    check_can_draw()
    runs = [run for report in reports for run in read_outcomes(report)]
    data = list(dict.fromkeys(run.data for run in runs))
    if len(data) < len(reports):
        raise InputError(f"there are {len(reports)} reports on {len(data)} data sets: give one for each data set")
    chosen = _longest(runs, data) if bits is None else bits
    runs = [run for run in runs if run.bits == chosen]
    if not runs:
        raise InputError(f"no report has codes of {chosen} bits")
    settings = to_toml({"data": data, "bits": chosen, "rows": list(rows or ())})
    make_folder(folder)
    check_report_place(folder, "rank", settings, None)
    protocols = list(dict.fromkeys(run.protocol for run in runs))
    sections = [_section([run for run in runs if run.protocol == each], data, each, rows) for each in protocols]
    lead = (
        f"Mean ranks over {_listed(data)}, {chosen} bits, by MAP: 1 for the best of all in every comparison.",
        "Friedman's test with Nemenyi's critical difference, as in Demšar (2006), at the level .05.",
    )
    write_sections(folder, "rank", f"{TITLE}, ranked", lead, sections, settings)
    return sections


def _longest(runs: list[Outcome], data: list[str]) -> int:
    lengths = [{run.bits for run in runs if run.data == each} for each in data]
    common = set.intersection(*lengths)
    if not common:
        raise InputError("the reports have no code length in common")
    return max(common)


def _section(runs: list[Outcome], data: list[str], protocol: str, rows: Sequence[str] | None) -> Section:
    labels, left_out = _rows(runs, data, rows)
    by_run, by_data = (_scores(runs, labels, with_seeds) for with_seeds in (True, False))
    ranking = rank_methods(labels, by_run)
    wide = critical_difference(len(labels), len(by_data))
    title = f"Mean ranks, {protocol} database"
    words = [_verdict(ranking, wide, len(by_data))]
    if left_out:
        words.append(f"Left out, since not every data set has them: {_listed(left_out)}.")
    figure = RankFigure(
        f"rank-{protocol}",
        title,
        ranking.ranks,
        ranking.difference,
        remarks=("Rows whose bars do not overlap differ; in blue, those that are not told apart from the first.",),
    )
    return Section(
        f"rank-{protocol}",
        f"Ranks, {protocol} database",
        tuple(words),
        (figure, _table(runs, labels, ranking, protocol)),
    )


def _rows(runs: list[Outcome], data: list[str], rows: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return which rows are in all comparisons, and which are not."""
    places = {(run.data, run.direction) for run in runs}
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for run in runs:
        found[run.row].add((run.data, run.direction))
    for label in rows or ():
        if label not in found:
            raise InputError(f"no report has a row {label!r}: there are {', '.join(found)}")
    whole = [label for label, its in found.items() if its == places]
    wanted = [label for label in whole if rows is None or label in rows]
    return wanted, [label for label in (rows or found) if label not in whole]


def _scores(runs: list[Outcome], labels: list[str], with_seeds: bool) -> Floats:
    """Return MAP by block and row: a block is a data set and a direction, and a run if these count one by one.

    Rows of one run, with nothing random in them, have the same in every run; of others, runs count that all have.
    """
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        values[run.data, run.direction][run.row][run.seed] = run.map
    blocks = []
    for found in values.values():
        own = [found[label] for label in labels]
        if not with_seeds:
            blocks.append([sum(each.values()) / len(each) for each in own])
            continue
        several = [set(each) for each in own if len(each) > 1]
        for seed in sorted(set.intersection(*several)) if several else [0]:
            blocks.append([each[seed] if len(each) > 1 else next(iter(each.values())) for each in own])
    return np.array(blocks)


def _verdict(ranking: Ranking, wide: float, n_few: int) -> str:
    first, *others = ranking.level_with_the_best()
    level = f"not told apart from {_listed(others)}" if others else "ahead of every other"
    return (
        f"{first} is first, and {level}. {ranking.n_blocks} comparisons (data sets, directions, runs); Friedman's "
        f"statistic is {ranking.statistic:.1f} (p = {ranking.p_value:.1g}), the critical difference "
        f"{ranking.difference:.2f}. Runs on one data set are alike, so this says what holds on these data sets; with "
        f"one comparison for each data set and direction ({n_few}) it is {wide:.2f}, which is what a claim about other "
        "data would need."
    )


def _table(runs: list[Outcome], labels: list[str], ranking: Ranking, protocol: str) -> ReportTable:
    """Return mean ranks, over all and by data set, with how many others a row is told apart from."""
    data = list(dict.fromkeys(run.data for run in runs))
    own = {each: _ranks_on(runs, labels, each) for each in data}
    rows = []
    for label, rank in ranking.ranks.items():
        entries = [Entry(rank, runs=ranking.n_blocks), *(Entry(own[each][label], runs=1) for each in data)]
        ahead = len(ranking.beaten_by(label))
        behind = sum(label in ranking.beaten_by(other) for other in labels)
        rows.append(TableRow(label, (*entries, *(Entry(each, runs=1, digits=0) for each in (ahead, behind)))))
    columns = (("mean rank", "all"), *(("mean rank", each) for each in data), ("rows", "ahead of"), ("rows", "behind"))
    return ReportTable(
        f"rank-{protocol}", f"Mean ranks, {protocol} database", columns, tuple(rows), digits=2, head="row"
    )


def _ranks_on(runs: list[Outcome], labels: list[str], data: str) -> dict[str, float]:
    """Return mean ranks on one data set."""
    from scipy.stats import rankdata

    scores = _scores([run for run in runs if run.data == data], labels, with_seeds=True)
    return dict(zip(labels, rankdata(-scores, axis=1).mean(axis=0).tolist(), strict=True))


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
