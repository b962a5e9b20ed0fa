"""What stands before every request: who may ask, how much, for how long; and what every answer carries."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from dlfh.service.answering import dump
from dlfh.service.errors import Refusal, busy
from dlfh.service.logs import Log
from dlfh.service.metrics import Metrics
from dlfh.service.settings import LOOPBACK, Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: The page asks nobody else for anything, runs its own script alone, and is shown in nobody's frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]

#: Where requests may be as large as an upload; those that change something, where that is allowed.
_UPLOADS, _CHANGES = "/v1/search/image", "/v1/items"
#: All bodies that are being read may have so many bytes together, as a multiple of the largest.
_BODIES_AT_ONCE = 16
#: Of a body that is too large so much is read and thrown away, so that its sender comes to read why.
_MOST_DRAINED = 64 << 20


class Guard:
    """Lets requests through to an application, or answers them itself.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    metrics : Metrics
    log : Log
    """

    def __init__(self, app: Any, settings: Settings, metrics: Metrics, log: Log) -> None:
        self._app = app
        self._limits = settings.limits
        self._uploads = (_UPLOADS, _CHANGES) if settings.writable else (_UPLOADS,)
        self._token = None if settings.token is None else settings.token.encode()
        self._hosts = None if "*" in settings.hosts else {*LOOPBACK, *(name.lower() for name in settings.hosts)}
        self._metrics = metrics
        self._log = log
        self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message.get("headers", ())}
                more = [pair for pair in self._headers(scope) if pair[0] not in own]
                message["headers"] = [*message.get("headers", ()), *more]
            async with asyncio.timeout(self._limits.read_seconds):  # who asks and does not listen is not waited for
                await send(message)

        reader = _Body(self, receive)
        try:
            try:
                self._check_host(scope)
                self._check_token(scope)
                await reader.read(self._most_bytes(scope), _length(scope), self._limits.read_seconds)
                await self._app(scope, reader.replay, send_guarded)
            except Refusal as refusal:
                patience = 0 if refusal.status == 408 else self._limits.read_seconds
                await _refuse(send_guarded, refusal, reader, patience)
            except Exception as error:
                self._log.failure(error)
                if not status:
                    await _refuse(send_guarded, Refusal(500, "something went wrong in the service itself"))
        finally:
            reader.let_go()
            seconds = time.perf_counter() - began
            self._metrics.request(scope, status, seconds)
            self._log.request(scope, status, seconds, reader.n_bytes)

    def _headers(self, scope: Scope) -> Iterable[tuple[bytes, bytes]]:
        yield from _HEADERS
        if scope["path"].startswith("/v1/"):
            yield b"cache-control", b"no-store"
        if self._metrics.draining:
            yield b"connection", b"close"

    def _check_host(self, scope: Scope) -> None:
        """Refuse other names: a page of another site must not reach this machine by a name that leads here."""
        if self._hosts is None:
            return
        names = [value for name, value in scope["headers"] if name == b"host"]
        host = names[0].decode("latin-1").lower() if len(names) == 1 else ""
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise Refusal(421, "this service is not called by that name: start it with --allow-host NAME if it is")

    def _check_token(self, scope: Scope) -> None:
        path = scope["path"]
        if self._token is None or not (path.startswith("/v1/") or path in ("/metrics", "/openapi.json")):
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        right = hmac.compare_digest(token.strip(), self._token)  # in the same time, whatever is wrong with it
        if scheme.lower() == b"bearer" and right:
            return
        sentence = "the token is wrong" if given else "a token is needed: send it as Authorization: Bearer TOKEN"
        raise Refusal(401, sentence, {"www-authenticate": "Bearer"})

    def _most_bytes(self, scope: Scope) -> int:
        uploads = scope["path"].startswith(self._uploads)
        return self._limits.upload_bytes if uploads else self._limits.body_bytes

    def take_bytes(self, n_bytes: int) -> None:
        """Count bytes of bodies that are being read; refuse what is too much together."""
        self._body_bytes += n_bytes
        if self._body_bytes > _BODIES_AT_ONCE * self._limits.upload_bytes:
            raise busy()

    def give_bytes(self, n_bytes: int) -> None:
        self._body_bytes -= n_bytes


class _Body:
    """The body of a request: read whole, within its limits, before anything looks at it."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self._guard = guard
        self._receive = receive
        self._content: bytes | None = None
        self._more = True
        self._held = 0
        self.n_bytes = 0

    async def read(self, most: int, declared: int | None, seconds: float) -> None:
        """Read it; what a request says of its length is believed only if it is too long already."""
        if declared is not None and declared > most:
            raise _too_large(most)
        chunks = []
        try:
            async with asyncio.timeout(seconds):
                while self._more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the request ended before all of it was there")
                    chunk = message.get("body", b"")
                    self._more = message.get("more_body", False)
                    self.n_bytes += len(chunk)
                    if self.n_bytes > most:  # its own fault, whatever others do
                        raise _too_large(most)
                    self._held += len(chunk)
                    self._guard.take_bytes(len(chunk))
                    chunks.append(chunk)
        except TimeoutError:
            raise Refusal(408, f"the request was not there after {seconds:g} seconds") from None
        self._content = b"".join(chunks)

    async def replay(self) -> Message:
        """Give the body to an application, and then whatever comes."""
        if self._content is None:
            return await self._receive()
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def drain(self, seconds: float) -> None:
        """Read what is left of it and throw it away, some of it at least."""
        left = _MOST_DRAINED
        try:
            async with asyncio.timeout(seconds):
                while self._more and left > 0:
                    message = await self._receive()
                    self._more = message["type"] == "http.request" and message.get("more_body", False)
                    left -= len(message.get("body", b""))
        except TimeoutError:
            pass

    @property
    def is_unread(self) -> bool:
        return self._more

    def let_go(self) -> None:
        self._guard.give_bytes(self._held)


async def _refuse(send: Send, refusal: Refusal, body: _Body | None = None, patience: float = 0) -> None:
    """Answer with a status and a sentence; a body that is still on its way is read for a while and thrown away."""
    content = dump({"error": refusal.sentence})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        *((name.encode(), value.encode()) for name, value in refusal.headers.items()),
    ]
    unread = body is not None and body.is_unread
    if unread:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": unread})
    if body is not None and unread:
        await body.drain(patience)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the request has more than {most:,} bytes, the most that is taken")


def _length(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None
