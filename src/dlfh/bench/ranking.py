"""`dlfh bench rank`: mean ranks of methods over the reports of several data sets, with a critical difference.

Friedman's test with Nemenyi's comparison of all pairs, as in Demšar, "Statistical comparisons of classifiers over
multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlfh._arrays import Floats
from dlfh.bench.cells import make_folder
from dlfh.bench.figures import RankFigure, check_can_draw
from dlfh.bench.plan import Section
from dlfh.bench.report import TITLE, Report, check_report_place
from dlfh.bench.tables import ReportTable, Summary, TableRow, csv_text
from dlfh.bench.toml import to_toml
from dlfh.errors import InputError

SCORES_FILE = "tables/map-runs.csv"  # where a report lists the MAP of every run


class RunScore(NamedTuple):
    """The MAP of one run of a row on a data set."""

    data: str
    row: str
    bits: int
    protocol: str
    direction: str
    seed: int
    map: float


def scores_csv(scores: Iterable[RunScore]) -> str:
    """Return scores as CSV."""
    return csv_text([RunScore._fields, *((*score[:-1], f"{score.map:.6f}") for score in scores)])


def read_scores(report: Path) -> list[RunScore]:
    """Read the scores of a report."""
    path = report / SCORES_FILE
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [
                RunScore(**{**line, "bits": int(line["bits"]), "seed": int(line["seed"]), "map": float(line["map"])})  # type: ignore[arg-type]
                for line in csv.DictReader(file, strict=True)
            ]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; name a report folder of `dlfh bench map`") from None
    except (csv.Error, KeyError, TypeError, ValueError):
        raise InputError(f"{path} was not written by `dlfh bench map`") from None


def critical_difference(n_methods: int, n_blocks: int, level: float = 0.05) -> float:
    """Return Nemenyi's critical difference of two mean ranks, q sqrt(k (k + 1) / 6 N) for k methods and N blocks."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def iman_davenport(statistic: float, n_methods: int, n_blocks: int) -> float:
    """Return Iman and Davenport's F from Friedman's statistic; infinite where all blocks agree."""
    rest = n_blocks * (n_methods - 1) - statistic
    return (n_blocks - 1) * statistic / rest if rest > 1e-9 * n_blocks else math.inf


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods, best first; rank 1 is best."""

    ranks: dict[str, float]
    n_blocks: int  # number of blocks, in each of which all methods are ranked
    statistic: float  # Friedman's, corrected for ties
    p_value: float  # by Iman and Davenport's F distribution
    difference: float  # critical difference of mean ranks

    def tied_with_best(self) -> list[str]:
        """Return the methods that do not differ significantly from the first, including the first."""
        first = next(iter(self.ranks.values()))
        return [label for label, rank in self.ranks.items() if rank - first <= self.difference]

    def worse_than(self, label: str) -> list[str]:
        return [other for other, rank in self.ranks.items() if rank - self.ranks[label] > self.difference]


def rank_methods(labels: Sequence[str], scores: Floats, level: float = 0.05) -> Ranking:
    """Rank methods by scores (blocks, methods), higher scores first; equal scores share their ranks."""
    from scipy.stats import f, rankdata

    n_blocks, n_methods = scores.shape
    if n_methods < 3 or n_blocks < 2:
        raise InputError(f"a ranking needs at least 3 methods and 2 blocks, got {n_methods} and {n_blocks}")
    ranks = rankdata(-scores, axis=1)
    means = ranks.mean(axis=0)
    # Ties reduce the variance of the ranks, by which the statistic is divided.
    variance = float(np.sum((ranks - (n_methods + 1) / 2) ** 2)) / (n_blocks * (n_methods - 1))
    statistic = n_blocks * float(np.sum((means - (n_methods + 1) / 2) ** 2)) / variance if variance else 0.0
    degrees = n_methods - 1, (n_methods - 1) * (n_blocks - 1)
    p_value = float(f.sf(iman_davenport(statistic, n_methods, n_blocks), *degrees))
    order = np.argsort(means, kind="stable")
    difference = critical_difference(n_methods, n_blocks, level)
    return Ranking({labels[i]: float(means[i]) for i in order}, n_blocks, statistic, p_value, difference)


def rank_reports(
    reports: Sequence[Path], folder: Path, bits: int | None = None, rows: Sequence[str] | None = None
) -> list[Section]:
    """Rank the rows that all reports contain, by default with the longest common codes, and write a report."""
    check_can_draw()
    scores = [score for report in reports for score in read_scores(report)]
    data = list(dict.fromkeys(score.data for score in scores))
    if len(data) < len(reports):
        raise InputError(f"{len(reports)} reports cover {len(data)} data sets: name one report per data set")
    common = set.intersection(*({score.bits for score in scores if score.data == name} for name in data))
    if bits is None and not common:
        raise InputError("the reports have no code length in common")
    length = max(common) if bits is None else bits
    scores = [score for score in scores if score.bits == length]
    if not scores:
        raise InputError(f"no report has {length}-bit codes")
    settings = to_toml({"data": data, "bits": length, "rows": list(rows or ())})
    make_folder(folder)
    check_report_place(folder, "rank", settings, None)
    by_protocol: dict[str, list[RunScore]] = defaultdict(list)
    for score in scores:
        by_protocol[score.protocol].append(score)
    sections = [_section(scores, protocol, rows) for protocol, scores in by_protocol.items()]
    lead = (
        f"Mean ranks by MAP over {_listed(data)}, {length} bits; rank 1 is best.",
        "Friedman's test with Nemenyi's critical difference, as in Demšar (2006), at the 0.05 level.",
    )
    Report(f"{TITLE}, ranked", lead, sections, settings).write(folder, "rank")
    return sections


def _section(scores: list[RunScore], protocol: str, rows: Sequence[str] | None) -> Section:
    labels, omitted = _common_rows(scores, rows)
    ranking = rank_methods(labels, _score_matrix(scores, labels))
    paragraphs = [_verdict(ranking, len(_score_matrix(scores, labels, mean_over_runs=True)))]
    if omitted:
        paragraphs.append(f"Omitted because not every data set has them: {_listed(omitted)}.")
    key, title = f"rank-{protocol}", f"Mean ranks, {protocol} database"
    remark = "Rows whose bars do not overlap differ significantly; blue rows do not differ from the first."
    figure = RankFigure(key, title, ranking.ranks, ranking.difference, remarks=(remark,))
    table = ReportTable(key, title, *_columns_and_rows(scores, labels, ranking), digits=2, head="row")
    return Section(key, f"Ranks, {protocol} database", tuple(paragraphs), (figure, table))


def _common_rows(scores: list[RunScore], rows: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the rows that occur in every data set and direction, and the others."""
    places = {(score.data, score.direction) for score in scores}
    by_row: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for score in scores:
        by_row[score.row].add((score.data, score.direction))
    for label in rows or ():
        if label not in by_row:
            raise InputError(f"no report has the row {label!r}; rows are {', '.join(by_row)}")
    complete = [label for label, present in by_row.items() if present == places]
    ranked = [label for label in complete if rows is None or label in rows]
    return ranked, [label for label in (rows or by_row) if label not in complete]


def _score_matrix(scores: list[RunScore], labels: list[str], *, mean_over_runs: bool = False) -> Floats:
    """Return MAP by block and row; a block is a data set, a direction and, unless means are taken, a run."""
    # Deterministic rows have a single run, which is used in every block. Other rows use only the seeds they all have.
    by_place: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for score in scores:
        by_place[score.data, score.direction][score.row][score.seed] = score.map
    blocks = []
    for by_row in by_place.values():
        runs = [by_row[label] for label in labels]
        if mean_over_runs:
            blocks.append([sum(each.values()) / len(each) for each in runs])
            continue
        repeated = [set(each) for each in runs if len(each) > 1]
        for seed in sorted(set.intersection(*repeated)) if repeated else [0]:
            blocks.append([each[seed] if len(each) > 1 else next(iter(each.values())) for each in runs])
    return np.array(blocks)


def _verdict(ranking: Ranking, n_independent: int) -> str:
    first, *others = ranking.tied_with_best()
    tied = others and f"does not differ significantly from {_listed(others)}"
    relation = tied or "is significantly better than all others"
    wide = critical_difference(len(ranking.ranks), n_independent)
    return (
        f"{first} ranks first and {relation}. {ranking.n_blocks} comparisons (data sets, directions, runs): Friedman's "
        f"statistic is {ranking.statistic:.1f} (p = {ranking.p_value:.1g}), the critical difference "
        f"{ranking.difference:.2f}. Runs on one data set are not independent, so this holds for these data sets; with "
        f"one comparison for each data set and direction ({n_independent}), as a claim about other data would need, "
        f"the critical difference is {wide:.2f}."
    )


def _columns_and_rows(
    scores: list[RunScore], labels: list[str], ranking: Ranking
) -> tuple[tuple[tuple[str, str], ...], tuple[TableRow, ...]]:
    """Return mean ranks overall and by data set, and the numbers of significantly worse and better rows."""
    from scipy.stats import rankdata

    data = list(dict.fromkeys(score.data for score in scores))
    by_data = [_score_matrix([score for score in scores if score.data == name], labels) for name in data]
    ranks = [rankdata(-matrix, axis=1).mean(axis=0) for matrix in by_data]
    rows = []
    for label, rank in ranking.ranks.items():
        own = (Summary(float(means[labels.index(label)]), runs=1) for means in ranks)
        entries = [Summary(rank, runs=ranking.n_blocks), *own]
        ahead = len(ranking.worse_than(label))
        behind = sum(label in ranking.worse_than(other) for other in labels)
        rows.append(TableRow(label, (*entries, *(Summary(count, runs=1, digits=0) for count in (ahead, behind)))))
    columns = (("mean rank", "all"), *(("mean rank", name) for name in data), ("rows", "ahead of"), ("rows", "behind"))
    return columns, tuple(rows)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
