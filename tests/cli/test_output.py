"""What commands print of users' data has_controls no terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlfh.cli.app import main
from dlfh.cli.options import OutputOptions
from dlfh.cli.output import print_json, print_problems, print_table
from dlfh.datasets.problem import Problem
from tests.test_terminal import has_controls

NASTY = "[red]a[/red] \x1b]0;title\x07 \x9b31m \u202e gpj.exe \ud800 \r\n b"


def test_tables_problems_and_json_contain_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(NASTY, [NASTY], [[NASTY]])
    print_problems([Problem(NASTY, NASTY, NASTY)])
    print_json({"id": NASTY})
    written = capsys.readouterr()
    assert not has_controls(written.out + written.err)
    assert "[red]a[/red]" in written.out
    assert len(written.err.splitlines()) == 2


def test_json_is_read_back_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({NASTY: NASTY})
    assert json.loads(capsys.readouterr().out) == {NASTY: NASTY}


def test_errors_that_name_a_path_contain_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "no\x1b[31msuch\u202efile"]) == 2
    said = capsys.readouterr().err
    assert not has_controls(said)
    assert "no\\x1b[31msuch\\u202efile" in said


def test_lists_of_problems_accept_any_file_name(tmp_path: Path) -> None:
    """File names need not be valid text."""
    problem = Problem("photo-\udcff.png", NASTY, "no image")
    OutputOptions(tmp_path / "left.jsonl", as_json=True).report("", {}, [problem])
    written = (tmp_path / "left.jsonl").read_text()
    assert json.loads(written) == {"where": "photo-\udcff.png", "skipped": NASTY, "reason": "no image"}
    assert not has_controls(written)
