"""The `dlfh bench` and `dlfh tune` commands on data sets of vectors."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import load_source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.settings import Settings
from dlfh.cli import main
from dlfh.datasets import make_paired
from dlfh.methods import SCM
from tests.test_terminal import has_controls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *([f"bench {name} no-such-data", "no data set or file 'no-such-data'"] for name in EXPERIMENTS),
        ("bench nothing icons", "EXPERIMENT must be one of 'map', 'time'"),
        ("bench map icons wiki", "bench map takes one data set, got 2"),
        ("bench map icons --check x.json", "--check does not apply to bench map"),
        ("bench rank a b --seeds 3", "--seeds does not apply to bench rank"),
        ("bench rank a b --bits 8,16", "bench rank takes one code length, got --bits 8,16"),
        ("bench splits icons --cache x", "--cache does not apply to bench splits"),
        ("bench map wiki", "wiki does not come with dlfh: name its file with --file, or try generated:wiki"),
        ("bench map wiki --file no-such-file.mat", "no-such-file.mat"),
        ("bench map generated:nothing", "unknown data set 'nothing'"),
        ("bench map icons --points 9", "--points applies only to generated data"),
        ("bench map generated:wiki --bits 8,x", "--bits takes comma-separated whole numbers"),
        ("bench map generated:wiki --bits 9999", "bits must be code lengths from 1 to 512"),
        ("bench map generated:wiki --methods DLHF", "unknown method 'DLHF'"),
        ("bench map generated:wiki --methods no_such_module:X", "cannot import no_such_module"),
        ("bench map generated:wiki --codes Mine", "--codes takes NAME=VALUE, got 'Mine'"),
        ("bench map generated:wiki --codes Mine=nowhere", "the codes 'Mine' must be in a folder"),
        ("bench map generated:wiki --codes SCM=.", "the codes 'SCM' have the name of a method: choose another"),
        ("bench map generated:wiki --points 60 --codes Mine=.", ". has no codes of 16, 32, 64 bits"),
        ("bench map generated:wiki --layout wide", "layout must be one of 'columns', 'paper', got 'wide'"),
        ("bench map generated:wiki --protocols seen", "unknown protocol 'seen'"),
        ("bench map generated:wiki --settings no.toml", "settings file no.toml does not exist"),
        ("bench map generated:wiki --settings broken.toml", "cannot read broken.toml as TOML settings"),
        ("bench map generated:wiki --settings wrong.toml", "wrong.toml: unknown setting 'bit'"),
        ("bench map generated:wiki --points 60 --output broken.toml", "broken.toml is a file, but a folder is needed"),
        (
            "tune SCM generated:wiki --points 60 --grid ridge=1 --protocol unified",
            "SCM does not support the unified protocol",
        ),
        (
            "bench map generated:wiki --points 60 --cache x --output own.npz",
            "own.npz is a file, but a folder is needed",
        ),
        ("bench map generated:wiki --points 60 --threads 9999", "threads is 9999 but there are only"),
        ("bench map own.npz --queries 999", "own has 40 points: 999 queries leave none for training"),
        ("bench map generated:wiki --points 60 --queries 9", "defines its own queries: omit the queries setting"),
        ("bench map generated:wiki --points 60 --memory-gb nan", "memory_gb must be finite, got nan"),
        ("bench map generated:wiki --points 60 --cell-minutes inf", "cell_minutes must be finite, got inf"),
        ("bench map own.npz --unseen-share 0.999", "unseen_share = 0.999 leaves 0 of 32 points for training"),
        ("bench map own.npz --settings refused.toml", "DLFH: scale must be a positive finite number, got 'abc'"),
        ("tune DLFH own.npz --grid scale=1,nan", "scale of DLFH must be finite, got nan"),
        ("tune DLFH own.npz --grid scale=2020-01-01,4", "scale of DLFH must be a number, a string, true or false"),
        ("tune DLFH own.npz --grid scale=1 --validation-share 0.999", "validation_share = 0.999 leaves 0 of 32 points"),
        ("tune DLFH own.npz --grid scale=1 --output .", "cannot write .: it is a folder"),
        ("tune DLFH,LSH generated:wiki", "unknown method 'LSH'"),
        ("tune DLFH generated:wiki --grid seeds=1,2", "seeds cannot be in the grid"),
        ("tune DLHF generated:wiki --grid scale=1", "unknown method 'DLHF'"),
        ("tune DLFH generated:wiki --grid lambda=1", "DLFH has no parameter 'lambda'"),
        ("tune DLFH generated:wiki --grid scale", "a grid must be NAME=VALUE,VALUE"),
        ("tune DLFH generated:wiki --grid scale=1 --halving luck", "--halving must be one of"),
        ("tune DLFH generated:wiki --grid scale=1 --protocol seen", "--protocol must be one of"),
        (
            "tune DLFH generated:wiki --points 60 --grid scale=1 --validation-share 2",
            "validation_share must be between 0 and 1",
        ),
        (
            "tune SCM generated:wiki --points 60 --grid ridge=1,2,3 --halving max_iter",
            "SCM does not support halving by max_iter",
        ),
    ],
    ids=lambda value: value if value.startswith(("bench", "tune")) else "",
)
def test_invalid_input_gets_one_line(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.toml").write_text("bits = [")
    (tmp_path / "wrong.toml").write_text("bit = 1")
    (tmp_path / "refused.toml").write_text('[parameters.DLFH]\nscale = "abc"\n')
    make_paired(40, n_labels=3, random_state=0).write(tmp_path / "own.npz")
    assert main(arguments.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dlfh: ")
    assert message in line
    assert {path.name for path in tmp_path.iterdir()} == {
        "broken.toml",
        "wrong.toml",
        "refused.toml",
        "own.npz",
    }  # no other files


def test_reports_and_settings_never_replace_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = (
        "bench map generated:wiki --points 60 --bits 4 --seeds 1 --methods SCM --jobs 1 -q --cache run --output run"
    )
    for name in ("map.md", "map.html", "map.toml"):
        (tmp_path / name).write_text("other")
        assert main([*command.split(), "--output", "."]) == 2
        assert f"cannot write {name}: the file exists and does not belong to a report" in capsys.readouterr().err
        assert (tmp_path / name).read_text() == "other"
        (tmp_path / name).unlink()
    assert not (tmp_path / "run").exists()
    assert main([*command.split(), "--output", "first"]) == 0
    table = min(path.name for path in (tmp_path / "first" / "tables").iterdir())
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / table).write_text("other")
    assert main([*command.split(), "--output", "."]) == 2
    assert f"cannot write tables/{table}: the file exists and does not belong to a report" in capsys.readouterr().err
    assert (tmp_path / "tables" / table).read_text() == "other"
    assert not (tmp_path / "map.html").exists()
    for more in ([], ["--settings", "run/map.toml"]):  # a report may replace itself
        assert main([*command.split(), *more]) == 0
    settings = (tmp_path / "run" / "map.toml").read_text()
    assert main([*command.replace("--bits 4", "--bits 5").split(), "--settings", "run/map.toml"]) == 2
    assert "these settings were read from it" in capsys.readouterr().err
    assert (tmp_path / "run" / "map.toml").read_text() == settings
    tune = "tune SCM generated:wiki --points 60 --grid ridge=1 --cache run -q --settings run/map.toml --output"
    assert main([*tune.split(), "run/map.toml", "--overwrite"]) == 2
    assert "it is also an input" in capsys.readouterr().err
    (tmp_path / "other.toml").write_text("other")
    assert main([*tune.split(), "other.toml"]) == 2
    assert "use --overwrite to replace it" in capsys.readouterr().err


def test_folder_names_are_printed_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = ["generated:wiki", "--points", "60", "--jobs", "1", "--cache", "run\x1b[2J\u202e"]
    assert main(["bench", "map", *data, "--bits", "8", "--seeds", "1", "--methods", "SCM", "--output", data[-1]]) == 0
    assert main(["tune", "SCM", *data, "--bits", "8", "--seeds", "1", "--grid", "ridge=1"]) == 0
    captured = capsys.readouterr()
    assert "report: run\\x1b[2J\\u202e/map.html" in captured.out
    assert "run\\x1b[2J\\u202e/tuned-SCM.toml" in captured.out
    assert not has_controls(captured.out + captured.err)


def test_report_and_cache_can_be_in_different_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "bench map generated:wiki --points 60 --methods SCM --bits 8 --jobs 1 --quiet"
    shown = tmp_path / "docs" / "wiki"
    assert main([*command.split(), "--layout", "paper", "--cache", str(tmp_path / "run"), "--output", str(shown)]) == 0
    assert {path.name for path in shown.iterdir()} == {"map.html", "map.md", "map.toml", "tables"}
    assert len(list((tmp_path / "run" / "cells").iterdir())) == 1
    assert not list((tmp_path / "run").glob("map.*"))
    # Printed and in the report: the tables to cite.
    cited = re.findall(r"^To cite: (\S+\.tex), ", capsys.readouterr().out, re.MULTILINE)
    assert cited == ["tables/map-unseen.tex", "tables/map-learned.tex"]
    assert all(f"To cite: {name}" in (shown / "map.html").read_text() for name in cited)
    assert r"\multirow{1}{*}{image $\to$ text} & SCM & " in (shown / cited[0]).read_text()


def test_settings_are_printed_and_options_take_precedence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text("bits = [8]\nseeds = 7\n[parameters.SCM]\nridge = 0.5\n")
    command = ["bench", "paper", "icons", "--settings", str(file), "--bits", "16,24", "--print-settings"]
    assert main(command) == 0
    settings = Settings.from_plain(tomllib.loads(capsys.readouterr().out))
    assert (settings.bits, settings.seeds, settings.row("SCM").parameters) == ((16, 24), 7, {"ridge": 0.5})
    assert settings.row("CRH").parameters["n_pairs"] == 500  # the default for the icons


def test_help_shows_an_example_of_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in (*EXPERIMENTS, "rank", "splits"):
        assert f"dlfh bench {name} " in shown


def test_the_command_imports_nothing_heavy() -> None:
    path = Path(sys.modules["dlfh.cli.bench"].__file__ or "")
    outside = re.findall(r"^(?:from|import) (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    light = {
        "__future__",
        "collections.abc",
        "contextlib",
        "dataclasses",
        "functools",
        "json",
        "pathlib",
        "typing",
        "typer",
        "dlfh._terminal",
        "dlfh.cli.options",
        "dlfh.errors",
    }
    assert set(outside) == light


@pytest.mark.slow
def test_codes_computed_elsewhere_are_a_row_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_paired(120, n_labels=4, random_state=0).write("own.npz")
    source = load_source("own.npz")
    Path("codes").mkdir()
    for seed in (0, 1):
        parts = source.split(SplitSpec(seed))
        model = SCM(16).fit(parts.train.modalities, parts.train.labels)
        arrays = {f"{name}_hashed": model.codes_[name] for name in ("image", "text")}
        arrays |= {f"{name}_queries": model.encode(name, parts.queries.modalities[name]) for name in ("image", "text")}
        np.savez(f"codes/16-{seed}.npz", **arrays)  # type: ignore[arg-type]
    options = "--methods SCM --codes Mine=codes --bits 16,32 --seeds 2 --protocols unseen,hashed,learned -o report"
    assert main(f"bench map own.npz {options} --quiet --jobs 1".split()) == 0, capsys.readouterr().err
    for protocol in ("unseen", "hashed"):
        lines = Path(f"report/tables/map-{protocol}.csv").read_text().splitlines()
        rows = {label: [line.split(",")[1:6] for line in lines if line.startswith(label)] for label in ("SCM", "Mine")}
        assert rows["Mine"][0] == rows["SCM"][0]  # 16 bits, image → text
        assert rows["Mine"][1][2] == ""  # there are none of 32 bits
    report = Path("report/map.md").read_text()
    assert "Mine: codes computed elsewhere, from codes; relevance, splits and measures are the same as for" in report
    assert "Mine,image → text,16 bits,,,0" in Path("report/tables/map-learned.csv").read_text()
    assert main(f"bench curves own.npz {options} --quiet --jobs 1 --bits 16".split()) == 0, capsys.readouterr().err
