"""Failed requests are repeated if that is safe, and otherwise raise errors of one sentence."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dlfh.client.transport import Transport
from dlfh.errors import InputError, ServiceError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
LOST = b""
BUSY = b'HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 17\r\n\r\n{"error": "busy"}'
LOCKED = BUSY.replace(b"503", b"409")
ENDED = BUSY.replace(b"retry-after: 0\r\n", b"")


@contextmanager
def answering(*answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends the given responses, one per connection; None sends nothing."""
    asked: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(65536))
                if answer is None:
                    time.sleep(0.6)
                else:
                    connection.sendall(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("answers", "again", "sentence", "n_asked"),
    [
        ((OK,), True, None, 1),
        ((BUSY, BUSY, OK), True, None, 3),
        ((BUSY, OK), False, "busy", 1),  # it may still be executed
        ((LOCKED, OK), False, None, 2),  # it was not executed
        ((LOST, OK), True, None, 2),
        ((LOST, OK), False, "lost the connection", 1),
        ((ENDED, OK), True, "busy", 1),  # no Retry-After header
        ((BUSY,) * 9, True, "busy", 4),
        ((LOST,) * 9, True, "lost the connection", 4),
        ((None,), False, "did not respond within 0.3 seconds", 1),
        ((OK.replace(b"{}", b"<>"),), True, "not JSON", 1),
        ((b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",), True, "with 302", 1),
        ((b"HTTP/1.1 404 No\r\ncontent-length: 4\r\n\r\nnope",), True, "with 404", 1),
        ((b"SSH-2.0-x\r\n\r\n",), False, "lost the connection", 1),
    ],
)
def test_requests_are_answered_repeated_or_abandoned(
    answers: tuple[bytes | None, ...], again: bool, sentence: str | None, n_asked: int
) -> None:
    with answering(*answers) as (address, asked):
        transport = Transport(address, "a-token", 0.3, 3)
        try:
            if sentence is None:
                assert transport.json("POST", "/v1/search", repeatable=again, json={"k": 1}) == {}
            else:
                with pytest.raises(ServiceError, match=sentence) as raised:
                    transport.json("POST", "/v1/search", repeatable=again, json={"k": 1})
                assert "a-token" not in str(raised.value)
                assert "\n" not in str(raised.value)
        finally:
            transport.close()
    assert len(asked) == n_asked
    assert all(b"authorization: bearer a-token" in own.lower() for own in asked)


def test_an_unreachable_service_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ServiceError, match="cannot connect to a service at"):
        Transport(f"http://127.0.0.1:{port}", None, 1.0, 1).json("GET", "/")


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://x", "", "http://a:b"])
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="address"):
        Transport(address, None, 1.0, 0)
