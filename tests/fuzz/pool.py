"""Cases are run in forked workers, and a parent watches them: time, memory, and signals.

A worker runs a few hundred cases, one after another, and says what came of each. Before each it notes in shared
memory which it is and when it began, so that the parent knows what was under way when a worker dies, and can end
one that takes too long or too much.
"""

from __future__ import annotations

import faulthandler
import io
import json
import mmap
import os
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlfh.errors import DataWarning, DLFHError
from tests.fuzz.cases import Case, ChangedError, Target

__all__ = ["Finding", "Summary", "run_case", "run_cases"]

#: Cases that one process runs before another takes its place.
BLOCK = 400
#: What no case may take in address space, whatever its budget: the machine is to survive.
ADDRESS_SPACE = 12 << 30
_MEGABYTE = 1 << 20
_SLOT = struct.Struct("<qd")
_LONGEST_SENTENCE = 4000
#: What NumPy says to who has such files, which is true, and what Python says of a header that NumPy parses and refuses.
_HARMLESS = re.compile("created on Python 2|invalid escape sequence|invalid decimal literal")
#: Cases are small, and so are the budgets of readers, that what takes more than its own is seen.
LIMITS = {"DLFH_MAX_BYTES": 64 << 20, "DLFH_MAX_PIXELS": 4_000_000, "DLFH_MAX_OBJECTS": 100_000}


@dataclass(frozen=True)
class Finding:
    """What should not have happened.

    Attributes
    ----------
    kind : str
        ``signal``, ``hang``, ``memory``, ``exception``, ``warning``, ``sentence`` or ``change``.
    what : str
        The same for all cases that show the same fault.
    details : str
    """

    format: str
    seed: int
    kind: str
    what: str
    details: str = ""

    @property
    def command(self) -> str:
        return f"python -m tests.fuzz {self.format} {self.seed}"


@dataclass
class Summary:
    """What came of the cases of one format."""

    format: str
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    peak_megabytes: float = 0.0
    slowest_seconds: float = 0.0
    slowest_seed: int = -1
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def add(self, report: dict[str, Any]) -> None:
        self.outcomes[report["outcome"]] += 1
        self.peak_megabytes = max(self.peak_megabytes, report["megabytes"])
        if report["seconds"] > self.slowest_seconds:
            self.slowest_seconds, self.slowest_seed = report["seconds"], report["seed"]
        if report["outcome"] == "finding":
            self.findings.append(
                Finding(self.format, report["seed"], report["kind"], report["what"], report["details"])
            )


def run_case(target: Target, case: Case, folder: Path) -> tuple[str, str, str, str]:
    """Run one case in this process; return its outcome, and kind, name and details of what was found."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            target.run(case, folder)
            outcome = "loaded"
        except DLFHError as error:
            outcome = "refused"
            sentence = str(error)
            if not sentence or len(sentence) > _LONGEST_SENTENCE or not sentence.isprintable():
                return "finding", "sentence", f"{type(error).__name__}: {_place(error)}", sentence[:_LONGEST_SENTENCE]
        except ChangedError as change:
            return "finding", "change", str(change), ""
        except Exception as error:
            what = f"{type(error).__name__} in {_place(error)}"
            return "finding", "exception", what, traceback.format_exc(limit=-12)
    for warning in caught:
        if not issubclass(warning.category, DataWarning) and not _HARMLESS.search(str(warning.message)):
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            return "finding", "warning", f"{warning.category.__name__} in {place}", str(warning.message)[:1000]
    return outcome, "", "", ""


def run_cases(target: Target, seeds: Iterable[int], jobs: int) -> Summary:
    """Run cases in several workers, and watch them."""
    target.prepare()
    summary, began = Summary(target.name), time.monotonic()
    blocks = _blocks(seeds)
    with tempfile.TemporaryDirectory(prefix="dlfh-fuzz-", dir=_fast_folder()) as scratch:
        workers: list[_Worker] = []
        try:
            while True:
                while len(workers) < jobs and (block := next(blocks, None)) is not None:
                    workers.append(_Worker(target, block, Path(scratch)))
                if not workers:
                    break
                select.select([worker.reading for worker in workers], [], [], 0.05)
                for worker in list(workers):
                    for report in worker.reports():
                        summary.add(report)
                    worker.watch()
                    if worker.ended():
                        for report in worker.reports():
                            summary.add(report)
                        lost = worker.lost_case()
                        if lost is not None:
                            summary.add(lost)
                        workers.remove(worker)
                        worker.close()
                        if worker.rest():
                            workers.append(_Worker(target, worker.rest(), Path(scratch)))
        finally:
            for worker in workers:
                worker.kill("interrupted")
                with suppress(ChildProcessError):
                    os.waitpid(worker.child, 0)
    summary.seconds = time.monotonic() - began
    return summary


def _blocks(seeds: Iterable[int]) -> Iterator[list[int]]:
    block: list[int] = []
    for seed in seeds:
        block.append(seed)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _fast_folder() -> str | None:
    """Return a folder in memory, where there is one: thousands of small files are written and flushed."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class _Worker:
    """A forked process that runs a block of cases."""

    def __init__(self, target: Target, seeds: list[int], scratch: Path) -> None:
        self.target, self.seeds = target, seeds
        self.slot = mmap.mmap(-1, _SLOT.size)
        _SLOT.pack_into(self.slot, 0, -1, 0.0)
        self.trace = tempfile.TemporaryFile()  # noqa: SIM115  (open for as long as the worker)
        self.folder = Path(tempfile.mkdtemp(dir=scratch))
        self.reading, writing = os.pipe()
        self.killed = ""
        self.status: int | None = None
        self._left = b""
        self._peak = 0.0
        sys.stdout.flush()
        sys.stderr.flush()
        self.child = os.fork()
        if self.child == 0:
            try:
                os.close(self.reading)
                self._work(writing)
                os._exit(0)
            except BaseException:
                os.write(self.trace.fileno(), traceback.format_exc().encode())
            finally:
                os._exit(97)
        os.close(writing)
        os.set_blocking(self.reading, False)
        self.resident = _resident(self.child)

    def _work(self, writing: int) -> None:
        """Be the child."""
        os.environ.update({name: str(limit) for name, limit in LIMITS.items()})
        faulthandler.enable(self.trace)
        faulthandler.register(signal.SIGUSR1, self.trace)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        for seed in self.seeds:
            case = self.target.case(seed)
            place = self.folder / "case"
            place.mkdir()
            _forget_peak()
            before, began = _peak(), time.monotonic()
            _SLOT.pack_into(self.slot, 0, seed, began)
            outcome, kind, what, details = run_case(self.target, case, place)
            _SLOT.pack_into(self.slot, 0, seed, 0.0)
            report: dict[str, Any] = {"seed": seed, "outcome": outcome, "seconds": time.monotonic() - began}
            report["megabytes"] = max(0.0, _peak() - before)
            if outcome != "finding" and report["megabytes"] > self.target.megabytes:
                kind, what = "memory", f"more than {self.target.megabytes} MB"
                report["outcome"], details = "finding", f"{report['megabytes']:.0f} MB, {outcome}"
            report |= {"kind": kind, "what": what, "details": details}
            os.write(writing, json.dumps(report).encode() + b"\n")
            shutil.rmtree(place, ignore_errors=True)

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker has said."""
        with suppress(BlockingIOError):
            while more := os.read(self.reading, 1 << 16):
                self._left += more
        *lines, self._left = self._left.split(b"\n")
        for line in lines:
            report = json.loads(line)
            self.seeds = self.seeds[self.seeds.index(report["seed"]) + 1 :]
            yield report

    def watch(self) -> None:
        """End the worker if the case under way takes too long or too much."""
        _, began = _SLOT.unpack_from(self.slot, 0)
        if not began or self.killed:
            return
        taken = _resident(self.child) - self.resident
        self._peak = max(self._peak, taken)
        if time.monotonic() - began > self.target.seconds:
            self.kill(f"more than {self.target.seconds:g} s")
        elif taken > 2 * self.target.megabytes + 200:
            self.kill(f"more than {self.target.megabytes} MB")

    def kill(self, why: str) -> None:
        self.killed = why
        with suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGUSR1)  # say where you are
            time.sleep(0.05)
            os.kill(self.child, signal.SIGKILL)

    def ended(self) -> bool:
        if self.status is None:
            child, status = os.waitpid(self.child, os.WNOHANG)
            if child:
                self.status = status
        return self.status is not None

    def lost_case(self) -> dict[str, Any] | None:
        """Return a report of the case that ended the worker, if one did."""
        assert self.status is not None
        if self.status == 0:
            return None
        seed, began = _SLOT.unpack_from(self.slot, 0)
        self.trace.seek(0)
        details = self.trace.read().decode(errors="replace")[-3000:]
        if seed < 0:
            raise RuntimeError(f"a worker ended before its first case:\n{details}")
        if began:
            self.seeds = self.seeds[self.seeds.index(seed) + 1 :]
        if self.killed:
            kind, what = ("hang" if self.killed.endswith(" s") else "memory"), self.killed
        elif os.WIFSIGNALED(self.status):
            name = signal.Signals(os.WTERMSIG(self.status)).name
            found = re.search(r'File ".*/(dlfh/[^"]+)", line (\d+)', details)
            kind, what = "signal", f"{name} in {found[1]}:{found[2]}" if found else name
            what = what if began else f"{name} after it"  # memory was written to that is not its own
        else:
            kind, what = "exit", f"the process ended with status {os.waitstatus_to_exitcode(self.status)}"
        return {
            "seed": seed,
            "outcome": "finding",
            "seconds": time.monotonic() - began if began else 0.0,
            "megabytes": self._peak,
            "kind": kind,
            "what": what,
            "details": details,
        }

    def rest(self) -> list[int]:
        """Return the seeds of the cases that have not been run."""
        return self.seeds

    def close(self) -> None:
        os.close(self.reading)
        self.trace.close()
        self.slot.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _place(error: BaseException) -> str:
    """Return the innermost place in the library that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/dlfh/" in frame.filename] or list(frames)
    return f"{own[-1].filename.rpartition('/dlfh/')[2]}:{own[-1].name}" if own else "nowhere"


def _resident(process: int) -> float:
    """Return how many megabytes of memory a process has."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE / _MEGABYTE
    except (OSError, IndexError):
        return 0.0


def _forget_peak() -> None:
    with suppress(OSError), open("/proc/self/clear_refs", "wb") as file:
        file.write(b"5")


def _peak() -> float:
    """Return the most megabytes that this process had since `_forget_peak`, where the system can tell."""
    with suppress(OSError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
