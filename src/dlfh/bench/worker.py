"""A process that computes cells: JSON lines in, JSON lines out.

    python -m dlfh.bench.worker DATA THREADS BYTES

Its first line says that it is ready. It ends at once when its standard input closes, also in the middle of a
cell: a run that is killed leaves nothing running behind.
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

__all__ = ["READY", "compute", "main"]

#: The line that says that the data is read, and cells can come.
READY = "ready"


def compute(request: dict[str, Any], source: Any, threads: int, memory: int) -> dict[str, Any]:
    """Return what came of a cell: values and times, or why there are none."""
    from dlfh.bench.cells import Cell
    from dlfh.bench.measure import retrieval, training_time
    from dlfh.errors import DLFHError
    from dlfh.methods.catalogue import METHODS

    cell = Cell.from_plain(request)
    measure = retrieval if cell.kind == "retrieval" else training_time
    began, used = time.perf_counter(), time.process_time()
    try:
        values, times = measure(cell, source.deal(cell.deal), threads, memory)
    except DLFHError as error:
        # A method that knows what memory it needs may have refused for want of it: more of it is worth a try.
        knows = "memory" in METHODS[cell.method]().get_params(deep=False)
        return {"failure": str(error), "limit": {"gigabytes": memory / 1e9} if knows else None}
    except MemoryError:
        return {"failure": "ran out of memory"}
    except Exception as error:  # one broken cell must not end the run; its sentence is in the tables
        return {"failure": f"{type(error).__name__}: {error}"}
    spent = {"total": time.perf_counter() - began, "processor": time.process_time() - used}
    return {"values": values, "times": times | spent}


def main() -> None:
    """Answer requests until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    data, threads, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what anything prints must not get among the answers
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
