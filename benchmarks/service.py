"""The service under load on the loopback interface: throughput, latency, overhead, memory.

    python -m benchmarks.service --write docs/service.md

A collection of a million generated items is built once (`--folder` keeps it for the next run) and served by a separate
process; this one sends the requests. Direct calls of the index are measured alternately in the same run.

    python -m benchmarks.service --texts --write docs/service.md

measures texts instead of codes, with the items of `python -m benchmarks.scale collections`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.index import clustered_codes
from benchmarks.report import fill, machine
from benchmarks.scale import N_LABELS, N_WORDS, fill_collection
from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items
from dlfh.features import Vectors

N_ITEMS, N_BITS, K, N_FEATURES = 1_000_000, 64, 10, 16
#: Connections, requests and most seconds of each round. The last of them makes it 100,000 requests.
ROUNDS = ((1, 3_000, 60.0), (8, 12_000, 90.0), (64, 25_000, 120.0))
N_REQUESTS, MOST_SECONDS = 100_000, 200.0


@dataclass(frozen=True)
class Load:
    """Measurements of a round of requests.

    Attributes
    ----------
    connections, requests, failures : int
    seconds : float
    waits : ndarray of float64
        Latency of each request in milliseconds.
    """

    connections: int
    requests: int
    failures: int
    seconds: float
    waits: np.ndarray

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        """Return a percentile of the latency in milliseconds."""
        return float(np.percentile(self.waits, share))


# ------------------------------------------------------------------------------------------------- the server


def build(folder: Path, n_items: int) -> None:
    """Build a collection of generated vectors, then add codes up to the full size."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 50, 3000)
    centres = rng.normal(size=(50, N_FEATURES))
    vectors = {
        name: (centres[kinds] + rng.normal(size=(len(kinds), N_FEATURES))).astype(np.float32)
        for name in ("image", "text")
    }
    items = Items.of(vectors, [[f"kind {kind}"] for kind in kinds], [f"trained {row}" for row in range(len(kinds))])
    encoder = Encoder({name: Vectors() for name in vectors}, DLFH(n_bits=N_BITS, random_state=0))
    Collection.build(folder, items, encoder).collection.close()
    n_more = n_items - len(items)
    codes = {"image": clustered_codes(n_more, 1), "text": clustered_codes(n_more, 2)}
    metadata = [{"columns": {"shelf": row % 100}} for row in range(n_more)]
    with Collection.open(folder, writable=True) as collection:
        collection.index.add([f"item {row}" for row in range(n_more)], codes, metadata=metadata)


@contextmanager
def serving(*folders: Path) -> Iterator[tuple[int, int]]:
    """Serve collections; yield the port and the process id."""
    command = [sys.executable, "-m", "dlfh", "serve", *map(str, folders), "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "DLFH_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            if found is None:
                raise SystemExit("the service did not start")
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            process.wait(60)


def memory_of(process: int) -> float:
    """Return the private memory of a process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


# ------------------------------------------------------------------------------------------------- the clients


def requests_of(codes: np.ndarray) -> list[bytes]:
    """Return search requests by code, as bytes."""
    return [_request(code=code.tobytes().hex(), modalities="image") for code in codes]


def texts_of(n: int) -> list[str]:
    """Return texts: a topic, and two or three words that are rare or common by turns."""
    rng = np.random.default_rng(3)
    words = np.where(np.arange(n)[:, None] % 2, rng.integers(1000, N_WORDS, (n, 3)), rng.integers(0, 30, (n, 3)))
    topics = zip(rng.integers(0, N_LABELS, n), rng.integers(0, 30, n), words.tolist(), strict=True)
    return [f"t{label}topic{topic} " + " ".join(f"t{word}" for word in drawn) for label, topic, drawn in topics]


def _request(path: str = "", **query: str) -> bytes:
    body = json.dumps(query | {"k": K}).encode()
    head = f"POST {path}/v1/search HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"
    return "\r\n".join((*head, f"content-length: {len(body)}", "", "")).encode() + body


async def _ask(port: int, requests: list[bytes], todo: Iterator[int], until: float, waits: list[float]) -> int:
    """Send requests on one connection until none or no time is left; return the number of failures."""
    failures = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in todo:
        if time.perf_counter() > until:
            break
        began = time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        waits.append(time.perf_counter() - began)
        failures += not head.startswith(b"HTTP/1.1 200 ") or body.count(b'"rank":') != K
    writer.close()
    return failures


def load(port: int, requests: list[bytes], connections: int, n: int, seconds: float) -> Load:
    """Send a number of requests over several connections, within a time limit."""

    async def run() -> Load:
        waits: list[float] = []
        todo = iter(range(n))
        began = time.perf_counter()
        failed = await asyncio.gather(
            *(_ask(port, requests, todo, began + seconds, waits) for _ in range(connections)), return_exceptions=True
        )
        took = time.perf_counter() - began
        failures = sum(1 if isinstance(outcome, BaseException) else outcome for outcome in failed)
        return Load(connections, len(waits), failures, took, 1000 * np.array(waits))

    return asyncio.run(run())


def bare(folder: Path, codes: np.ndarray) -> Load:
    """Search the index directly, one query at a time."""
    waits = []
    with Collection.open(folder) as collection:
        collection.index.search("image", codes[:1], K, n_jobs=1)
        for code in codes:
            began = time.perf_counter()
            collection.index.search("image", code[None], K, n_jobs=1)
            waits.append(time.perf_counter() - began)
    return Load(0, len(waits), 0, sum(waits), 1000 * np.array(waits))


# ------------------------------------------------------------------------------------------------- the tables


def measure(folder: Path) -> dict[str, str]:
    codes = clustered_codes(2000, 3)
    requests = requests_of(codes)
    rows, bares = [], [bare(folder, codes[:500])]
    with serving(folder) as (port, process):
        load(port, requests, 8, 1000, 30.0)  # warm-up
        before, asked = memory_of(process), 0
        memories = [before]
        for connections, n, seconds in ROUNDS:
            rows.append(load(port, requests, connections, n, seconds))
            bares.append(bare(folder, codes[:500]))
            memories.append(memory_of(process))
            asked += rows[-1].requests
        last = load(port, requests, 64, N_REQUESTS - asked, MOST_SECONDS)
        asked += last.requests
        memories.append(memory_of(process))
    waits = np.concatenate([load.waits for load in bares])
    one = Load(0, len(waits), 0, sum(load.seconds for load in bares), waits)
    lines = [
        "| target | connections | requests | failed | requests per second | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|---|",
        f"| `Index.search`, no service | | {one.requests:,} | | {one.rate:,.0f} | {one.percentile(50):.2f} | "
        f"{one.percentile(99):.2f} |",
    ]
    lines += [
        f"| the service | {load.connections} | {load.requests:,} | {load.failures} | {load.rate:,.0f} | "
        f"{load.percentile(50):.2f} | {load.percentile(99):.2f} |"
        for load in rows
    ]
    failures = last.failures + sum(load.failures for load in rows)
    overhead = rows[0].percentile(50) - one.percentile(50)
    memory = (
        f"The service adds **{overhead:.2f} ms** to a request on one connection (p50 against p50). "
        f"Over {asked:,} requests, {failures} failed, and its memory went from {memories[0]:.0f} MB "
        f"to {memories[-1]:.0f} MB "
        f"({', '.join(f'{megabytes:.0f}' for megabytes in memories)} MB after each round)."
    )
    return {"load-machine": machine(), "load": "\n".join(lines), "load-memory": memory}


def processor_seconds(process: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_process(folder: Path, texts: list[str]) -> Load:
    """Search by texts in this process, one at a time."""
    waits = []
    with Collection.open(folder) as collection:
        for text in [*texts[:20], *texts]:
            began = time.perf_counter()
            collection.search("title", text, K)
            waits.append(time.perf_counter() - began)
    return Load(0, len(texts), 0, sum(waits[20:]), 1000 * np.array(waits[20:]))


def measure_texts(folder: Path) -> dict[str, str]:
    """Measure one collection with 1, 8 and 64 connections, and two collections in one process with 8."""
    texts, copy = texts_of(2000), folder.with_name("copy")
    if not copy.exists():
        shutil.copytree(folder, copy, copy_function=os.link)
    alone = in_process(folder, texts[:300])
    rows = [("`Collection.search`, no service", alone, 1000 * alone.seconds / alone.requests)]
    paths = [f"/c/{each.name}" for each in (folder, copy)]
    several = [_request(path, text=text, modality="title") for text in texts for path in paths]
    one = [_request(text=text, modality="title") for text in texts]
    for name, folders, requests, rounds in (
        ("the service", [folder], one, ((1, 8.0), (8, 15.0), (64, 20.0))),
        ("the service, two collections", [folder, copy], several, ((8, 15.0),)),
    ):
        with serving(*folders) as (port, process):
            load(port, requests, 8, 200, 60.0)  # warm-up
            for connections, seconds in rounds:
                before = processor_seconds(process)
                found = load(port, requests, connections, N_REQUESTS, seconds)
                rows.append((name, found, 1000 * (processor_seconds(process) - before) / found.requests))
    names = ("target", "connections", "requests", "failed", "requests per second", "p50, ms", "p99, ms")
    header = " | ".join([*names, "processor time a request, ms"])
    lines = [
        f"| {name} | {each.connections or ''} | {each.requests:,} | {each.failures} | {each.rate:,.0f} | "
        f"{each.percentile(50):.1f} | {each.percentile(99):.1f} | {spent:.1f} |"
        for name, each, spent in rows
    ]
    return {"texts": "\n".join([f"{machine()}.\n", f"| {header} |", "|" + "---|" * 8, *lines])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of the collection, built if it does not exist")
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument("--texts", action="store_true", help="measure texts instead of codes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = arguments.folder or Path(place) / "million"
        if not folder.exists():
            build(folder, arguments.items) if not arguments.texts else fill_collection(folder, arguments.items, True)
        tables = measure_texts(folder / "shop") if arguments.texts else measure(folder)
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
