"""Figures are reproducible."""

from __future__ import annotations

from tests.bench.faked import figure


def test_figures_are_reproducible() -> None:
    files = figure().files()
    assert files == figure().files()
    contents = {name.rpartition(".")[2]: content for name, content in files.items()}
    assert contents["svg"].startswith(b"<?xml")
    assert contents["png"].startswith(b"\x89PNG")
    assert contents["csv"].decode().splitlines()[:2] == ["panel,line,x,y", "a,DLFH,1,0.5"]
