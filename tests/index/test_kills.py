"""A writer that is killed at any point leaves the state before or after the change in progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def kill_writers(folder: Path, kills: int, seed: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.index.kill_writers", str(folder), str(kills), str(seed)]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
def test_killed_writers_leave_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    counts = kill_writers(tmp_path / "index", kills=25, seed=0)
    assert counts["kills"] == 25
    assert counts["in flight"] >= 12
    assert counts["old"] > 0


@pytest.mark.kill
def test_a_thousand_killed_writers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = int(os.environ.get("DLFH_KILLS", "1000"))
    counts = kill_writers(tmp_path / "index", kills, seed=1)
    with capsys.disabled():
        print(f"\n{counts}")
    assert counts["kills"] == kills
    assert counts["old"] > 0
    assert counts["new"] > 0
