"""The cells of a run."""

from __future__ import annotations

from dlfh.bench.data import Source, load_source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.plan import Plan
from dlfh.bench.settings import Settings


def test_default_parameters_do_not_change_the_cell(source: Source) -> None:
    plan = Plan(source, Settings())
    row = plan.settings.row("DLFH")
    usual = plan.cell(row, 16, 0)
    assert plan.cell(row, 16, 0, changed={"scale": 8.0, "solver": "auto"}) == usual
    assert plan.cell(row, 16, 0, changed={"scale": 4.0}) != usual
    assert plan.cell(row, 16, 0, changed={"early_stopping": 1}) != usual  # invalid, but not equal to the default


def test_deterministic_methods_run_once_if_queries_are_fixed(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16], "seeds": 4})
    split = load_source("generated:wiki", n_points=60)
    assert len(set(EXPERIMENTS["map"].cells(Plan(split, settings)))) == 4 + 1
    assert len(set(EXPERIMENTS["map"].cells(Plan(source, settings)))) == 4 + 4
    fixed = settings.changed(resplit=False)
    assert len(set(EXPERIMENTS["map"].cells(Plan(source, fixed)))) == 4 + 1
