"""Computes cells in worker processes: each once, largest first, within limits, resumable."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlfh._parallel import available_cores
from dlfh.bench.cache import Cache, Result
from dlfh.bench.cells import Cell
from dlfh.bench.cost import Costs
from dlfh.bench.data import Source
from dlfh.bench.display import Display
from dlfh.bench.machine import describe_machine
from dlfh.bench.process import Message, Process
from dlfh.errors import DLFHError, InputError

__all__ = ["Limits", "Results", "Runner"]

#: Seconds between looks at the workers' memory and time.
_TICK = 0.1


@dataclass(frozen=True)
class Limits:
    """What a run may use.

    Attributes
    ----------
    jobs : int or None
        Worker processes; by default as many as there are cores for.
    threads : int
        Threads of each worker. The results of some methods depend on it in their last digits.
    gigabytes : float
        Memory that one cell may use, data included.
    minutes : float
        Time that one cell may take.
    """

    jobs: int | None = None
    threads: int = 1
    gigabytes: float = 8.0
    minutes: float = 60.0

    def n_workers(self) -> int:
        """Return the number of workers, so that their threads are no more than the cores."""
        cores = available_cores()
        if self.threads > cores:
            raise InputError(f"threads is {self.threads} but there are only {cores} cores")
        most = cores // self.threads
        return most if self.jobs is None else min(self.jobs, most)


class Results:
    """The results of a run by cell."""

    def __init__(self, found: dict[Cell, Result]) -> None:
        self._found = found

    def __getitem__(self, cell: Cell) -> Result:
        return self._found[cell]

    def scores(self, cell: Cell, protocol: str, direction: str) -> dict[str, Any] | None:
        """Return what a cell measured in a protocol and a direction, None if it did not."""
        found: dict[str, Any] | None = self[cell].values.get("protocols", {}).get(protocol, {}).get(direction)
        return found

    def items(self) -> Iterable[tuple[Cell, Result]]:
        return self._found.items()

    def __len__(self) -> int:
        return len(self._found)


class Runner:
    """Computes cells of one data set that are not in the cache yet.

    Cells of kind "retrieval" run side by side, one thread each by default. Cells of kind "time" follow, one after
    another with every core, each method in a process of its own.

    Parameters
    ----------
    cache : Cache
    limits : Limits
    show : bool
        Whether to show progress on standard error.
    retry : bool
        Whether to compute again what failed before.
    """

    def __init__(self, cache: Cache, limits: Limits | None = None, *, show: bool = False, retry: bool = False) -> None:
        self.cache, self.limits, self.show, self.retry = cache, limits or Limits(), show, retry
        self._machine = describe_machine()
        self._lost: dict[Cell, Result] = {}
        self._looked = 0.0
        self._budget = {"minutes": self.limits.minutes, "gigabytes": self.limits.gigabytes}

    def run(self, source: Source, cells: Iterable[Cell]) -> Results:
        """Return the results of all cells; compute those that are missing."""
        wanted = list(dict.fromkeys(cells))
        self._lost = {}
        n_workers = self.limits.n_workers()
        with self.cache.alone():
            missing = [cell for cell in wanted if self._is_missing(cell)]
            if missing:
                data = source.save(self.cache.folder)
                costs = Costs({cell: source.n_train(cell.deal) for cell in wanted})
                for cell in wanted:
                    done = self.cache.get(cell)
                    if done is not None and "total" in done.times:
                        costs.add(cell, done.times["total"])
                with Display(self.show, missing, costs, n_workers) as display:
                    together = [cell for cell in missing if cell.kind != "time"]
                    alone = [cell for cell in missing if cell.kind == "time"]
                    self._compute(data, together, n_workers, self.limits.threads, costs, display)
                    for method in dict.fromkeys(cell.method for cell in alone):
                        same = [cell for cell in alone if cell.method == method]
                        self._compute(data, same, 1, available_cores(), costs, display)
        return Results({cell: self._result(cell) for cell in wanted})

    def _is_missing(self, cell: Cell) -> bool:
        result = self.cache.get(cell)
        if result is None:
            return True
        return result.failure is not None and (self.retry or result.may_succeed_with(self._budget))

    def _result(self, cell: Cell) -> Result:
        result = self._lost.get(cell) or self.cache.get(cell)
        if result is None:
            raise InputError(f"the result of a cell went missing from {self.cache.cells}: run the same command again")
        return result

    def _compute(
        self, data: Path, cells: list[Cell], n_workers: int, threads: int, costs: Costs, display: Display
    ) -> None:
        """Compute cells in so many processes of so many threads."""
        # What is last is popped first: large cells, so that none is left over in the end; of timed ones the small,
        # so that what they leave in memory is no part of the next one's peak.
        waiting = sorted(cells, key=costs.prior, reverse=bool(cells) and cells[0].kind == "time")
        messages: queue.Queue[Message] = queue.Queue()
        memory = int(self.limits.gigabytes * 1e9)
        busy: dict[Process, Cell] = {}
        idle: list[Process] = []
        try:
            while waiting or busy:
                while waiting and len(busy) < n_workers:
                    process = idle.pop() if idle else Process(data, threads, memory, messages, self.cache.folder)
                    cell = busy[process] = waiting.pop()
                    self.cache.log("started", cell)
                    display.start(cell)
                    process.send(cell.plain())
                for process, answer in self._answers(messages, busy):
                    cell = busy.pop(process)
                    if answer is None:
                        ended = process.describe_end()
                        process.end()
                        self._lose(cell, process, ended, waiting, display)
                        continue
                    if process.is_alive:
                        idle.append(process)
                    else:
                        process.end()
                    costs.add(cell, time.monotonic() - process.began)
                    self._keep(cell, answer, waiting, display)
        finally:
            for process in (*busy, *idle):
                process.end()

    def _keep(self, cell: Cell, answer: dict[str, Any], waiting: list[Cell], display: Display) -> None:
        """Keep the result of a cell, and that of those that need not be tried any more."""
        values, times = answer.get("values", {}), answer.get("times", {})
        result = Result(values, times, answer.get("failure"), answer.get("limit"), self._machine)
        self.cache.put(cell, result)
        self._lost.pop(cell, None)
        display.finish(cell)
        for larger in _hopeless(cell, result, waiting):
            waiting.remove(larger)
            sentence = f"not tried: with fewer points {result.failure}"
            self.cache.put(larger, replace(result, failure=sentence))
            display.skip(larger)

    def _lose(self, cell: Cell, process: Process, ended: str, waiting: list[Cell], display: Display) -> None:
        """Try a cell once more whose process ended; the second time is its failure, in this run and in no other."""
        if not process.is_ready:
            raise DLFHError(f"a worker {ended} before its first cell: see {process.log}")
        display.drop(cell)
        if cell not in self._lost:
            waiting.append(cell)
        else:
            display.skip(cell)
        self._lost[cell] = Result({}, {}, f"its process {ended}", None, self._machine)

    def _answers(self, messages: queue.Queue[Message], busy: dict[Process, Cell]) -> list[Message]:
        """Wait for an answer, None from a worker that is gone, or find workers that are over their limits."""
        answers: list[Message] = []
        with contextlib.suppress(queue.Empty):
            answers.append(messages.get(timeout=_TICK))
        answers = [message for message in answers if message[0] in busy]  # not the end of one that was stopped
        if time.monotonic() - self._looked > _TICK:
            self._looked = time.monotonic()
            done = {process for process, _ in answers}
            over = ((process, self._over_limit(process)) for process in busy if process not in done)
            answers += [(process, answer) for process, answer in over if answer is not None]
        return answers

    def _over_limit(self, process: Process) -> dict[str, Any] | None:
        """End a worker that uses more than it may, and say so."""
        minutes, gigabytes = self.limits.minutes, self.limits.gigabytes
        if time.monotonic() - process.began > 60 * minutes:
            process.end()
            return {"failure": f"not finished in {minutes:g} minutes", "limit": {"minutes": minutes}}
        if process.resident_bytes() > gigabytes * 1e9:
            process.end()
            return {"failure": f"needs more than {gigabytes:g} GB of memory", "limit": {"gigabytes": gigabytes}}
        return None


def _hopeless(cell: Cell, result: Result, waiting: list[Cell]) -> list[Cell]:
    """Return the cells that measure the time of the same with more points, if this was over a limit already."""
    if cell.kind != "time" or result.limit is None:
        return []
    same = replace(cell.deal, size=None)
    return [
        each
        for each in waiting
        if (each.method, each.parameters, each.bits) == (cell.method, cell.parameters, cell.bits)
        and replace(each.deal, size=None) == same
    ]
