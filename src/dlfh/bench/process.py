"""A worker process as its parent sees it."""

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

__all__ = ["Message", "Process"]

#: Who answers, and the answer; None when a process has ended.
Message: TypeAlias = "tuple[Process, dict[str, Any] | None]"

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Process:
    """A worker of `dlfh.bench.worker`: takes a cell, puts its answer on a queue.

    Parameters
    ----------
    data : path
        The file that `Source.save` wrote.
    threads, memory : int
        What the worker's methods may use.
    messages : queue
        Where answers go.
    folder : path
        What the worker prints goes to a file there.
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
        self.began = time.monotonic()
        self.is_ready = False
        self._reader = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self._reader.start()

    def _read(self, messages: queue.Queue[Message]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == READY:
                self.is_ready = True
                continue
            with contextlib.suppress(json.JSONDecodeError):  # half a line: the process ended in the middle of it
                messages.put((self, json.loads(line)))
        messages.put((self, None))

    def send(self, request: dict[str, Any]) -> None:
        """Ask for a cell."""
        assert self._process.stdin is not None
        self.began = time.monotonic()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the reader tells that it has ended

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        """Return the memory in use; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self._process.pid}/statm").read_text().split()
            return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    def describe_end(self) -> str:
        """Say how the process ended, which it did by itself; it may have closed its output a moment before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        status = self._process.poll()
        if status is None:
            return "closed its output"
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"ended {how}"

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
