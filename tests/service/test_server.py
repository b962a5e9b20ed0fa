"""Start, logs and graceful shutdown of a service."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from dlfh.cli import main
from tests.service.conftest import TOKEN, Running, address, memory_of, raw, search_request, serving, slow_search


def test_pending_requests_are_answered_during_shutdown(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    answered: list[int] = []
    lost: list[BaseException] = []
    refused = 0
    ending = threading.Event()
    body = json.dumps({"text": "level", "k": 40})

    def ask(host: str, port: int) -> None:
        nonlocal refused
        while True:
            connection = http.client.HTTPConnection(host, port, timeout=20)
            try:
                connection.connect()
            except OSError:
                refused += 1
                return
            served = False
            try:
                while True:
                    connection.request("POST", "/v1/search", body, {"content-type": "application/json"})
                    response = connection.getresponse()
                    assert len(json.loads(response.read())["results"]) == 1
                    answered.append(response.status)
                    served = True
                    if response.will_close:
                        break
            except BaseException as error:
                # Connections in the backlog of the socket when it is closed never reached the service.
                if served or not (ending.is_set() and isinstance(error, ConnectionError)):
                    lost.append(error)
                return
            finally:
                connection.close()

    with serving(stripes_folder, tmp_path / "log", pictures=photos) as running:
        url = running.client.base_url
        assert url.port is not None
        threads = [threading.Thread(target=ask, args=(url.host, url.port)) for _ in range(8)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while len(answered) < 50 and time.monotonic() < until:
            time.sleep(0.01)
        ending.set()
        assert running.end() == 0
        for thread in threads:
            thread.join(20)
    assert not lost, lost
    assert set(answered) == {200}
    assert len(answered) >= 50
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert events[0] == "starting"
    assert events[-1] == "stopped"


#: Starts a service, and raises a signal when the event loop starts.
SIGNALLED = """
import signal, sys
from dlfh.cli import main

def watch(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "run" and frame.f_code.co_filename.endswith("asyncio/runners.py"):
        sys.setprofile(None)
        signal.raise_signal(signal.SIGTERM)

sys.setprofile(watch)
sys.exit(main(["serve", sys.argv[1], "--port", "0", "--pictures", sys.argv[2]]))
"""


def test_a_signal_during_the_start_ends_the_service_quietly(stripes_folder: Path, photos: Path) -> None:
    command = [sys.executable, "-c", SIGNALLED, str(stripes_folder), str(photos)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert (done.returncode, events[0], events[-1]) == (0, "starting", "stopped")
    assert set(events) <= {"starting", "stopping", "stopped"}


def test_slow_searches_delay_neither_simple_ones_nor_the_end(
    stripes_folder: Path, photos: Path, tmp_path: Path
) -> None:
    stopping = threading.Event()
    sent = 0

    def ask(url: str, body: bytes) -> None:
        nonlocal sent
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            while not stopping.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    client.post("/v1/search", content=body)
                    sent += 1

    with serving(stripes_folder, tmp_path / "log", pictures=photos) as running:
        # Filters of 30,000 parts once took minutes for each query.
        parts = {"or": [{"and": [{"parity": 1}, {"half": "first"}]}] * 15_000}
        large = json.dumps({"queries": [{"text": "level"}] * 100, "where": parts}).encode()
        bodies = [slow_search(), slow_search(), large, large]
        threads = [threading.Thread(target=ask, args=(running.address, body)) for body in bodies]
        for thread in threads:
            thread.start()
        slowest = 0.0
        for _ in range(20):
            time.sleep(0.1)
            began = time.monotonic()
            running.search(text="level")
            slowest = max(slowest, time.monotonic() - began)
        began = time.monotonic()
        assert running.end() == 0
        seconds = time.monotonic() - began
        stopping.set()
        for thread in threads:
            thread.join(20)
    assert sent > 0
    assert slowest < 2
    assert seconds < 10


def test_a_search_ends_when_its_client_has_left(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    body = slow_search()
    with serving(stripes_folder, tmp_path / "log", "--workers", "1", pictures=photos) as running:
        with contextlib.ExitStack() as connections:
            for _ in range(8):
                connection = connections.enter_context(socket.create_connection(address(running)))
                connection.sendall(search_request(body))
        statuses = [json.loads(line)["status"] for line in running.lines_after('"starting"', 8)]
    assert set(statuses) <= {200, 400, 499}  # answered before anybody looked; gone before it was read; cancelled
    assert statuses.count(499) >= 4


def test_log_lines_contain_no_payload(service: Running) -> None:
    service.client.options("/v1/search")  # a marker that no other test produces
    service.search(text="a secret wish")
    service.client.get("/v1/items/a%20secret%20id")
    service.client.get("/a-secret-path?secret=1")
    lines = service.lines_after('"OPTIONS"', 3)
    assert "secret" not in "".join(lines)
    requests = list(map(json.loads, lines))
    assert [line["endpoint"] for line in requests] == ["/v1/search", "/v1/items/{id}", "none"]
    assert [line["status"] for line in requests] == [200, 404, 404]
    assert all(line["milliseconds"] >= 0 for line in requests)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--writable"], "a writable service needs keys"),
        (["--keys", "no-such-file"], "the keys cannot be read from no-such-file"),
        (["--queries", "no-such-folder"], "--queries must be a folder"),
        (["--allow-origin", "shop.example.org"], "an origin looks like https://shop.example.org"),
        (["--title", "no-such-column"], "no item has a text or a column called 'no-such-column'"),
        (["--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
    ],
)
def test_invalid_options_are_reported(
    stripes_folder: Path,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DLFH_TOKEN", raising=False)
    assert main(["serve", str(stripes_folder), "--port", "0", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_short_token_is_rejected_and_not_printed(
    stripes_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLFH_TOKEN", "hush")
    assert main(["serve", str(stripes_folder)]) == 2
    error = capsys.readouterr().err
    assert "16 or more" in error
    assert "hush" not in error


HEAD = (
    b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer "
    + TOKEN.encode()
    + b"\r\n"
)


def test_an_endless_head_is_rejected(service: Running) -> None:
    endless = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x-more: " + b"a" * 100_000
    assert raw(service, endless).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("trailer", [b"x-more: a\r\n", b"x-more: " + b"a" * 1000])
def test_endless_trailers_are_rejected(service: Running, trailer: bytes) -> None:
    before, began = memory_of(service.process.pid), time.monotonic()
    with socket.create_connection(address(service), timeout=10) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(trailer * ((1 << 28) // len(trailer)))  # more than the socket buffers hold
    assert memory_of(service.process.pid) - before < 20 << 20
    assert time.monotonic() - began < 14  # immediately, not after the timeout
    assert service.client.get("/healthz").status_code == 200


def test_small_chunks_do_not_count_as_head(strict: Running) -> None:
    body = json.dumps({"text": "level", "k": 1}).encode() + b" " * 1900
    chunks = b"".join(b"1;" + b"x" * 50 + b"\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body)))
    answer = raw(strict, HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "content", [b"\x16\x03\x01\x02\0\x01", b"GET\r\n\r\n", b"GET /%%% HTTP/9\r\n\r\n", b"\0" * 100]
)
def test_a_request_that_is_not_http_gets_a_message(service: Running, content: bytes) -> None:
    answer = raw(service, content)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b'{"error":"the request is not HTTP"}')


def open_files(running: Running) -> int:
    files = Path(f"/proc/{running.process.pid}/fd")
    if not files.exists():
        pytest.skip("needs /proc")
    return len([*files.iterdir()])


def test_clients_that_stop_reading_are_disconnected(strict: Running) -> None:
    body = json.dumps({"queries": [{"text": "level"}] * 90, "k": 40}).encode()
    asked = HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body
    time.sleep(1.5)  # until idle connections of earlier tests are closed
    before = open_files(strict)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address(strict))
        connection.sendall(asked * 8)  # pipelined, and the responses are not read
        until = time.monotonic() + 20
        for is_there in (True, False):  # opened, then closed
            while (open_files(strict) > before) is not is_there:
                assert time.monotonic() < until
                time.sleep(0.02)
    assert strict.client.get("/healthz").status_code == 200


def test_excess_connections_are_rejected(strict: Running) -> None:
    strict.client.get("/healthz")  # one
    others = [socket.create_connection(address(strict), timeout=3) for _ in range(8)]
    try:
        answers = [other.recv(1000) for other in others[5:]]
        assert all(answer.startswith(b"HTTP/1.1 503 ") and b"retry-after" in answer for answer in answers)
    finally:
        for other in others:
            other.close()
    time.sleep(0.1)
    assert strict.client.get("/healthz").status_code == 200
