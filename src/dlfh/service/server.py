"""Running a service with uvicorn, with limits on connections and a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dlfh.errors import InputError
from dlfh.service.answering import dump
from dlfh.service.app import create_app
from dlfh.service.guard import Log
from dlfh.service.settings import LOOPBACK, Limits, Settings

#: Limit on everything but bodies: request line, headers, chunk headers, trailers. Browsers send a tenth of it.
_MAX_HEAD_BYTES = 32 << 10


def serve(
    folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve one or several collections until SIGTERM or SIGINT. Pending requests are answered before the process exits.

    Parameters
    ----------
    folder : path or sequence of paths
        Folder of the collection, or folders of several, as for `create_app`.
    settings : Settings, optional
    host : str
        Address to listen on; by default, only the local machine can connect.
    port : int
        Port to listen on; 0 for any free port.
    on_ready : callable, optional
        Called with the URL of the service when it is ready.
    """
    # The longest time that a thread keeps Python's global lock while others wait for it. With the default of 5 ms, one
    # slow request would delay every step of a simple search.
    sys.setswitchinterval(2e-4)
    settings = settings or Settings()
    log = Log(sys.stderr)
    logging.getLogger("uvicorn.error").disabled = True  # not JSON, and redundant with the log of the service
    with _listen(host, port) as listening:
        app = create_app(folder, settings, log=log)
        bound = listening.getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        options: Any = {"http": functools.partial(_Connection, settings.limits), "lifespan": "on", "ws": "none"}
        options |= {"log_config": None, "access_log": False, "server_header": False, "date_header": True}
        options |= {"timeout_keep_alive": 30, "timeout_graceful_shutdown": round(settings.stop_seconds) + 2}
        config = uvicorn.Config(app, backlog=1024, **options)
        address = f"http://{shown}:{bound[1]}/"
        server = _Server(config, app.state.service, lambda: on_ready and on_ready(address))
        # From here on, signals shut the service down; without this, they could interrupt the start of the event loop.
        with server.signals():
            log.event("starting", address=address, loopback=host in LOOPBACK, writable=settings.writable)
            server.run(sockets=[listening])
            log.event("stopped")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as closing:
            listening = closing.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            closing.pop_all()
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}, port {port}: {why}") from None
    return listening


class _Server(uvicorn.Server):
    """A server that answers pending requests on open connections before it stops."""

    def __init__(self, config: uvicorn.Config, service: Any, on_ready: Callable[[], Any]) -> None:
        super().__init__(config)
        self._service, self._on_ready = service, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.metrics.draining = True  # /readyz fails, and each response closes its connection
        self._service.log.event("stopping", connections=len(self.server_state.connections))
        loop = asyncio.get_running_loop()
        loop.call_later(self._service.settings.stop_seconds, self._service.stop)
        deadline = loop.time() + self._service.settings.drain_seconds
        while self.server_state.connections and loop.time() < deadline and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Disable the handlers of uvicorn, which raise signals again after shutdown; `signals` handles them."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Connection(HttpToolsProtocol):
    """An HTTP connection with limits on connections, heads and slow readers, which uvicorn leaves to a proxy."""

    def __init__(self, limits: Limits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits, self._in_head, self._head_bytes = limits, True, 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_read_timer()
        if len(self.connections) > self._limits.connections:
            self._send_error(503, "too many connections are open: try again in a second")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in ("read", "write"):
            self._stop_timer(name)
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
        self._stop_timer("read")
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
        self._stop_timer("write")
        super().resume_writing()

    def _start_write_timer(self, n_bytes: int) -> None:
        """Disconnect a client that reads nothing until the timer expires, because responses stay in memory."""

        def check() -> None:
            remaining = self.transport.get_write_buffer_size()
            if remaining >= n_bytes:
                self.transport.abort()
            else:
                self._start_write_timer(remaining)

        self._stop_timer("write")
        self._timers["write"] = self.loop.call_later(self._limits.read_seconds, check)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

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
        if "read" not in self._timers:
            self._timers["read"] = self.loop.call_later(self._limits.read_seconds, self._on_read_timeout)

    def _on_read_timeout(self) -> None:
        del self._timers["read"]
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_read_timer()  # the client waits for an earlier response
        elif self._head_bytes:
            self._send_error(408, f"the request did not arrive within {self._limits.read_seconds:g} seconds")
        else:
            self.transport.close()
