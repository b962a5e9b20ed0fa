"""Ranks over the reports of several data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.plan import Plan
from dlfh.bench.ranking import SCORES_FILE, RunScore, read_scores, scores_csv
from dlfh.bench.report import write_report
from dlfh.bench.settings import Settings
from dlfh.cli import main
from tests.bench.faked import faked

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
