"""Worker process that computes cells: JSON lines in, JSON lines out.

    python -m dlfh.bench.worker DATA THREADS BYTES

The first line of output announces that the data is loaded. The process exits as soon as its standard input closes, even
in the middle of a cell, so that a killed run leaves no workers behind.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

#: First line of output.
READY = "ready"


def compute(request: dict[str, Any], source: Any, threads: int, memory: int) -> dict[str, Any]:
    """Compute a cell and return its values and times, or the reason why it failed."""
    from dlfh.bench.cells import Cell
    from dlfh.bench.measure import retrieval, training_time
    from dlfh.errors import DLFHError
    from dlfh.methods.catalogue import METHODS

    cell = Cell.from_plain(request)
    measure = retrieval if cell.kind == "retrieval" else training_time
    started, used = time.perf_counter(), time.process_time()
    try:
        values, times = measure(cell, source.split(cell.split), threads, memory)
    except DLFHError as error:
        # A method that has a memory limit may have refused because of it, so a higher limit is worth a retry.
        is_limited = "memory" in METHODS[cell.method]().get_params(deep=False)
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
    answers.write(READY + "\n")
    while True:
        answer = compute(json.loads(requests.get()), source, threads, memory)
        answers.write(json.dumps(answer) + "\n")


def _read(requests: queue.Queue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
