"""HTTP connections with limits: number of connections, time for request heads, size of heads, and slow readers.

uvicorn leaves these limits to a reverse proxy, which a service that is started by hand does not have.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dlfh.service.answering import dump

#: Limit of everything but bodies: request line, headers, chunk headers, trailers. Browsers send a tenth of it.
_MAX_HEAD_BYTES = 32 << 10


def connection_class(max_connections: int, seconds: float) -> type[HttpToolsProtocol]:
    """Return a uvicorn protocol class with limits on connections and on the time to read or write."""

    class Connection(HttpToolsProtocol):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._in_head = True
            self._head_bytes = 0
            self._read_timer: asyncio.TimerHandle | None = None
            self._write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_read_timer()
            if len(self.connections) > max_connections:
                self._send_error(503, "too many connections are open: try again in a second")

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_read_timer()
            self._stop_write_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._head_bytes += len(data)
            if self._in_head:
                self._start_read_timer()
            super().data_received(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._send_error(431, f"the request head has more than {_MAX_HEAD_BYTES:,} bytes")

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._stop_read_timer()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._head_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_head, self._head_bytes = True, 0

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_write_timer(self.transport.get_write_buffer_size())

        def resume_writing(self) -> None:
            self._stop_write_timer()
            super().resume_writing()

        def _start_write_timer(self, n_bytes: int) -> None:
            """Disconnect a client that reads nothing until the timer expires: responses would stay in memory."""

            def check() -> None:
                remaining = self.transport.get_write_buffer_size()
                if remaining >= n_bytes:
                    self.transport.abort()
                else:
                    self._start_write_timer(remaining)

            self._stop_write_timer()
            self._write_timer = self.loop.call_later(seconds, check)

        def _stop_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def send_400_response(self, msg: str) -> None:
            self._send_error(400, "the request is not HTTP")

        def _send_error(self, status: int, message: str) -> None:
            if self.transport.is_closing():
                return
            content = dump({"error": message})
            head = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
            retry = "retry-after: 1\r\n" if status == 503 else ""
            end = "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + (head + retry + end).encode() + content)
            self.transport.close()

        def _start_read_timer(self) -> None:
            if self._read_timer is None:
                self._read_timer = self.loop.call_later(seconds, self._on_read_timeout)

        def _stop_read_timer(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None

        def _on_read_timeout(self) -> None:
            self._read_timer = None
            if self.cycle is not None and not self.cycle.response_complete:
                self._start_read_timer()  # the client waits for an earlier response
            elif self._head_bytes:
                self._send_error(408, f"the request did not arrive within {seconds:g} seconds")
            else:
                self.transport.close()

    return Connection
