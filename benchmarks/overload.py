"""A service under attack: two clients send the slowest requests that its limits allow, a third one searches.

    python -m benchmarks.overload [--items 100000] [--write docs/service.md]

For each kind of slow request, two clients send it over and over while a third sends simple searches; then SIGTERM is
sent. Fails if a simple search takes longer than two seconds, or the end longer than ten.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.report import fill, machine
from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items
from dlfh.features import BagOfWords, CombinedImage
from dlfh.service.settings import Limits

N_TRAINED, N_BITS, N_COLUMNS, N_WORDS = 400, 64, 40, 20
SECONDS = 8.0
MAX_SEARCH_SECONDS, MAX_END_SECONDS = 2.0, 10.0
#: Common words first, as in natural language.
VOCABULARY = [f"w{number}" for number in range(5000)]
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Slow:
    """A slow request."""

    name: str
    path: str
    body: bytes
    headers: dict[str, str]
    method: str = "POST"


@dataclass
class Outcome:
    """Measurements of one kind of slow request; times are in seconds."""

    alone: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    searches: list[float] = field(default_factory=list)
    failures: int = 0
    memory: float = 0.0
    end: float = 0.0


# ------------------------------------------------------------------------------------------------- the collection


def build(folder: Path, n_items: int) -> None:
    """Build a collection with texts of Zipf's distribution, many columns, and one huge picture."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, len(VOCABULARY) + 1)
    words = np.array(VOCABULARY)[rng.choice(len(VOCABULARY), (n_items, N_WORDS), p=shares / shares.sum())]
    texts = [" ".join(row) for row in words]
    labels = [[f"label {number}"] for number in rng.integers(0, 20, n_items)]
    images: list[Any] = [None] * n_items
    for row in range(N_TRAINED):
        images[row] = rng.integers(0, 256, (32, 32, 3), np.uint8)
    items = Items.of({"image": images, "text": texts}, labels, [f"item {row}" for row in range(n_items)])
    for row, metadata in enumerate(items.metadata):
        metadata.pop("image", None)
        metadata["columns"] = {f"column {number}": (row * (number + 1)) % 1000 for number in range(N_COLUMNS)}
    encoder = Encoder(
        {"image": CombinedImage(), "text": BagOfWords()}, DLFH(n_bits=N_BITS, random_state=0, hash_function="linear")
    )
    Collection.build(folder, items.take(list(range(N_TRAINED))), encoder, hold_out=100).collection.close()
    with Collection.open(folder, writable=True) as collection:
        collection.add(items.take(list(range(N_TRAINED, n_items))))
        (folder / "pictures").mkdir()
        (folder / "pictures" / "huge.png").write_bytes(huge_picture(11_000))
        item = collection.index.get("item 0")
        codes = {name: item.codes.get(name, item.codes["text"])[None] for name in collection.index.modalities}
        collection.index.put(["huge"], codes, metadata=[{"image": "pictures/huge.png"}])


def huge_picture(side: int) -> bytes:
    """Return a square picture that is small as a file."""
    content = BytesIO()
    Image.linear_gradient("L").resize((side, side)).convert("RGB").save(content, "PNG", compress_level=1)
    return content.getvalue()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve a collection; yield the process and its port."""
    command = [sys.executable, "-m", "dlfh", "serve", str(folder), "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "DLFH_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            if found is None:
                raise SystemExit("the service did not start")
            yield process, int(found[1])
        finally:
            process.kill()


# ------------------------------------------------------------------------------------------------- the requests


def slow_requests(limits: Limits, item_ids: list[str]) -> list[Slow]:
    """Return the requests that take longest, of every kind."""
    common = " ".join(VOCABULARY[:256])
    conditions = [{f"column {number % N_COLUMNS}": {"!=": number}} for number in range(256)]
    where = {"or": [{"and": [condition]} for condition in conditions]}

    def search(name: str, **search: Any) -> Slow:
        body = json.dumps(search).encode()
        assert len(body) <= limits.body_bytes, (name, len(body))
        return Slow(name, "/v1/search", body, JSON)

    def texts(n: int, text: str) -> list[dict[str, Any]]:
        return [{"text": text}] * n

    values = [number / 7 for number in range(10_000)]
    boundary = "-" * 30
    head = f'--{boundary}\r\ncontent-disposition: form-data; name="image"; filename="x.png"\r\n\r\n'.encode()
    picture = head + huge_picture(5600) + f"\r\n--{boundary}--\r\n".encode()
    form = {"content-type": f"multipart/form-data; boundary={boundary}"}
    everything: dict[str, Any] = {"match": "both", "modalities": "all", "k": 100, "where": where}
    return [
        search("100 texts of 256 common words, 256 conditions", queries=texts(100, common), **everything),
        search("100 texts of 10,000 characters", queries=texts(100, ("x" * 9 + " ") * 1000), match="both"),
        search("1 text of 256 common words, 1,000 answers", text=common, match="both", k=1000),
        search("1 text of 200 common words", text=" ".join(VOCABULARY[:200]), match="both"),
        search("10 texts, 1,000 answers each", queries=texts(10, "w1"), k=1000),
        search("100 codes, 256 conditions", queries=[{"code": "0" * (N_BITS // 4)}] * 100, k=100, where=where),
        search("100 codes, 10,000 values", queries=[{"code": "0" * 16}] * 100, k=100, where={"column 1": values}),
        search("100 items, 10,000 ids, 256 conditions", queries=[{"id": "item 3"}] * 100, ids=item_ids, where=where),
        search("a filter of 40,000 conditions (refused)", text="w1", where={"or": [{"column 1": 1}] * 40_000}),
        search("450,000 numbers (refused)", queries=[{"vector": [1] * 65_000, "modality": "text"}] * 5),
        Slow("a picture of 31 million pixels", "/v1/search/image", picture, form),
        Slow("the thumbnail of 121 million pixels", "/v1/items/huge/thumbnail", b"", {}, "GET"),
        Slow("the map", "/v1/map", b"", {}, "GET"),
    ]


def send(port: int, slow: Slow) -> int:
    """Send a request, and return the status of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(slow.method, slow.path, slow.body or None, slow.headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def attack(folder: Path, slow: Slow, seconds: float) -> Outcome:
    """Measure one kind of slow request."""
    outcome = Outcome()
    simple = Slow("simple", "/v1/search", json.dumps({"text": "w20 w300 w4000"}).encode(), JSON)
    stopping = threading.Event()

    def repeat(port: int) -> None:
        while not stopping.is_set():
            with suppress(OSError, http.client.HTTPException):
                outcome.statuses[send(port, slow)] += 1

    with serving(folder) as (process, port):
        send(port, simple)
        began = time.monotonic()
        send(port, slow)
        outcome.alone = time.monotonic() - began
        attackers = [threading.Thread(target=repeat, args=(port,)) for _ in range(2)]
        for attacker in attackers:
            attacker.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            began = time.monotonic()
            outcome.failures += send(port, simple) != 200
            outcome.searches.append(time.monotonic() - began)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        outcome.memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(120)
        outcome.end = time.monotonic() - began
        stopping.set()
        for attacker in attackers:
            attacker.join()
    return outcome


# ------------------------------------------------------------------------------------------------- the table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each kind of request")
    parser.add_argument("--folder", type=Path, help="keep the collection here for the next run")
    parser.add_argument("--only", default="", help="requests whose name contains this")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary) / "collection"
        if not folder.exists():
            build(folder, arguments.items)
        with Collection.open(folder) as collection:
            n_items, ids = len(collection), collection.index.ids()[:10_000]
        rows, passed = [], True
        for slow in slow_requests(Limits(), ids):
            if arguments.only not in slow.name:
                continue
            found = attack(folder, slow, arguments.seconds)
            slowest = max(found.searches)
            passed &= not found.failures and slowest <= MAX_SEARCH_SECONDS and found.end <= MAX_END_SECONDS
            rows.append(
                f"| {slow.name} | {found.alone:.2f} | {np.median(found.searches):.2f} | {slowest:.2f} | "
                f"{found.failures} | {found.end:.1f} | {found.memory:,.0f} |"
            )
            print(rows[-1], dict(found.statuses), flush=True)
    titles = ("two clients send", "alone, s", "simple search, median, s", "slowest, s", "failed", "SIGTERM, s", "MB")
    table = "\n".join([f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *rows])
    if arguments.write:
        about = f"A collection of {n_items:,} items. {machine()}"
        fill(arguments.write, {"overload": table, "overload-machine": about})
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
