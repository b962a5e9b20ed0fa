"""Figures are reproducible."""

from __future__ import annotations

from tests.bench.faked import figure


def test_figures_are_reproducible() -> None:
    assert figure().svg == figure().svg
    assert figure().png == figure().png
    assert figure().png.startswith(b"\x89PNG")
    assert figure().to_csv().splitlines()[:2] == ["panel,line,x,y", "a,DLFH,1,0.5"]
