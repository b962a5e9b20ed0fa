"""Computes cells in worker processes: each once, the largest first, within limits, resumable.

    python -m dlfh.bench.runner DATA THREADS BYTES

is a worker: JSON lines in, JSON lines out. Its first line of output announces that the data is loaded. It exits as soon
as its standard input closes, even in the middle of a cell, so that a killed run leaves no workers behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from dlfh._parallel import available_cores
from dlfh._progress import Advance, progress
from dlfh.bench.cells import Cache, Cell, Result, describe_machine
from dlfh.bench.data import Source
from dlfh.bench.measure import given_codes, retrieval, training_time
from dlfh.bench.settings import Settings
from dlfh.errors import DLFHError, InputError
from dlfh.methods.catalogue import METHODS

_TICK = 0.1  # seconds between two checks of the workers' memory and time
_READY = "ready"  # first line of output
#: Approximate cost of a cell relative to DLFH.
_WEIGHTS = {
    **{"CRH": 40.0, "MLBE": 40.0, "SePH": 20.0, "CMSSH": 6.0, "SCRATCH": 6.0},
    **{"KDLFH": 5.0, "CMFH": 4.0, "SMFH": 4.0, "PDH": 4.0, "LFH": 2.0},
}
#: A worker and its answer; the answer is None when the process has ended.
Message: TypeAlias = "tuple[Worker, dict[str, Any] | None]"
#: Environment variables that limit the threads of a process.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Worker:
    """A worker process: it puts its results into the queue ``messages``, and its output goes to a log in ``folder``."""

    def __init__(self, data: Path, threads: int, memory: int, messages: queue.Queue[Message], folder: Path) -> None:
        command = [sys.executable, "-m", "dlfh.bench.runner", str(data.resolve()), str(threads), str(memory)]
        self.log = folder / "workers.log"
        env = os.environ | dict.fromkeys(_THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=env, encoding="utf-8")
        self.started = time.monotonic()
        self.is_ready = False
        self._reader = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self._reader.start()

    def _read(self, messages: queue.Queue[Message]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == _READY:
                self.is_ready = True
                continue
            with contextlib.suppress(json.JSONDecodeError):  # a partial line: the process ended while writing it
                messages.put((self, json.loads(line)))
        messages.put((self, None))

    def send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self.started = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # the reader reports that the process has ended
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        """Return the memory in use, or 0 where the system does not report it."""
        try:
            fields = Path(f"/proc/{self._process.pid}/statm").read_text().split()
            return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    def describe_end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may have just closed its output, and exit soon
            self._process.wait(timeout=5)
        status = self._process.poll()
        if status is None:
            return "closed its output"
        return f"ended by signal {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def relative_cost(cell: Cell, n_train: int) -> float:
    """Estimate the cost of a cell, in arbitrary units, from its method, code length and number of training points."""
    return _WEIGHTS.get(cell.method, 1.0) * cell.bits * n_train


def n_workers(settings: Settings) -> int:
    """Return the number of worker processes; their threads together do not exceed the cores."""
    cores = available_cores()
    if settings.threads > cores:
        raise InputError(f"threads is {settings.threads} but there are only {cores} cores")
    limit = cores // settings.threads
    return limit if settings.jobs is None else min(settings.jobs, limit)


class Runner:
    """Computes the cells of one data set that are not cached yet; ``retry`` repeats failed ones.

    Cells of kind "retrieval" run in parallel. Those of kind "time" follow one at a time, each method in a new process.
    """

    def __init__(self, cache: Cache, settings: Settings, *, show: bool = False, retry: bool = False) -> None:
        self.cache, self.settings, self.show, self.retry = cache, settings, show, retry
        self._machine = describe_machine()
        self._lost: dict[Cell, Result] = {}
        self._checked = 0.0

    def run(self, source: Source, cells: Iterable[Cell]) -> dict[Cell, Result]:
        """Return the results of all cells, computing the missing ones."""
        cells = list(dict.fromkeys(cells))
        self._lost = {}
        n_processes = n_workers(self.settings)
        with self.cache.exclusive():
            costs = {cell: relative_cost(cell, source.n_train(cell.split)) for cell in cells if self._is_missing(cell)}
            if costs:
                data = source.save(self.cache.folder)
                with progress(self.show) as bar:
                    advance = bar.counter("cells", len(costs))
                    parallel = {cell: cost for cell, cost in costs.items() if cell.kind != "time"}
                    self._compute(data, parallel, n_processes, self.settings.threads, advance)
                    for method in dict.fromkeys(cell.method for cell in costs if cell.kind == "time"):
                        timed = {c: cost for c, cost in costs.items() if c.kind == "time" and c.method == method}
                        self._compute(data, timed, 1, available_cores(), advance)
        return {cell: self._result(cell) for cell in cells}

    def _is_missing(self, cell: Cell) -> bool:
        result = self.cache.get(cell)
        if result is None:
            return True
        limits = {"minutes": self.settings.cell_minutes, "gigabytes": self.settings.memory_gb}
        return result.failure is not None and (self.retry or result.may_succeed_with(limits))

    def _result(self, cell: Cell) -> Result:
        result = self._lost.get(cell) or self.cache.get(cell)
        if result is None:
            raise InputError(f"a result disappeared from {self.cache.cells}: run the same command again")
        return result

    def _compute(self, data: Path, costs: dict[Cell, float], n_processes: int, threads: int, advance: Advance) -> None:
        # The last cell in the list starts first. Large cells come first, so that none runs alone at the end. If cells
        # are timed, small ones come first: memory that a large one left allocated would count in the next peak.
        is_timed = any(cell.kind == "time" for cell in costs)
        waiting = sorted(costs, key=lambda cell: costs[cell], reverse=is_timed)
        messages: queue.Queue[Message] = queue.Queue()
        memory = int(self.settings.memory_gb * 1e9)
        busy: dict[Worker, Cell] = {}
        idle: list[Worker] = []
        try:
            while waiting or busy:
                while waiting and len(busy) < n_processes:
                    worker = idle.pop() if idle else Worker(data, threads, memory, messages, self.cache.folder)
                    cell = busy[worker] = waiting.pop()
                    self.cache.log("started", cell)
                    worker.send(cell.plain())
                for worker, answer in self._answers(messages, busy):
                    cell = busy.pop(worker)
                    if answer is None:
                        self._retry_or_fail(cell, worker, waiting, advance)
                        continue
                    if worker.is_alive:
                        idle.append(worker)
                    else:
                        worker.end()
                    self._record(cell, answer, waiting, advance)
        finally:
            for worker in (*busy, *idle):
                worker.end()

    def _record(self, cell: Cell, answer: dict[str, Any], waiting: list[Cell], advance: Advance) -> None:
        """Cache the result of a cell, and skip larger cells that would exceed the same limit."""
        values, times = answer.get("values", {}), answer.get("times", {})
        result = Result(values, times, answer.get("failure"), answer.get("limit"), self._machine)
        self.cache.put(cell, result)
        self._lost.pop(cell, None)
        advance()
        if cell.kind == "time" and result.limit is not None:
            for larger in [other for other in waiting if _without_size(other) == _without_size(cell)]:
                waiting.remove(larger)
                self.cache.put(larger, replace(result, failure=f"not tried: with fewer points {result.failure}"))
                advance()

    def _retry_or_fail(self, cell: Cell, worker: Worker, waiting: list[Cell], advance: Advance) -> None:
        """Retry a cell whose worker died; the second time, record a failure, which is not cached."""
        ended = worker.describe_end()
        worker.end()
        if not worker.is_ready:
            raise DLFHError(f"a worker {ended} before its first cell: see {worker.log}")
        if cell not in self._lost:
            waiting.append(cell)
        else:
            advance()
        self._lost[cell] = Result({}, {}, f"its process {ended}", None, self._machine)

    def _answers(self, messages: queue.Queue[Message], busy: dict[Worker, Cell]) -> list[Message]:
        """Wait briefly for answers, and stop workers that exceed their limits."""
        answers: list[Message] = []
        with contextlib.suppress(queue.Empty):
            answers.append(messages.get(timeout=_TICK))
        answers = [message for message in answers if message[0] in busy]  # ignore workers that were stopped
        if time.monotonic() - self._checked > _TICK:
            self._checked = time.monotonic()
            done = {worker for worker, _ in answers}
            over = ((worker, self._stop_if_over_limit(worker)) for worker in busy if worker not in done)
            answers += [(worker, answer) for worker, answer in over if answer is not None]
        return answers

    def _stop_if_over_limit(self, worker: Worker) -> dict[str, Any] | None:
        minutes, gigabytes = self.settings.cell_minutes, self.settings.memory_gb
        if time.monotonic() - worker.started > 60 * minutes:
            worker.end()
            return {"failure": f"not finished in {minutes:g} minutes", "limit": {"minutes": minutes}}
        if worker.resident_bytes() > gigabytes * 1e9:
            worker.end()
            return {"failure": f"needs more than {gigabytes:g} GB of memory", "limit": {"gigabytes": gigabytes}}
        return None


def _without_size(cell: Cell) -> Cell:
    return replace(cell, split=replace(cell.split, size=None))


def compute(request: dict[str, Any], source: Any, threads: int, memory: int) -> dict[str, Any]:
    """Compute a cell and return its values and times, or the reason why it failed."""
    cell = Cell.from_plain(request)
    measure = {"retrieval": retrieval, "time": training_time, "codes": given_codes}[cell.kind]
    started, used = time.perf_counter(), time.process_time()
    try:
        values, times = measure(cell, source.split(cell.split), threads, memory)
    except DLFHError as error:
        # A method with a memory limit may have failed because of it, so a higher limit is worth a retry.
        is_limited = cell.kind != "codes" and "memory" in METHODS[cell.method]().get_params(deep=False)
        return {"failure": str(error), "limit": {"gigabytes": memory / 1e9} if is_limited else None}
    except MemoryError:
        return {"failure": "out of memory"}
    except Exception as error:  # one failing cell must not end the run; the tables show the error
        return {"failure": f"{type(error).__name__}: {error}"}
    spent = {"total": time.perf_counter() - started, "processor": time.process_time() - used}
    return {"values": values, "times": times | spent}


def work() -> None:
    """Answer requests until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    data, threads, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    requests: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    source = Source.open(data)
    answers.write(_READY + "\n")
    while True:
        answer = compute(json.loads(requests.get()), source, threads, memory)
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    work()
