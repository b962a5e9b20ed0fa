"""Serving: uvicorn around the application, from its start to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from dlfh.errors import InputError
from dlfh.service.app import create_app
from dlfh.service.connection import connection_class
from dlfh.service.logs import Log
from dlfh.service.settings import LOOPBACK, Settings


def serve(
    folder: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a collection until the process is told to end (SIGTERM, SIGINT): requests under way are answered.

    Parameters
    ----------
    folder : path
    settings : Settings, optional
    host : str
        The address to listen at; by default this machine alone can ask.
    port : int
        0 for one that is free.
    on_ready : callable, optional
        Called with the service's address when it takes requests.
    """
    settings = settings or Settings()
    log = Log.to_stderr()
    logging.getLogger("uvicorn.error").disabled = True  # what it says is no JSON, and our log says it
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
            timeout_graceful_shutdown=round(settings.limits.answer_seconds) + 5,
            backlog=1024,
        )
        address = f"http://{shown}:{bound[1]}/"
        server = _Server(config, app.state.service, lambda: on_ready and on_ready(address))
        log.event("starting", address=address, loopback=host in LOOPBACK, writable=settings.writable)
        server.run(sockets=[listening])
        log.event("ended")


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
        raise InputError(f"cannot listen at {host}, port {port}: {why}") from None
    return listening


class _Server(uvicorn.Server):
    """A server that answers what is asked on open connections before it ends."""

    def __init__(self, config: uvicorn.Config, service: Any, on_ready: Callable[[], Any]) -> None:
        super().__init__(config)
        self._service = service
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.metrics.draining = True  # not ready any more, and each answer closes its connection
        self._service.log.event("ending", connections=len(self.server_state.connections))
        loop = asyncio.get_running_loop()
        until = loop.time() + self._service.settings.drain_seconds
        while self.server_state.connections and loop.time() < until and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on a signal, and end well: nobody else hears of it."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
