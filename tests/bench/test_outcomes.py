"""What every run gave is kept, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.outcomes import OUTCOMES_FILE, read_outcomes
from dlfh.bench.plan import Plan
from dlfh.bench.report import write_report
from dlfh.bench.settings import Settings
from dlfh.errors import InputError
from tests.bench.faked import faked


def test_a_report_keeps_every_run(source: Source, tmp_path: Path) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16, 32], "seeds": 2}))
    write_report(tmp_path, EXPERIMENTS["map"], plan, faked(plan, "map"))
    outcomes = read_outcomes(tmp_path)
    # Two rows, two lengths, three protocols, two directions, two runs.
    assert len(outcomes) == len(set(outcomes)) == 48
    assert {(each.data, each.map) for each in outcomes} == {("generated", 0.5)}
    assert {each.seed for each in outcomes} == {0, 1}


def test_what_no_report_wrote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it must be a folder of dlfh bench map"):
        read_outcomes(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / OUTCOMES_FILE).write_text("data,row,bits\nx,y\n", encoding="utf-8")
    with pytest.raises(InputError, match="is not what dlfh bench map wrote"):
        read_outcomes(tmp_path)
