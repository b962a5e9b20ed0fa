"""Tuning by grids and halving never uses the queries."""

from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dlfh._selection import Trial
from dlfh.bench.cells import Cache
from dlfh.bench.data import Source, load_source
from dlfh.bench.plan import Plan
from dlfh.bench.runner import Runner
from dlfh.bench.settings import Settings
from dlfh.bench.tune import ParameterSearch, default_grid, parse_grid, tuned_toml
from dlfh.cli import main
from dlfh.datasets import make_paired
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS


def test_tuned_settings_keep_the_queries_that_tuning_never_saw(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["SCM"], "queries": 10, "unseen_share": 0.25, "resplit": False})
    search = ParameterSearch(Plan(source, settings), "SCM", {"ridge": [0.1, 1.0]}, bits=16)
    tuned = Settings.from_plain(tomllib.loads(tuned_toml([(search, [Trial({"ridge": 1.0}, np.array([0.5]))])])))
    (cell, *_) = search._cells({"ridge": 1.0}, None)
    asked = Plan(source, tuned).cell(tuned.row("SCM"), 16, seed=3)
    assert (asked.split.seed, asked.split.queries, asked.split.unseen_share) == (0, 10, 0.25)
    assert replace(cell.split, validation_share=0.0) == asked.split


def test_the_number_of_points_to_learn_from_can_be_tuned(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH"], "resplit": False}))
    search = ParameterSearch(plan, "DLFH", {"train_points": [20, 30]}, bits=16)
    assert [search._cells(each, None)[0].train_points for each in search.candidates()] == [20, 30]


def test_grids_are_parsed_as_toml() -> None:
    assert parse_grid(["a=1,2.5,x", "b=true"]) == {"a": [1, 2.5, "x"], "b": [True]}
    for wrong in ("a", "=1", "a=", "a=1,,2"):
        with pytest.raises(InputError, match="a grid must be NAME=VALUE,VALUE"):
            parse_grid([wrong])
    with pytest.raises(InputError, match="the grid has 'a' twice"):
        parse_grid(["a=1", "a=2"])


@pytest.mark.slow
def test_halving_finds_the_best_of_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_paired(120, n_labels=4, random_state=0).write(tmp_path / "own.npz")
    # Without iterations, codes are random.
    command = f"tune DLFH {tmp_path / 'own.npz'} --grid max_iter=0,20,1 --grid scale=8 --bits 16 --protocol learned"
    assert main([*command.split(), "--jobs", "1", "--cache", str(tmp_path / "run")]) == 0
    assert "best: max_iter = 20, scale = 8" in capsys.readouterr().out
    tuned = tmp_path / "run" / "tuned-DLFH.toml"
    settings = Settings.read(tuned)
    assert settings.row("DLFH").at(16) == {"max_iter": 20, "scale": 8}
    assert (settings.methods, settings.bits, settings.resplit) == (("DLFH",), (16,), False)

    plan = Plan(load_source(str(tmp_path / "own.npz")), Settings.from_plain({"seeds": 3, "resplit": False}))
    whole = ParameterSearch(plan, "DLFH", {"max_iter": [0, 20, 1], "scale": [8]}, bits=16, protocol="learned")
    runner = Runner(Cache(tmp_path / "run"), Settings(jobs=1))
    n_computed = len(list((tmp_path / "run" / "cells").iterdir()))
    trials = whole.run(runner)
    assert [trial.candidate["max_iter"] for trial in trials] == [20, 1, 0]
    halved = replace(whole, halving="seeds")
    kept = halved.run(runner)
    assert len(list((tmp_path / "run" / "cells").iterdir())) == n_computed == 9
    assert (kept[0].candidate, kept[0].score) == (trials[0].candidate, trials[0].score)
    assert [trial.budget for trial in kept] == [3, 1, 1]
    assert "eliminated at seeds = 1" in halved.table(kept).to_text()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_eight_candidates_including_its_default(name: str, source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": [name], "resplit": False}))
    search = ParameterSearch(plan, name, default_grid(name), bits=16)  # checks the parameters of every candidate
    candidates = search.candidates()
    assert len(candidates) == 8
    known = METHODS[name]().get_params(deep=False)
    assert {parameter: known[parameter] for parameter in candidates[0]} in candidates


@pytest.mark.slow
def test_several_methods_are_tuned_with_one_budget_and_the_settings_run_in_a_bench(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_paired(120, n_labels=4, random_state=0).write(tmp_path / "own.npz")
    run = ["--cache", str(tmp_path / "run"), "--jobs", "1"]
    command = f"tune CVH,SCM {tmp_path / 'own.npz'} --bits 16 --seeds 1 --size 60"
    assert main([*command.split(), *run]) == 0
    assert "best: SCM: variant = " in capsys.readouterr().out
    tuned = tmp_path / "run" / "tuned-CVH-SCM.toml"
    settings = Settings.read(tuned)
    assert (settings.methods, settings.bits, settings.resplit) == (("CVH", "SCM"), (16,), False)
    listed = list(
        csv.DictReader(tuned.with_name("tuned-CVH-SCM-candidates.csv").read_text(encoding="utf-8").splitlines())
    )
    assert [sum(line["method"] == name for line in listed) for name in ("CVH", "SCM")] == [8, 8]
    scores = [float(line["mean"]) for line in listed if line["method"] == "SCM"]
    assert scores == sorted(scores, reverse=True)
    best = next(line["parameters"] for line in listed if line["method"] == "SCM")
    assert best == ", ".join(f"{name} = {value}" for name, value in settings.row("SCM").parameters.items())
    cells = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "run" / "cells").iterdir()]
    assert {(each["cell"]["split"]["size"], each["values"]["n_train"]) for each in cells} == {(60, 60)}
    # A bench with these settings has the queries that tuning never used.
    assert main(["bench", "map", str(tmp_path / "own.npz"), "--settings", str(tuned), "--seeds", "1", *run]) == 0


def test_methods_without_an_evaluated_candidate_are_left_out_of_the_settings(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["SCM", "CVH"], "resplit": False}))
    searches = [ParameterSearch(plan, name, {"ridge": [0.1]}, bits=16) for name in ("SCM", "CVH")]
    failed = [Trial({"ridge": 0.1}, np.empty(0), note="not finished in 3 minutes")]
    text = tuned_toml([(searches[0], failed), (searches[1], [Trial({"ridge": 0.1}, np.array([0.5]))])])
    assert tomllib.loads(text)["methods"] == ["CVH"]
    with pytest.raises(InputError, match="no candidate could be evaluated: not finished in 3 minutes"):
        tuned_toml([(searches[0], failed)])
