"""Limits of connections: their number, the size of heads and trailers, and clients that stop reading."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from tests.service.conftest import TOKEN, Running, address, memory_of, raw

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
