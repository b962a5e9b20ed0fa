"""Kills services that change a collection, at random moments, and looks for every acknowledged change.

python -m tests.service.kill_services COLLECTION KILLS SEED

Several clients put, replace and remove items, each its own, until the service is killed. Then the collection must be
valid and show, for each item, the last acknowledged change or the one in progress, and no picture may be damaged.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from dlfh import Collection
from dlfh.service import Settings, serve
from dlfh.service.schemas import ItemWithId
from dlfh.service.settings import Limits
from dlfh.service.states import States
from dlfh.service.writing import Changes

TOKEN = "a-token-for-killed-services"
N_CLIENTS, N_NAMES = 4, 5
#: After the first change is acknowledged, changes go on for at most this many seconds.
MAX_SECONDS = 0.4

#: The text and picture of an item as JSON; None if it was removed.
Version = str | None


def start(folder: Path) -> tuple[int, str]:
    """Serve a collection in a child process; return its process id and address."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 2)
            settings = Settings(token=TOKEN, writable=True)
            with os.fdopen(writing, "w") as ready:
                serve(folder, settings, port=0, on_ready=lambda address: print(address, file=ready, flush=True))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as answer:
        address = answer.readline().strip()
    if not address:
        raise SystemExit("the service did not start")
    return child, address


class Client(threading.Thread):
    """Changes its own items until the service is gone."""

    def __init__(self, number: int, address: str, versions: dict[str, set[Version]], seed: str) -> None:
        super().__init__()
        self._number = number
        self._address = address
        self._versions = versions
        self._random = random.Random(seed)
        self.acknowledged: Counter[str] = Counter()
        self.in_flight = 0

    def run(self) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=self._address, headers=headers, timeout=30, trust_env=False) as client:
            while True:
                name = f"client {self._number} item {self._random.randrange(N_NAMES)}"
                version, body = self._choose(self._versions[name])
                before, self._versions[name] = self._versions[name], self._versions[name] | {version}
                try:
                    if body is None:
                        response = client.delete(f"/v1/items/{name}")
                    else:
                        response = client.put(f"/v1/items/{name}", json=body)
                except httpx.HTTPError:  # killed: either version may be there
                    self.in_flight += 1
                    return
                if response.status_code in (200, 404):
                    self._versions[name] = {version}
                    self.acknowledged["removed" if body is None else "put"] += response.status_code == 200
                else:
                    assert response.status_code in (409, 503), response.text
                    self._versions[name] = before

    def _choose(self, known: set[Version]) -> tuple[Version, dict[str, Any] | None]:
        if self._random.random() < 0.25:
            return None, None
        text = f"level {self._random.randrange(10**6)}"
        if self._random.random() < 0.5:
            return json.dumps([text, None]), {"text": text}
        content = BytesIO()
        Image.frombytes("L", (8, 8), self._random.randbytes(64)).save(content, "PNG")
        picture = content.getvalue()
        body = {"text": text, "image": base64.b64encode(picture).decode()}
        return json.dumps([text, f"pictures/{sha256(picture).hexdigest()}.png"]), body


def check(folder: Path, versions: dict[str, set[Version]]) -> None:
    """Compare a collection with the changes that were made, and make every version the stored one."""
    with Collection.open(folder) as collection:
        collection.verify()
        for name, possible in versions.items():
            stored = collection.get(name).metadata if name in collection else None
            found = [version for version in possible if _agrees(stored, version)]
            assert found, f"{name} is {stored}, not one of {possible}"
            versions[name] = {found[0]}
    for path in (folder / "pictures").glob("*.png"):
        assert sha256(path.read_bytes()).hexdigest() == path.stem, f"{path} is damaged"


def _agrees(stored: dict[str, Any] | None, version: Version) -> bool:
    """Return whether an item is of a version. An item keeps the picture that its next version lacks."""
    if stored is None or version is None:
        return (stored is None) == (version is None)
    text, image = json.loads(version)
    return stored["text"] == text and image in (None, stored.get("image"))


def warm_up(folder: Path) -> None:
    """Load everything that a service needs, so that its forks start at once."""
    with tempfile.TemporaryDirectory() as place:
        states = States(Path(shutil.copytree(folder, Path(place) / "copy")))
        states.current.warm_up_changes()
        changes = Changes(states, Limits())
        changes.put([ItemWithId.model_validate({"id": "new", "text": "level"})])
        changes.remove(["new"])


def kill_services(folder: Path, kills: int, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    warm_up(folder)
    names = [f"client {number} item {item}" for number in range(N_CLIENTS) for item in range(N_NAMES)]
    versions: dict[str, set[Version]] = {name: {None} for name in names}
    counts: Counter[str] = Counter()
    for number in range(kills):
        process, address = start(folder)
        clients = [Client(client, address, versions, f"{seed} {number} {client}") for client in range(N_CLIENTS)]
        for client in clients:
            client.start()
        until = time.monotonic() + 10
        while not any(client.acknowledged for client in clients) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(MAX_SECONDS * rng.random())
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        for client in clients:
            client.join()
            counts.update(client.acknowledged)
            counts["in flight"] += client.in_flight
        counts["kills"] += 1
        check(folder, versions)
    return counts


if __name__ == "__main__":
    print(json.dumps(kill_services(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
