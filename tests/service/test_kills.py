"""A killed service has stored every change that it acknowledged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def kill_services(folder: Path, kills: int, seed: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.service.kill_services", str(folder), str(kills), str(seed)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    counts: dict[str, int] = json.loads(result.stdout)
    return counts


@pytest.mark.slow
def test_killed_services_keep_acknowledged_changes(stripes_folder: Path, tmp_path: Path) -> None:
    counts = kill_services(Path(shutil.copytree(stripes_folder, tmp_path / "stripes")), kills=6, seed=0)
    assert counts["kills"] == 6
    assert counts["put"] > 0
    assert counts["in flight"] > 0


@pytest.mark.kill
def test_a_thousand_killed_services(stripes_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = int(os.environ.get("DLFH_KILLS", "1000"))
    counts = kill_services(Path(shutil.copytree(stripes_folder, tmp_path / "stripes")), kills, seed=1)
    with capsys.disabled():
        print(f"\n{counts}")
    assert counts["kills"] == kills
    assert counts["put"] > kills
    assert counts["removed"] > 0
