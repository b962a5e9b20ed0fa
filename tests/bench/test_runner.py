"""Runs continue after any interruption, and report what failed."""

from __future__ import annotations

import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlfh.bench.cells import Cache, Cell, Result, SplitSpec
from dlfh.bench.data import Source, load_source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.plan import Plan
from dlfh.bench.report import write_report
from dlfh.bench.runner import Message, Runner, Worker, compute, n_workers, relative_cost
from dlfh.bench.settings import Settings
from dlfh.cli import main
from dlfh.errors import InputError

SETTINGS = """
methods = ["CCAITQ", "DLFH too-large", "SCM"]
bits = [4, 6]
seeds = 3
[parameters."DLFH too-large"]
sample_size = 100000
"""
N_CELLS = 2 * (3 + 3 + 1)  # SCM is deterministic
TOO_LARGE = "sample_size is 100000 but there are only 91 points"
ONE_JOB = Settings(jobs=1)


def command(folder: Path, settings: Path, jobs: int) -> list[str]:
    words = f"bench map generated:wiki --points 120 --settings {settings} --output {folder} --jobs {jobs}"
    return words.split()


def start(folder: Path, settings: Path, jobs: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dlfh", *command(folder, settings, jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Shells start background processes with interrupts ignored, which their children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def events(folder: Path, kind: str) -> list[str]:
    log = folder / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [event["key"] for event in map(json.loads, lines) if event["event"] == kind]


def results(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "cells").glob("*.json")}


def wait_for(process: subprocess.Popen[str], folder: Path, n_computed: int) -> None:
    while process.poll() is None and len(events(folder, "computed")) < n_computed:
        time.sleep(0.01)


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a report without what varies from run to run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = str(path.relative_to(folder))
        if relative.startswith(("tables/", "figures/")) and "seconds" not in relative:
            found[relative] = path.read_bytes()
    page = (folder / "map.html").read_text()
    page = re.sub(r'<section id="[a-z]+" class="varies">.*?</section>', "", page, flags=re.DOTALL)
    return found | {"map.html": re.sub(r"jobs = \d\n", "", page).encode()}


@pytest.mark.skipif(os.name != "posix", reason="kills process groups")
@pytest.mark.slow
def test_a_run_that_is_killed_at_random_continues_to_the_same_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "run.toml"
    settings.write_text(SETTINGS)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    chance = random.Random(0)

    first = start(killed, settings, jobs=1)
    wait_for(first, killed, 1)
    os.killpg(first.pid, signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 130
    assert errors.splitlines()[-1] == "dlfh: interrupted; run the same command again to continue"

    second = start(killed, settings, jobs=2)
    wait_for(second, killed, chance.randrange(3, 9))
    time.sleep(chance.random() / 50)
    os.killpg(second.pid, signal.SIGKILL)
    second.communicate()
    done_before, started_before = results(killed), len(events(killed, "started"))
    assert 1 <= len(done_before) < N_CELLS

    assert main(command(killed, settings, jobs=2)) == 0
    printed = capsys.readouterr().out
    assert main(command(whole, settings, jobs=1)) == 0
    assert capsys.readouterr().out == printed.replace(str(killed), str(whole))

    # The report does not depend on the number of processes; nothing is computed twice, and nothing is lost.
    assert files(killed) == files(whole)
    assert results(killed) == results(whole) == set(events(whole, "started"))
    assert len(results(killed)) == len(events(whole, "started")) == N_CELLS
    assert set(events(killed, "started")[started_before:]) == results(killed) - done_before
    assert max(Counter(events(killed, "computed")).values()) == 1
    assert len(events(killed, "started")) <= N_CELLS + 1 + 2  # the cells that each kill interrupted
    assert not list(killed.rglob(".saving-*"))

    # A cell that fails becomes a dash with a footnote, and does not stop the run.
    assert TOO_LARGE in printed
    for suffix in ("csv", "tex"):
        assert TOO_LARGE in (killed / "tables" / f"map-hashed.{suffix}").read_text().replace(r"\_", "_")
    table = (killed / "tables/map-hashed.csv").read_text()
    assert re.search(r"DLFH too-large,image → text,4 bits,,,0,,.*" + TOO_LARGE, table)
    assert TOO_LARGE in (killed / "map.html").read_text()


@pytest.fixture(scope="module")
def source() -> Source:
    return load_source("generated:wiki", n_points=120)


def scm_cell(source: Source) -> Cell:
    return Cell(source.name, source.fingerprint, "SCM", {}, bits=4, seed=0, split=SplitSpec())


@pytest.mark.parametrize(
    ("settings", "failure"),
    [
        (Settings(cell_minutes=1e-5), "not finished in 1e-05 minutes"),
        (Settings(memory_gb=1e-3), "needs more than 0.001 GB of memory"),
    ],
)
def test_a_cell_that_exceeds_a_limit_is_stopped(
    source: Source, tmp_path: Path, settings: Settings, failure: str
) -> None:
    if settings.memory_gb < 1 and not Path("/proc/self/statm").exists():
        pytest.skip("the system does not report the memory of a process")
    cell = scm_cell(source)
    for _ in range(2):  # with the same limits, it is not tried again
        assert Runner(Cache(tmp_path), settings).run(source, [cell])[cell].failure == failure
    assert len(events(tmp_path, "computed")) == 1


def test_a_method_that_refuses_for_lack_of_memory_is_retried_with_more(source: Source) -> None:
    refused = compute(replace(scm_cell(source), method="MLBE").plain(), source, threads=1, memory=1000)
    assert refused["failure"].startswith("MLBE on 91 points needs 0.0 GiB for their similarities")
    assert Result({}, {}, **refused).may_succeed_with({"gigabytes": 8, "minutes": 60})


def test_more_points_are_not_tried_if_fewer_took_too_long(source: Source, tmp_path: Path) -> None:
    cells = [replace(scm_cell(source), kind="time", split=SplitSpec(size=size)) for size in (None, 60, 50)]
    results = Runner(Cache(tmp_path), Settings(cell_minutes=1e-5)).run(source, cells)
    failure = "not finished in 1e-05 minutes"
    not_tried = f"not tried: with fewer points {failure}"
    assert [results[cell].failure for cell in cells] == [not_tried, not_tried, failure]
    assert len(events(tmp_path, "started")) == 1


def test_the_end_of_a_worker_is_reported(tmp_path: Path) -> None:
    messages: queue.Queue[Message] = queue.Queue()
    worker = Worker(tmp_path / "no-such-file", 1, 10**9, messages, tmp_path)
    worker.send({})
    assert messages.get(timeout=60) == (worker, None)
    assert not worker.is_ready
    assert worker.describe_end() == "ended with status 1"
    worker.end()


class Killed(Worker):
    """A worker that is killed before its first answers, ``kills`` times."""

    kills = 0

    def send(self, request: dict[str, Any]) -> None:
        while not self.is_ready:
            time.sleep(0.01)
        if Killed.kills:
            Killed.kills -= 1
            os.kill(self._process.pid, signal.SIGKILL)
        super().send(request)


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
@pytest.mark.slow
def test_a_cell_whose_worker_is_killed_is_retried_once(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlfh.bench.runner.Worker", Killed)
    cell = scm_cell(source)
    expected = compute(cell.plain(), source, threads=1, memory=10**10)["values"]
    Killed.kills = 2
    failed = Runner(Cache(tmp_path), ONE_JOB).run(source, [cell])[cell]
    assert failed.failure == "its process ended by signal SIGKILL"
    assert not results(tmp_path)  # the next run tries again
    Killed.kills = 1
    assert Runner(Cache(tmp_path), ONE_JOB).run(source, [cell])[cell].values == expected


def test_a_partial_answer_is_the_end_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "worker"))
    (tmp_path / "worker").write_text("#!/bin/sh\nprintf 'ready\\n{\"values\": {'\n")
    (tmp_path / "worker").chmod(0o755)
    messages: queue.Queue[Message] = queue.Queue()
    worker = Worker(tmp_path / "data", 1, 10**9, messages, tmp_path)
    assert messages.get(timeout=60) == (worker, None)
    assert worker.is_ready
    worker.end()


def test_damaged_data_is_written_again(source: Source, tmp_path: Path) -> None:
    data = source.save(tmp_path)
    whole = data.read_bytes()
    for damage in (whole[:1000], whole[:-8] + b"\2" * 8, b""):
        data.write_bytes(damage)
        assert source.save(tmp_path) == data
        assert Source.open(data).fingerprint == source.fingerprint
    kept = data.stat().st_mtime_ns
    assert source.save(tmp_path).stat().st_mtime_ns == kept


def test_damaged_results_are_computed_again(source: Source, tmp_path: Path) -> None:
    cell, other = scm_cell(source), replace(scm_cell(source), bits=9)
    cache = Cache(tmp_path)
    for each in (cell, other):
        cache.put(each, Result({"bits": each.bits}, {}))
        assert cache.get(each) == Result({"bits": each.bits}, {})
    path = cache.cells / f"{cell.key}.json"
    lacking = json.dumps(json.loads(path.read_text()) | {"values": None}).encode()
    for damage in (b"\xff", b"[]", b"{}", lacking, (cache.cells / f"{other.key}.json").read_bytes()):
        path.write_bytes(damage)
        assert cache.get(cell) is None
    assert Runner(cache, ONE_JOB).run(source, [cell])[cell].values.keys() >= {"protocols"}


def test_processes_times_threads_never_exceed_the_cores(source: Source, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for threads in range(1, cores + 1):
        for jobs in (None, 1, 2, 99):
            assert 1 <= n_workers(Settings(jobs=jobs, threads=threads)) * threads <= cores
    with pytest.raises(InputError, match="threads is 9999 but there are only"):
        Runner(Cache(tmp_path), Settings(threads=9999)).run(source, [])


@pytest.mark.slow
def test_all_experiments_share_one_report_and_their_cells(source: Source, tmp_path: Path) -> None:
    settings = Settings.from_plain(
        {
            "methods": ["DLFH paper"],
            "bits": [8],
            "seeds": 1,
            "jobs": 1,
            "protocols": ["learned"],
            "time": {"sizes": [50, 10**6], "bits": 8},
            "convergence": {"bits": [8], "iterations": 3},
            "sensitivity": {"rows": ["DLFH paper"], "bits": 8, "scales": [1.0, 8.0], "samples": [8, 10**6]},
        }
    )
    plan = Plan(source, settings)
    cells = EXPERIMENTS["paper"].cells(plan)
    assert set(EXPERIMENTS["curves"].cells(plan)) <= set(EXPERIMENTS["map"].cells(plan))
    assert len(set(cells)) < len(cells)
    results = Runner(Cache(tmp_path), settings).run(source, cells)
    assert not [result.failure for result in results.values() if result.failure]
    sections = {section.key: section for section in write_report(tmp_path, EXPERIMENTS["paper"], plan, results)}
    assert list(sections) == ["map-learned", "curves", "sensitivity", "convergence", "time", "seconds"]
    assert sections["convergence"].paragraphs[0].endswith("The full solver's objective never decreases.")
    full = results[
        next(cell for cell in cells if cell.parameters.get("solver") == "full" and cell.parameters["max_iter"] == 3)
    ]
    assert full.values["objective"] == sorted(full.values["objective"])
    assert [column for _, column in sections["time"].blocks[0].columns] == ["50", "91"]  # type: ignore[union-attr]
    assert all(entry.mean is not None for row in sections["time"].blocks[0].rows for entry in row.entries)  # type: ignore[union-attr]
    for block in (block for section in sections.values() for block in section.blocks):
        suffixes = ("csv", "tex") if hasattr(block, "to_latex") else ("csv", "svg", "png")
        folder = tmp_path / ("tables" if hasattr(block, "to_latex") else "figures")
        assert all((folder / f"{block.key}.{suffix}").stat().st_size > 100 for suffix in suffixes)
    text = (tmp_path / "paper.md").read_text(encoding="utf-8")
    drawn = [block.key for section in sections.values() for block in section.blocks if not hasattr(block, "to_latex")]
    assert re.findall(r"\]\(([^)]+)\)", text) == [f"figures/{key}.svg" for key in drawn]
    assert all(f"\n## {section.title}\n" in text for section in sections.values())


def test_slow_methods_long_codes_and_many_points_cost_more(source: Source) -> None:
    cell = scm_cell(source)
    base = relative_cost(cell, 100)
    assert relative_cost(replace(cell, bits=2 * cell.bits), 100) == relative_cost(cell, 200) == 2 * base
    assert relative_cost(replace(cell, method="CRH"), 100) > base
