"""Running a service with uvicorn, with a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from dlfh.errors import InputError
from dlfh.service.app import create_app
from dlfh.service.connection import connection_class
from dlfh.service.monitoring import Log
from dlfh.service.settings import LOOPBACK, Settings


def serve(
    folder: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a collection until SIGTERM or SIGINT. Pending requests are answered before the process exits.

    Parameters
    ----------
    folder : path
        Folder of the collection.
    settings : Settings, optional
    host : str
        Address to listen on; by default, only the local machine can connect.
    port : int
        Port to listen on; 0 for any free port.
    on_ready : callable, optional
        Called with the URL of the service when it is ready.
    """
    # A thread that needs Python's lock waits this long for another to give it up, after every call that released it:
    # with the default of 5 ms, one slow request would delay every step of a simple search.
    sys.setswitchinterval(2e-4)
    settings = settings or Settings()
    log = Log(sys.stderr)
    logging.getLogger("uvicorn.error").disabled = True  # not JSON, and redundant with the log of the service
    listening = _listen(host, port)
    with listening:
        app = create_app(Path(folder), settings, log=log)
        bound = listening.getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            http=connection_class(settings.limits.connections, settings.limits.read_seconds),
            lifespan="on",
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=round(settings.stop_seconds) + 2,
            backlog=1024,
        )
        address = f"http://{shown}:{bound[1]}/"
        server = _Server(config, app.state.service, lambda: on_ready and on_ready(address))
        # From here on, signals shut the service down; an exception could be raised in the middle of starting the loop.
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
        self._service = service
        self._on_ready = on_ready

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
        """Leave signals to `signals`; uvicorn would raise them again afterwards."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Shut down on SIGINT or SIGTERM."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
