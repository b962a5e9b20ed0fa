"""Choosing parameters: grids, halving, and queries that tuning never sees."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from dlfh.bench.cache import Cache
from dlfh.bench.data import Source
from dlfh.bench.plan import Plan
from dlfh.bench.runner import Limits, Runner
from dlfh.bench.settings import Settings
from dlfh.bench.sources import load_source
from dlfh.bench.tables import Entry
from dlfh.bench.tune import Search, Trial, parse_grid
from dlfh.cli import main
from dlfh.datasets import make_paired, write_paired
from dlfh.errors import InputError


def test_tuned_settings_keep_the_queries_apart_that_tuning_never_saw(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["SCM"], "queries": 10, "held_out": 0.25, "resplit": False})
    search = Search(Plan(source, settings), "SCM", {"ridge": [0.1, 1.0]}, bits=16)
    tuned = Settings.from_plain(tomllib.loads(search.to_toml(Trial({"ridge": 1.0}, Entry(0.5)))))
    (cell, *_) = search._cells({"ridge": 1.0}, None)
    asked = Plan(source, tuned).cell(tuned.row("SCM"), 16, seed=3)
    assert (asked.deal.seed, asked.deal.queries, asked.deal.held_out) == (0, 10, 0.25)
    assert replace(cell.deal, validation=0.0) == asked.deal


def test_the_number_of_points_to_learn_from_can_be_tuned(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH"], "resplit": False}))
    search = Search(plan, "DLFH", {"train_points": [20, 30]}, bits=16)
    assert [search._cells(each, None)[0].train_points for each in search.candidates()] == [20, 30]


def test_a_grid_is_read_as_it_is_written() -> None:
    assert parse_grid(["a=1,2.5,x", "b=true"]) == {"a": [1, 2.5, "x"], "b": [True]}
    for wrong in ("a", "=1", "a=", "a=1,,2"):
        with pytest.raises(InputError, match="a grid is NAME=VALUE,VALUE"):
            parse_grid([wrong])
    with pytest.raises(InputError, match="the grid has a twice"):
        parse_grid(["a=1", "a=2"])


def test_halving_finds_what_the_grid_finds_and_its_settings_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_paired(tmp_path / "own.npz", make_paired(120, n_labels=4, random_state=0))
    # Codes that were never updated are random: any iterations at all are better.
    command = f"tune DLFH {tmp_path / 'own.npz'} --grid max_iter=0,20,1 --grid scale=8 --bits 16 --protocol learned"
    assert main([*command.split(), "--jobs", "1", "--out", str(tmp_path / "run")]) == 0
    assert "best: max_iter = 20, scale = 8" in capsys.readouterr().out
    tuned = tmp_path / "run" / "tuned-DLFH.toml"
    settings = Settings.read(tuned)
    assert settings.row("DLFH").at(16) == {"max_iter": 20, "scale": 8}
    assert (settings.methods, settings.bits, settings.resplit) == (("DLFH",), (16,), False)

    plan = Plan(load_source(str(tmp_path / "own.npz")), Settings.from_plain({"seeds": 3, "resplit": False}))
    whole = Search(plan, "DLFH", {"max_iter": [0, 20, 1], "scale": [8]}, bits=16, protocol="learned")
    runner = Runner(Cache(tmp_path / "run"), Limits(jobs=1))
    n_computed = len(list((tmp_path / "run" / "cells").iterdir()))
    trials = whole.run(runner)
    assert [trial.parameters["max_iter"] for trial in trials] == [20, 1, 0]
    halved = replace(whole, halving="seeds")
    kept = halved.run(runner)
    assert len(list((tmp_path / "run" / "cells").iterdir())) == n_computed == 9
    assert (kept[0].parameters, kept[0].score) == (trials[0].parameters, trials[0].score)
    assert [trial.resource for trial in kept] == [3, 1, 1]
    assert "left behind at seeds = 1" in halved.table(kept).to_text()
