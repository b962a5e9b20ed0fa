"""Uses a service for a long time: watches its memory, descriptors and threads, and compares answers with brute force.

python -m tests.service.soak --seconds 600

Three clients send searches, batches, pictures and requests for items. A fourth changes items and, after each change,
compares searches by code with a plain loop over all items, and searches by text with the library on the same folder.
"""

from __future__ import annotations

import argparse
import base64
import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from dlfh import Collection
from tests.conftest import draw_photos
from tests.service.conftest import TOKEN, Running, build, memory_of, serving

N_READERS = 3
#: Growth after the first quarter that counts as a leak.
MAX_BYTES, MAX_DESCRIPTORS, MAX_THREADS = 48 << 20, 16, 4


@dataclass
class Report:
    """Counts, and the resources of the process at the end of the warm-up and of the run."""

    requests: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    resources: list[tuple[int, int, int]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {n:,}" for status, n in sorted(self.requests.items()))
        resources = "; ".join(
            f"{n_bytes >> 20} MB, {descriptors} descriptors, {threads} threads"
            for n_bytes, descriptors, threads in self.resources
        )
        return f"requests ({statuses}), {self.compared:,} compared, {len(self.findings)} findings; {resources}"


def resources_of(running: Running) -> tuple[int, int, int]:
    """Return the memory, descriptors and threads of a service."""
    process = Path(f"/proc/{running.process.pid}")
    return memory_of(running.process.pid), len([*(process / "fd").iterdir()]), len([*(process / "task").iterdir()])


def soak(running: Running, folder: Path, photos: Path, seconds: float, seed: int = 0) -> Report:
    """Use a service, and return what was found."""
    report, over = Report(), threading.Event()
    readers = [threading.Thread(target=_read, args=(running, photos, report, over, seed + n)) for n in range(N_READERS)]
    for reader in readers:
        reader.start()
    began, rng = time.monotonic(), random.Random(seed - 1)
    try:
        while (elapsed := time.monotonic() - began) < seconds and not report.findings:
            if len(report.resources) == 0 and elapsed > seconds / 4:
                report.resources.append(resources_of(running))
            _change(running, photos, report, rng)
            _compare(running, folder, report, rng)
    finally:
        over.set()
        for reader in readers:
            reader.join()
    report.resources.append(resources_of(running))
    growth = [after - before for before, after in zip(report.resources[0], report.resources[-1], strict=True)]
    for kind, grown, most in zip(
        ("bytes", "descriptors", "threads"), growth, (MAX_BYTES, MAX_DESCRIPTORS, MAX_THREADS), strict=True
    ):
        if grown > most:
            report.findings.append(f"{grown:,} more {kind}")
    if '"failure"' in running.log.read_text(encoding="utf-8"):
        report.findings.append("the log has failures")
    return report


def _client(running: Running) -> httpx.Client:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.Client(base_url=running.address, headers=headers, timeout=60, trust_env=False)


def _read(running: Running, photos: Path, report: Report, over: threading.Event, seed: int) -> None:
    rng = random.Random(seed)
    picture = (photos / "9.png").read_bytes()
    with _client(running) as client:
        while not over.is_set():
            kind = rng.randrange(7)
            text = rng.choice(["level", "upright stripes", "7", "xyz"])
            search: dict[str, Any] = {"text": text, "k": rng.randrange(1, 50)}
            if kind == 0:
                response = client.post("/v1/search/image", files={"image": picture})
            elif kind == 1:
                response = client.get(f"/v1/items/{rng.randrange(40)}.png/thumbnail")
            elif kind == 2:
                response = client.get("/v1/collection")
            elif kind == 3:
                response = client.post("/v1/search", json={"queries": [{"text": text}] * 50, "match": "both"})
            elif kind == 4:
                response = client.post("/v1/search", json=search | {"where": {"or": [{"parity": 1}] * 200}})
            else:
                response = client.post("/v1/search", json=search)
            report.requests[str(response.status_code)] += 1
            if response.status_code >= 500:
                report.findings.append(f"{response.status_code}: {response.text[:200]}")
                return


def _change(running: Running, photos: Path, report: Report, rng: random.Random) -> None:
    name = f"soaked {rng.randrange(60)}"
    if rng.random() < 0.3:
        response = running.client.delete(f"/v1/items/{quote(name)}")
    else:
        new: dict[str, Any] = {"text": f"level {rng.randrange(100)}", "columns": {"parity": rng.randrange(2)}}
        if rng.random() < 0.5:
            new["image"] = base64.b64encode((photos / f"{rng.randrange(6, 30)}.png").read_bytes()).decode()
        response = running.client.put(f"/v1/items/{quote(name)}", json=new)
    report.requests[str(response.status_code)] += 1
    if response.status_code not in (200, 404):
        report.findings.append(f"{response.status_code}: {response.text[:200]}")


def _compare(running: Running, folder: Path, report: Report, rng: random.Random) -> None:
    items: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        page = running.client.get(f"/v1/items?start={start}").json()
        items, start = items + page["items"], page["next"]
    code, k = rng.randbytes(2).hex() + "00", rng.randrange(1, 100)
    found = running.search(code=code, k=k, modalities="text", where={"parity": 1})["results"][0]["answers"]
    distances = [
        ((int(item["codes"]["text"]["code"], 16) ^ int(code, 16)).bit_count(), position)
        for position, item in enumerate(items)
        if "text" in item["codes"] and item["metadata"].get("columns", {}).get("parity") == 1
    ]
    expected = [(items[position]["id"], distance) for distance, position in sorted(distances)[:k]]
    if [(item["id"], item["distance"]) for item in found] != expected:
        report.findings.append(f"the search by {code} has other answers than brute force")
    text = f"level {rng.randrange(100)}"
    answers = running.search(text=text, k=k)["results"][0]["answers"]
    with Collection.open(folder) as collection:
        same = [(item.id, item.probability) for item in collection.search("text", text, k)]
    if [(item["id"], item["probability"]) for item in answers] != same:
        report.findings.append(f"the search by {text!r} has other answers than the library")
    report.compared += 2


def run(place: Path, seconds: float) -> Report:
    """Build a collection, serve it, and use it."""
    (place / "photos").mkdir()
    photos = draw_photos(place / "photos")
    folder = build(place / "stripes", photos)
    with serving(folder, place / "log", "--writable", token=TOKEN, pictures=photos) as running:
        return soak(running, folder, photos, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        report = run(Path(place), arguments.seconds)
    print(report)
    for finding in report.findings[:20]:
        print(finding)
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
