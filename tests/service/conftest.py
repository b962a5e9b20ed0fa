"""Services that run in separate processes, on free local ports."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items, read_items
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail
from tests.service.browsing import Tab, build_icons, open_browser, tab

TOKEN = "a-token-for-the-tests"
#: Ids with characters that need escaping in addresses.
AWKWARD = ["a/b", "a/b/thumbnail", "ü?#%&+ <b>"]


@dataclass
class Running:
    """A running service."""

    process: subprocess.Popen[str]
    client: httpx.Client
    log: Path

    @property
    def address(self) -> str:
        return str(self.client.base_url)

    def search(self, **search: Any) -> Any:
        response = self.client.post("/v1/search", json=search)
        assert response.status_code == 200, response.text
        return response.json()

    def lines_after(self, mark: str, n: int) -> list[str]:
        """Return the log lines after the one with ``mark``, once at least ``n`` have been written."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            _, found, after = self.log.read_text(encoding="utf-8").rpartition(mark)
            lines = after.splitlines()[1:]
            if found and len(lines) >= n and after.endswith("\n"):
                return lines
            time.sleep(0.01)
        raise AssertionError(f"no {n} lines after {mark}")

    def end(self) -> int:
        """Stop the service, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


#: Starts a service with settings that the command line does not offer.
PROGRAM = """
import sys
from dataclasses import replace
from dlfh.service import Settings, serve
from dlfh.service.settings import Limits
settings = replace({settings}, pictures=tuple(sys.argv[2:]))
serve(sys.argv[1], settings, port=0, on_ready=lambda address: print(address, flush=True))
"""


@contextmanager
def serving(
    folder: Path,
    log: Path,
    *options: str,
    token: str | None = None,
    settings: str | None = None,
    pictures: Path | None = None,
) -> Iterator[Running]:
    """Serve a collection in a separate process, from the command line or with Python settings."""
    shown = [] if pictures is None else [str(pictures)]
    env = {name: value for name, value in os.environ.items() if name != "DLFH_TOKEN"}
    env |= {"OPENBLAS_NUM_THREADS": "1"} | ({"DLFH_TOKEN": token} if token else {})
    options = (*options, *(f"--pictures={folder}" for folder in shown))
    command = [sys.executable, "-m", "dlfh", "serve", str(folder), "--port", "0", *options]
    if settings is not None:
        command = [sys.executable, "-c", PROGRAM.format(settings=settings), str(folder), *shown]
    with (
        open(log, "w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://[^/]+/", line)
            assert found, log.read_text(encoding="utf-8")
            headers = {"authorization": f"Bearer {token}"} if token else {}
            with httpx.Client(base_url=found[0], headers=headers, timeout=30, trust_env=False) as client:
                yield Running(process, client, log)
        finally:
            if process.poll() is None:
                process.kill()


def memory_of(process: int) -> int:
    """Return the anonymous memory of a process, in bytes."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    return int(status.read_text(encoding="utf-8").split("RssAnon:")[1].split()[0]) * 1024


def build(folder: Path, photos: Path) -> Path:
    """Build a calibrated collection of the pictures, with two columns."""
    read = read_items(photos / "items.csv", image="file", text="caption", labels="tags")
    metadata = [
        fields | {"columns": {"parity": row % 2, "half": ("first", "second")[row // 20]}}
        for row, fields in enumerate(read.metadata)
    ]
    ids = [*read.ids[:-3], *AWKWARD]
    items = Items(ids, read.modalities, read.labels, metadata, read.places, read.problems)
    encoder = Encoder(
        {"image": Thumbnail(8), "text": BagOfWords()}, DLFH(n_bits=20, random_state=0, hash_function="linear")
    )
    Collection.build(folder, items, encoder, hold_out=12).collection.close()
    return folder


@pytest.fixture(scope="session")
def stripes_folder(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A read-only collection."""
    return build(tmp_path_factory.mktemp("served") / "stripes", photos)


@pytest.fixture(scope="session")
def service(stripes_folder: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service of the read-only collection, without a token."""
    with serving(stripes_folder, tmp_path_factory.mktemp("log") / "log", pictures=photos) as running:
        yield running


@pytest.fixture(scope="session")
def strict(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a token, small limits and short timeouts."""
    settings = (
        f"Settings(token={TOKEN!r}, limits=Limits(read_seconds=0.4, connections=6, body_bytes=2000, upload_bytes=4000))"
    )
    log = tmp_path_factory.mktemp("log") / "log"
    with serving(stripes_folder, log, token=TOKEN, settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def icons(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Path:
    """A collection of icons, for the page."""
    return build_icons(tmp_path_factory.mktemp("icons"))


@pytest.fixture(scope="session")
def service_of_icons(icons: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that everybody may read, and that may be changed with a key."""
    log, pictures = tmp_path_factory.mktemp("log") / "log", icons.parent / "icons"
    with serving(icons, log, "--writable", "--public", token=TOKEN, pictures=pictures) as running:
        yield running


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = open_browser(playwright, chromium)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, service_of_icons: Running) -> Iterator[Tab]:
    with tab(browser, service_of_icons.address) as opened:
        yield opened


def address(running: Running) -> tuple[str, int]:
    assert running.client.base_url.port is not None
    return running.client.base_url.host, running.client.base_url.port


def search_request(body: bytes) -> bytes:
    """Return an HTTP request that searches."""
    head = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"POST /v1/search HTTP/1.1\r\n{head}\r\n\r\n".encode() + body


def slow_search(n_queries: int = 100) -> bytes:
    """Return a search that takes long: many queries by long texts, with a filter."""
    where = {"or": [{"parity": {"<": 1}}, {"half": {"!=": "first"}}] * 128}
    text = " ".join(f"level upright stripes {number}" for number in range(300))
    return json.dumps({"queries": [{"text": text}] * n_queries, "k": 100, "match": "both", "where": where}).encode()


def raw(running: Running, content: bytes, wait: float = 3.0) -> bytes:
    """Send bytes, and return the response until the connection is closed."""
    with socket.create_connection(address(running), timeout=wait) as connection:
        connection.sendall(content)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received
