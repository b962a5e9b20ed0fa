"""Progress of runs in a log file."""

from __future__ import annotations

import pytest

from dlfh.bench.progress import Progress, relative_cost
from tests.bench.test_cells import cell


def test_a_log_file_gets_lines_with_an_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("dlfh.bench.progress.time.monotonic", lambda: now)
    costs = {cell(bits=bits): relative_cost(cell(bits=bits), 100) for bits in (8, 16, 24)}
    with Progress(costs, show=True) as shown:
        for current, done in ((40.0, cell(bits=24)), (41.0, cell(bits=16)), (90.0, cell(bits=8))):
            now = current
            shown.finish(done)
    assert capsys.readouterr().err.splitlines() == [
        "3 cells to compute",
        "1 of 3 cells, about 40 s left",  # half of the cost is done
        "3 of 3 cells, about 0 s left",
    ]
    with Progress(costs, show=False) as hidden:
        hidden.finish(cell(bits=8))
    assert capsys.readouterr().err == ""


def test_slow_methods_long_codes_and_many_points_cost_more() -> None:
    base = relative_cost(cell(bits=16), 100)
    assert relative_cost(cell(bits=32), 100) == relative_cost(cell(bits=16), 200) == 2 * base
    assert relative_cost(cell(method="CRH"), 100) > base
