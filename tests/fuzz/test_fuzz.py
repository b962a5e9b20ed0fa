"""Damaged files of every format: no signal, no hang, no bomb, no raw exception, and no silent change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dlfh.errors import InputError
from tests.fuzz.cases import CORPUS, Case, ChangedError, Target, packed, unpacked
from tests.fuzz.pool import run_case, run_cases
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parent.parent.parent
KEPT = [path for target in TARGETS.values() for path in target.corpus()]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def fuzz(cases: int, first: int, findings: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(cases), "--first", str(first)]
    command += ["--findings", str(findings)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_damaged_files_of_every_format_are_refused_or_read(tmp_path: Path) -> None:
    result = fuzz(3, 0, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = {line.split()[0]: line.split()[1:4] for line in result.stdout.splitlines() if line.strip()}
    for name in TARGETS:
        cases, refused, loaded = map(int, counts[name])
        assert cases == refused + loaded == 3


@pytest.mark.fuzz
def test_thousands_of_damaged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = fuzz(int(os.environ.get("DLFH_FUZZ", "2000")), 1000, tmp_path)
    with capsys.disabled():
        print("\n" + result.stdout)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_regressions_stay_fixed(path: Path) -> None:
    summary = run_cases(_of_one(TARGETS[path.parent.name], unpacked(path)), [0], jobs=1)
    assert not summary.findings, summary.findings[0]


def test_every_folder_of_the_corpus_is_of_a_format() -> None:
    assert {path.parent.name for path in CORPUS.rglob("*.zip")} <= set(TARGETS)
    assert all(path.stat().st_size < 20_000 for path in CORPUS.rglob("*.zip"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_case_follows_from_its_number(name: str) -> None:
    assert packed(TARGETS[name].case(5)) == packed(TARGETS[name].case(5))
    assert len({packed(TARGETS[name].case(number)) for number in range(30)}) > 20


def test_a_kept_case_is_the_case(tmp_path: Path) -> None:
    case = Case({"a/b": b"\0\1", "c": b""}, signed=True)
    (tmp_path / "case.zip").write_bytes(packed(case))
    assert unpacked(tmp_path / "case.zip") == case


# The watch sees what it is there for


def _of_one(target: Target, case: Case) -> Target:
    return Target(target.name, lambda rng: case, target.use, target.prepare, target.seconds, target.megabytes)


def _die(case: Case, folder: Path) -> None:
    os.abort()


def _loop(case: Case, folder: Path) -> None:
    while True:
        pass


def _take(case: Case, folder: Path) -> None:
    len(b"x" * (80 << 20))


def _take_without_end(case: Case, folder: Path) -> None:
    taken = []
    while True:
        taken.append(b"x" * (16 << 20))


def _raise(case: Case, folder: Path) -> None:
    raise KeyError("raw")


def _speak(case: Case, folder: Path) -> None:
    raise InputError("and so on " * 1000)


def _change(case: Case, folder: Path) -> None:
    raise ChangedError("it is another one")


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (_die, "signal"),
        (_loop, "hang"),
        (_take, "memory"),
        (_take_without_end, "memory"),
        (_raise, "exception"),
        (_speak, "sentence"),
        (_change, "change"),
    ],
)
def test_the_watch_sees(use: object, kind: str) -> None:
    target = Target("bad", lambda rng: Case({}), use, seconds=0.2 if kind == "hang" else 60, megabytes=50)  # type: ignore[arg-type]
    summary = run_cases(target, range(3), jobs=2)
    assert [finding.kind for finding in summary.findings] == [kind] * 3
    assert sorted(finding.seed for finding in summary.findings) == [0, 1, 2]


def test_a_new_worker_continues_after_one_died() -> None:
    def sometimes(case: Case, folder: Path) -> None:
        if b"4" in case.files["number"]:
            os.abort()

    target = Target("some", lambda rng: Case({"number": str(rng.randrange(10)).encode()}), sometimes)
    summary = run_cases(target, range(100), jobs=2)
    assert summary.cases == 100
    assert 0 < len(summary.findings) < 40
    assert re.match(r"python -m tests\.fuzz some \d+", summary.findings[0].command)


def test_one_case_can_be_run_again() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "npy", "3"]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        outcome, *_ = run_case(TARGETS["npy"], TARGETS["npy"].case(3), Path(folder))
    assert result.stdout.split()[0] == outcome
