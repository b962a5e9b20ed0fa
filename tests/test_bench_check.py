"""The benchmark that guards the speed fails for slower code, and for nothing else."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks import check


def work(steps: int) -> int:
    return sum(range(steps))


def test_the_committed_ratios_pass_and_slower_ones_do_not() -> None:
    committed = json.loads(check.RATIOS.read_text())
    assert check.regressions(committed, committed) == []
    slower = committed | {"kernel encoding": 2 * committed["kernel encoding"]}
    (sentence,) = check.regressions(slower, committed)
    assert sentence.startswith("kernel encoding costs ")
    assert check.regressions({"new": 1.0}, committed) == [
        "new has no committed ratio: run python -m benchmarks.check --write"
    ]


def test_a_slowed_function_fails_and_the_same_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["check"])
    ratios = tmp_path / "ratios.json"
    ratios.write_text('{"work": 1.0}')
    monkeypatch.setattr(check, "RATIOS", ratios)
    for steps, code in ((100_000, 0), (300_000, 1)):
        group = {"work": (partial(work, steps), partial(work, 100_000))}
        monkeypatch.setattr(check, "GROUPS", [lambda group=group: group])
        assert check.main() == code
    shown = capsys.readouterr()
    assert shown.err.startswith("bench-check: work costs ")
    assert shown.err.count("\n") == 1
