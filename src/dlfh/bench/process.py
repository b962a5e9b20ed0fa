"""The parent's handle on a worker process."""

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

from dlfh.bench.worker import READY

#: A process and its answer; the answer is None when the process has ended.
Message: TypeAlias = "tuple[Process, dict[str, Any] | None]"

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Process:
    """A worker process (see `dlfh.bench.worker`).

    Parameters
    ----------
    data : path
        File written by `Source.save`.
    threads, memory : int
        Limits of the worker's methods.
    messages : queue
        Receives the answers.
    folder : path
        Folder for the log of everything that the worker prints.
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
            if line.strip() == READY:
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
