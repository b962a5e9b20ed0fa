"""One connection: how many there may be, how long a request may take to come, how large all around its body may be.

Who asks and does not listen is not waited for either: an answer that nobody reads would stay in memory for ever.

uvicorn leaves these to a proxy in front of it; a service that people start by hand has none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dlfh.service.answering import dump

#: The first line and the headers of a request together, or what comes after its body; browsers send a tenth of it.
_MOST_HEAD_BYTES = 32 << 10


def connection_class(most: int, seconds: float) -> type[HttpToolsProtocol]:
    """Return the protocol of a service that takes so many connections, and waits so long for the head of a request."""

    class Connection(HttpToolsProtocol):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._in_head = True
            self._head_bytes = 0  # and of what else is no body: chunks' own heads, and what follows the last one
            self._timer: asyncio.TimerHandle | None = None
            self._listening: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._set_timer()
            if len(self.connections) > most:
                self._refuse(503, "too many connections are open: try again in a second")

        def connection_lost(self, exc: Exception | None) -> None:
            self._unset_timer()
            self._end_listening()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._head_bytes += len(data)
            if self._in_head:
                self._set_timer()
            super().data_received(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._refuse(431, f"the head of the request has more than {_MOST_HEAD_BYTES:,} bytes")

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._unset_timer()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._head_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_head, self._head_bytes = True, 0

        def pause_writing(self) -> None:
            super().pause_writing()
            self._expect_less(self.transport.get_write_buffer_size())

        def resume_writing(self) -> None:
            self._end_listening()
            super().resume_writing()

        def _expect_less(self, n_bytes: int) -> None:
            """Look later whether some of an answer was read, and if not, let go of it and of the connection."""

            def look() -> None:
                left = self.transport.get_write_buffer_size()
                if left >= n_bytes:
                    self.transport.abort()
                else:
                    self._expect_less(left)

            self._end_listening()
            self._listening = self.loop.call_later(seconds, look)

        def _end_listening(self) -> None:
            if self._listening is not None:
                self._listening.cancel()
                self._listening = None

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "the request is not HTTP")

        def _refuse(self, status: int, sentence: str) -> None:
            if self.transport.is_closing():
                return
            content = dump({"error": sentence})
            head = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
            more = "retry-after: 1\r\n" if status == 503 else ""
            end = "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + (head + more + end).encode() + content)
            self.transport.close()

        def _set_timer(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._too_late)

        def _unset_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _too_late(self) -> None:
            self._timer = None
            if self.cycle is not None and not self.cycle.response_complete:
                self._set_timer()  # it waits for the answer to an earlier one
            elif self._head_bytes:
                self._refuse(408, f"the request was not there after {seconds:g} seconds")
            else:
                self.transport.close()

    return Connection
