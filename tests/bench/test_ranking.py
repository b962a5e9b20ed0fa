"""Ranks and critical differences, against published tables and SciPy's test, and over several reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare

from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.plan import Plan
from dlfh.bench.ranking import (
    SCORES_FILE,
    RunScore,
    critical_difference,
    iman_davenport,
    rank_methods,
    read_scores,
    scores_csv,
)
from dlfh.bench.report import write_report
from dlfh.bench.settings import Settings
from dlfh.cli import main
from dlfh.errors import InputError
from tests.bench.faked import faked

#: Demšar (2006), table 5: critical values of Nemenyi's test for two to ten methods.
PUBLISHED = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


@pytest.mark.parametrize("level", PUBLISHED)
def test_critical_values_are_the_published_ones(level: float) -> None:
    # With k (k + 1) / 6 blocks the difference is the critical value itself.
    for n_methods, value in enumerate(PUBLISHED[level], 2):
        scaled = critical_difference(n_methods, 1, level) / np.sqrt(n_methods * (n_methods + 1) / 6)
        assert scaled == pytest.approx(value, abs=0.0012)


def test_the_published_example_is_reproduced() -> None:
    # Demšar (2006), section 3.2.2: four methods on fourteen data sets.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    assert iman_davenport(9.28, 4, 14) == pytest.approx(3.69, abs=0.005)


_SCORES = st.tuples(st.integers(2, 8), st.integers(3, 7)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 5).map(float))
)


@given(_SCORES)
def test_ranks_and_statistic_match_the_definition(scores: np.ndarray) -> None:
    labels = [f"m{i}" for i in range(scores.shape[1])]
    ranking = rank_methods(labels, scores)
    # A rank is 1 plus the number of better scores plus half the number of equal ones.
    better = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    level = (scores[:, None, :] == scores[:, :, None]).sum(axis=2) - 1
    expected = (1 + better + level / 2).mean(axis=0)
    assert list(ranking.ranks.values()) == sorted(expected.tolist())
    assert [ranking.ranks[label] for label in labels] == pytest.approx(expected.tolist())
    assert sum(ranking.ranks.values()) == pytest.approx(len(labels) * (len(labels) + 1) / 2)
    if all(len(set(row)) == 1 for row in scores.tolist()):
        assert (ranking.statistic, ranking.p_value) == (0.0, 1.0)
    else:
        assert ranking.statistic == pytest.approx(friedmanchisquare(*scores.T).statistic)
    first = next(iter(ranking.ranks))
    assert set(ranking.tied_with_best()) | set(ranking.worse_than(first)) == set(labels)
    assert not set(ranking.tied_with_best()) & set(ranking.worse_than(first))


def test_a_method_that_is_always_better_differs_with_enough_blocks() -> None:
    scores = np.tile([0.3, 0.2, 0.1], (12, 1))
    ranking = rank_methods(["a", "b", "c"], scores)
    assert ranking.ranks == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert ranking.p_value == 0.0
    assert ranking.worse_than("a") == ["b", "c"]
    assert rank_methods(["a", "b", "c"], scores[:2]).worse_than("a") == []


def test_a_ranking_needs_three_methods_and_two_blocks() -> None:
    with pytest.raises(InputError, match="at least 3 methods and 2 blocks, got 2 and 4"):
        rank_methods(["a", "b"], np.zeros((4, 2)))
    with pytest.raises(InputError, match="at least 3 methods and 2 blocks, got 3 and 1"):
        rank_methods(["a", "b", "c"], np.zeros((1, 3)))


MAPS = {"a": 0.5, "b": 0.4, "c": 0.3}


def test_a_report_lists_every_run(source: Source, tmp_path: Path) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16, 32], "seeds": 2}))
    write_report(tmp_path, EXPERIMENTS["map"], plan, faked(plan, "map"))
    scores = read_scores(tmp_path)
    # Two rows, two lengths, three protocols, two directions, two runs.
    assert len(scores) == len(set(scores)) == 48
    assert {(score.data, score.map) for score in scores} == {("generated", 0.5)}
    assert {score.seed for score in scores} == {0, 1}


def report(folder: Path, data: str, maps: dict[str, float], bits: int = 64, seeds: int = 3) -> str:
    """Write the scores of a report in which row c is deterministic."""
    scores = [
        RunScore(data, row, bits, "unseen", direction, seed, value + 0.001 * seed)
        for row, value in maps.items()
        for direction in ("image → text", "text → image")
        for seed in range(1 if row == "c" else seeds)
    ]
    (folder / data / SCORES_FILE).parent.mkdir(parents=True)
    (folder / data / SCORES_FILE).write_text(scores_csv(scores), encoding="utf-8")
    return str(folder / data)


def test_reports_are_ranked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [report(tmp_path, "x", MAPS), report(tmp_path, "y", {**MAPS, "b": 0.6, "d": 0.1})]
    assert main(["bench", "rank", *reports, "--output", str(tmp_path / "rank")]) == 0
    printed = capsys.readouterr().out
    # Two data sets, two directions, three runs; row c counts in all three, and only one data set has row d.
    assert "12 comparisons" in printed
    assert "Omitted because not every data set has them: d." in printed
    lines = (tmp_path / "rank" / "tables" / "rank-unseen.csv").read_text(encoding="utf-8").splitlines()
    means = {tuple(line.split(",")[:3:2]): line.split(",")[3] for line in lines[1:]}
    assert {place: means[place] for place in means if place[1] in ("all", "x", "y")} == {
        ("a", "all"): "1.50", ("a", "x"): "1.00", ("a", "y"): "2.00",
        ("b", "all"): "1.50", ("b", "x"): "2.00", ("b", "y"): "1.00",
        ("c", "all"): "3.00", ("c", "x"): "3.00", ("c", "y"): "3.00",
    }  # fmt: skip
    assert (means["a", "ahead of"], means["c", "behind"]) == ("1", "2")
    assert "a ranks first and does not differ significantly from b." in printed
    assert (tmp_path / "rank" / "figures" / "rank-unseen.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert main(["bench", "rank", *reports, "--methods", "a,b,c,d", "--output", str(tmp_path / "rank")]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("no report", "name a report folder of `dlfh bench map`"),
        ("other columns", "was not written by `dlfh bench map`"),
        ("the same data", "2 reports cover 1 data sets: name one report per data set"),
        ("other bits", "the reports have no code length in common"),
        ("unknown row", "no report has the row 'z'"),
        ("too few", "a ranking needs at least 3 methods and 2 blocks, got 2 and 6"),
    ],
)
def test_reports_that_cannot_be_ranked_are_rejected(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports, more = [report(tmp_path, "x", MAPS)], []
    if change == "no report":
        reports.append(str(tmp_path / "none"))
    elif change == "other columns":
        (tmp_path / "x" / SCORES_FILE).write_text("row,map\na,b\n", encoding="utf-8")
    elif change == "the same data":
        reports.append(reports[0])
    elif change == "other bits":
        reports.append(report(tmp_path, "y", MAPS, bits=16))
    else:
        more = ["--methods", "a,z" if change == "unknown row" else "a,b"]
    assert main(["bench", "rank", *reports, *more, "--output", str(tmp_path / "rank")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "rank" / "rank.html").exists()
