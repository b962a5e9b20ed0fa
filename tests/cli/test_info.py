from __future__ import annotations

import re

import pytest

from dlfh.cli import main
from dlfh.methods import available


def test_every_entry_has_the_year_and_authors_of_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    for name, info in available().items():
        assert main(["cite", name]) == 0
        entry = capsys.readouterr().out
        surname = re.match(r"\w+", info.paper)
        year = re.search(r"\d{4}", info.paper)
        assert surname is not None
        assert year is not None
        assert re.search(rf"author = \{{{surname[0]}, ", entry), f"{name} is not by {surname[0]}"
        assert f"year = {{{year[0]}}}" in entry, f"{name} is not of {year[0]}"
        authors = re.search(r"author = \{(.+)\}", entry)
        assert authors is not None
        assert len(authors[1].split(" and ")) == len(re.split(r", | and ", info.paper.rpartition(",")[0]))


def test_every_paper_is_listed_once_and_unknown_methods_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "--all"]) == 0
    keys = re.findall(r"^@\w+\{(\w+),$", capsys.readouterr().out, re.MULTILINE)
    assert sorted(keys) == sorted(available().keys() - {"KDLFH"})
    assert main(["cite", "NOTHING"]) == 2
    assert "NOTHING" in capsys.readouterr().err
    assert main(["cite"]) == 2
