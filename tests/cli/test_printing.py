"""What commands print of users' data steers no terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.cli.app import main
from dlfh.cli.printing import plain, print_json, print_problems, print_table
from dlfh.datasets._tables import Problem

NASTY = "[red]a[/red] \x1b]0;title\x07 \x9b31m \u202e gpj.exe \ud800 \r\n b"


def steers(text: str) -> bool:
    return any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\ud800" for c in text.replace("\n", ""))


@given(st.text())
def test_plain_texts_have_no_control_characters(text: str) -> None:
    assert not steers(plain(text))
    assert "\n" not in plain(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_letters_of_every_script_stay(text: str) -> None:
    assert plain(text) == text


def test_tables_problems_and_json_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(NASTY, [NASTY], [[NASTY]])
    print_problems([Problem(NASTY, NASTY, NASTY)])
    print_json({"id": NASTY})
    written = capsys.readouterr()
    assert not steers(written.out + written.err)
    assert "[red]a[/red]" in written.out
    assert len(written.err.splitlines()) == 2


def test_json_comes_back_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({NASTY: NASTY})
    assert json.loads(capsys.readouterr().out) == {NASTY: NASTY}


def test_errors_that_name_a_path_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "no\x1b[31msuch\u202efile"]) == 2
    said = capsys.readouterr().err
    assert not steers(said)
    assert "no\\x1b[31msuch\\u202efile" in said
