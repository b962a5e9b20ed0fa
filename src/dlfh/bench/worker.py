"""Worker processes that compute cells: JSON lines in, JSON lines out.

    python -m dlfh.bench.worker DATA THREADS BYTES

The first line of output announces that the data is loaded. A process exits as soon as its standard input closes, even
in the middle of a cell, so that a killed run leaves no workers behind.
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
from pathlib import Path
from typing import Any, TypeAlias

#: First line of output.
_READY = "ready"

#: A worker and its answer; the answer is None when the process has ended.
Message: TypeAlias = "tuple[Worker, dict[str, Any] | None]"

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Worker:
    """The parent's handle on a worker process.

    ``data`` is the file that `Source.save` wrote. Answers go to the queue ``messages``, and everything that the process
    prints to a log in ``folder``.
    """

    def __init__(self, data: Path, threads: int, memory: int, messages: queue.Queue[Message], folder: Path) -> None:
        command = [sys.executable, "-m", "dlfh.bench.worker", str(data.resolve()), str(threads), str(memory)]
        self.log = folder / "workers.log"
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | dict.fromkeys(_THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(sys.path)},
                text=True,
                encoding="utf-8",
            )
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
        """Request a cell."""
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
        """Describe how the process ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may have closed its output just before
            self._process.wait(timeout=5)
        status = self._process.poll()
        if status is None:
            return "closed its output"
        return f"ended by signal {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def compute(request: dict[str, Any], source: Any, threads: int, memory: int) -> dict[str, Any]:
    """Compute a cell and return its values and times, or the reason why it failed."""
    from dlfh.bench.cells import Cell
    from dlfh.bench.measure import given_codes, retrieval, training_time
    from dlfh.errors import DLFHError
    from dlfh.methods.catalogue import METHODS

    cell = Cell.from_plain(request)
    measure = {"retrieval": retrieval, "time": training_time, "codes": given_codes}[cell.kind]
    started, used = time.perf_counter(), time.process_time()
    try:
        values, times = measure(cell, source.split(cell.split), threads, memory)
    except DLFHError as error:
        # A method that has a memory limit may have refused because of it, so a higher limit is worth a retry.
        is_limited = cell.kind != "codes" and "memory" in METHODS[cell.method]().get_params(deep=False)
        return {"failure": str(error), "limit": {"gigabytes": memory / 1e9} if is_limited else None}
    except MemoryError:
        return {"failure": "out of memory"}
    except Exception as error:  # one failing cell must not end the run; the tables show the error
        return {"failure": f"{type(error).__name__}: {error}"}
    spent = {"total": time.perf_counter() - started, "processor": time.process_time() - used}
    return {"values": values, "times": times | spent}


def main() -> None:
    """Answer requests until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    data, threads, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # keep anything that libraries print out of the answers
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()

    from dlfh.bench.data import Source

    source = Source.open(data)
    answers.write(_READY + "\n")
    while True:
        answer = compute(json.loads(requests.get()), source, threads, memory)
        answers.write(json.dumps(answer) + "\n")


def _read(requests: queue.Queue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
