"""Ranks over the reports of several data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlfh.bench.outcomes import OUTCOMES_FILE, Outcome, outcomes_csv
from dlfh.cli import main

MAPS = {"a": 0.5, "b": 0.4, "c": 0.3}


def report(folder: Path, data: str, maps: dict[str, float], bits: int = 64, seeds: int = 3) -> str:
    """Write what a report keeps of its runs: row c has nothing random in it."""
    outcomes = [
        Outcome(data, row, bits, "unseen", direction, seed, value + 0.001 * seed)
        for row, value in maps.items()
        for direction in ("image → text", "text → image")
        for seed in range(1 if row == "c" else seeds)
    ]
    (folder / data / OUTCOMES_FILE).parent.mkdir(parents=True)
    (folder / data / OUTCOMES_FILE).write_text(outcomes_csv(outcomes), encoding="utf-8")
    return str(folder / data)


def test_reports_are_ranked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [report(tmp_path, "x", MAPS), report(tmp_path, "y", {**MAPS, "b": 0.6, "d": 0.1})]
    assert main(["bench", "rank", *reports, "--output", str(tmp_path / "rank")]) == 0
    said = capsys.readouterr().out
    # Two data sets, two directions, three runs; row c stands in all three, row d is on one data set alone.
    assert "12 comparisons" in said
    assert "Left out, since not every data set has them: d." in said
    lines = (tmp_path / "rank" / "tables" / "rank-unseen.csv").read_text(encoding="utf-8").splitlines()
    means = {tuple(line.split(",")[:3:2]): line.split(",")[3] for line in lines[1:]}
    assert {place: means[place] for place in means if place[1] in ("all", "x", "y")} == {
        ("a", "all"): "1.50", ("a", "x"): "1.00", ("a", "y"): "2.00",
        ("b", "all"): "1.50", ("b", "x"): "2.00", ("b", "y"): "1.00",
        ("c", "all"): "3.00", ("c", "x"): "3.00", ("c", "y"): "3.00",
    }  # fmt: skip
    assert (means["a", "ahead of"], means["c", "behind"]) == ("1", "2")
    assert "a is first, and not told apart from b." in said
    assert (tmp_path / "rank" / "figures" / "rank-unseen.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert main(["bench", "rank", *reports, "--methods", "a,b,c,d", "--output", str(tmp_path / "rank")]) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("nothing there", "it must be a folder of dlfh bench map"),
        ("other words", "is not what dlfh bench map wrote"),
        ("the same data", "2 reports on 1 data sets: give one for each data set"),
        ("other bits", "the reports have no code length in common"),
        ("no such row", "no report has a row 'z'"),
        ("too few", "a ranking needs three methods and two blocks, got 2 and 6"),
    ],
)
def test_what_cannot_be_ranked_is_said(
    change: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports, more = [report(tmp_path, "x", MAPS)], []
    if change == "nothing there":
        reports.append(str(tmp_path / "none"))
    elif change == "other words":
        (tmp_path / "x" / OUTCOMES_FILE).write_text("row,map\na,b\n", encoding="utf-8")
    elif change == "the same data":
        reports.append(reports[0])
    elif change == "other bits":
        reports.append(report(tmp_path, "y", MAPS, bits=16))
    else:
        more = ["--methods", "a,z" if change == "no such row" else "a,b"]
    assert main(["bench", "rank", *reports, *more, "--output", str(tmp_path / "rank")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "rank" / "rank.html").exists()
