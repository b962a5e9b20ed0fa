"""Kill writers of an index repeatedly, and check the index that they leave.

python -m tests.index.kill_writers FOLDER KILLS SEED

A forked child makes changes, each determined by its number, and reports when it begins and ends one. It is killed
(SIGKILL) by its parent after a random time, or by itself before a random system call. Then the index must open, pass
verification, and have the content before or after the change in progress.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from dlfh.index import Index
from dlfh.index.files import read_manifest
from tests.index.plain_index import (
    MODALITIES,
    PlainIndex,
    as_arguments,
    assert_same,
    assert_search_agrees,
    random_items,
)

N_BITS = 20
MOST_ITEMS = 120


def change(number: int, model: PlainIndex, index: Index | None = None) -> None:
    """Apply change ``number`` to the model and to the index."""
    rng = np.random.default_rng(number)
    ids = model.ids()
    kind = "remove" if len(ids) > MOST_ITEMS else str(rng.choice(["add", "add", "remove", "update", "compact"]))
    if kind == "compact":
        if index is not None:
            index.compact()
        return
    if kind == "add" or not ids:
        items = random_items(rng, [f"{number}-{i}" for i in range(rng.integers(1, 20))], N_BITS)
        model.add(items)
        if index is not None:
            index.add(**as_arguments(items, N_BITS))
        return
    chosen = [str(name) for name in rng.choice(ids, rng.integers(1, len(ids) + 1) // 2 + 1, replace=False)]
    if kind == "remove":
        model.remove(chosen)
        if index is not None:
            index.remove(chosen)
    else:
        items = random_items(rng, chosen, N_BITS)
        model.update(items)
        if index is not None:
            index.put(**as_arguments(items, N_BITS))


def kill_self_at(call: int) -> None:
    """Kill this process before the ``call``-th call that accesses the disk."""
    calls = 0

    def counted(real: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return run

    for name in ("fsync", "replace", "unlink", "open", "fdopen", "chmod"):
        setattr(os, name, counted(getattr(os, name)))
    builtins.open = counted(builtins.open)


def write(folder: Path, number: int, model: PlainIndex, report: int, call: int | None) -> None:
    """Make changes until killed."""
    with Index.open(folder, writable=True) as index:
        if call is not None:
            kill_self_at(call)
        while True:
            os.write(report, b"b")
            change(number, model, index)
            os.write(report, b"e")
            number += 1


def killed_writer(folder: Path, number: int, model: PlainIndex, rng: np.random.Generator) -> bytes:
    """Run a writer and kill it; return what it reported."""
    reading, report = os.pipe()
    call = int(rng.integers(1, 60)) if rng.random() < 0.5 else None
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            write(folder, number, model.copy(), report, call)
        finally:
            os._exit(1)
    os.close(report)
    if call is None:
        reported = os.read(reading, 1)  # the first change has begun
        time.sleep(float(rng.uniform(0, 0.03)))
        os.kill(child, signal.SIGKILL)
    else:
        reported = b""
    while True:
        more = os.read(reading, 4096)
        if not more:
            break
        reported += more
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the writer ended by itself: {status}"
    return reported


def contents(source: Index | PlainIndex) -> list[Any]:
    """Return all items of an index, in order."""
    items = source.items if isinstance(source, PlainIndex) else [source.get(name) for name in source.ids()]
    return [
        (item.id, item.metadata, sorted((m, code.tobytes()) for m, code in item.codes.items()), item.states)
        for item in items
    ]


def compile_kernels() -> None:
    """Compile kernels before children are forked, so that they are killed while they write."""
    model, index = PlainIndex(N_BITS), Index(N_BITS, MODALITIES)
    for number in range(40):
        change(number, model, index)
    assert_search_agrees(index, model, np.ones(N_BITS), "image", 10)


def main() -> None:
    folder, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), np.random.default_rng(int(sys.argv[3]))
    compile_kernels()
    Index.create(folder, N_BITS, MODALITIES, texts=["title"]).close()
    number, model, counts = 0, PlainIndex(N_BITS), Counter[str]()
    for _ in range(kills):
        reported = killed_writer(folder, number, model, rng)
        counts["kills"] += 1
        for _ in range(reported.count(b"e")):
            change(number, model)
            number += 1
        with Index.open(folder) as index:
            index.verify()
            if reported.endswith(b"b"):
                counts["in flight"] += 1
                names = {name for name in os.listdir(folder) if not name.startswith(".lock")}
                counts["with leftover files"] += names != read_manifest(folder).files() | {"manifest.json"}
                after = model.copy()
                change(number, after)
                found, old, new = contents(index), contents(model), contents(after)
                counts["old equals new" if old == new else "new" if found == new else "old"] += 1
                if found == new:
                    model, number = after, number + 1
            assert_same(index, model)
            for modality in MODALITIES:
                assert_search_agrees(index, model, rng.standard_normal(N_BITS), modality, 10)
    counts["changes"] = number
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
