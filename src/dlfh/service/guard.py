"""Middleware: checks the host, the key and the size of each request, adds headers, and records log and metrics.

Neither the JSON log nor the Prometheus metrics contain queries, ids or other payload.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dlfh.service.answering import RequestError, busy, dump
from dlfh.service.keys import Keys, allows, required_role
from dlfh.service.settings import LOOPBACK, Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: The page loads nothing from other hosts, runs no inline scripts, and cannot be framed.
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
#: The response to a browser that asks whether a page of another origin may send a request.
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, if-none-match"),
    (b"access-control-max-age", b"600"),
]
#: Endpoints whose bodies may be as large as an upload; changes only if the service is writable.
_UPLOADS, _CHANGES = ("/v1/search/image", "/v1/queries/image"), "/v1/items"
_MAX_BODIES = 16  # limit on all request bodies in memory together, in multiples of the largest upload
#: Requests that take longer are cancelled if their client disconnects, and logged with the status that nginx uses.
_UNWATCHED_SECONDS, _CLIENT_CLOSED_REQUEST = 0.5, 499
#: Bytes of a rejected body that are read and discarded: many clients read the error only after sending the body.
_MAX_DRAINED = 64 << 20
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Guard:
    """ASGI middleware that forwards valid requests, and rejects the others with an error.

    ``collections`` are the applications of several collections, by name; they get the requests below ``/c/NAME/``.
    """

    def __init__(
        self, app: Any, settings: Settings, keys: Keys, metrics: Metrics, log: Log, collections: Mapping[str, Any]
    ) -> None:
        self._app, self._metrics, self._log, self._collections = app, metrics, log, collections
        self._settings, self._keys = settings, keys
        self.limits, self.body_bytes = settings.limits, 0
        self.uploads = (*_UPLOADS, _CHANGES) if settings.writable else _UPLOADS
        self._hosts = None if "*" in settings.hosts else {*LOOPBACK, *(name.lower() for name in settings.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status, (app, scope) = 0, self._route(scope)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = dict(reversed([*message.get("headers", ()), *self._headers(scope)]))  # the first ones win
                message["headers"] = [*headers.items()]
            async with asyncio.timeout(self.limits.read_seconds):  # disconnects clients that stop reading
                await send(message)

        body, has_left = _Body(self, receive), asyncio.Event()
        try:
            try:
                self._check_host(scope)
                if self._is_preflight(scope):
                    await send_with_headers({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT})
                    await send_with_headers({"type": "http.response.body"})
                    return
                self._check_key(scope)
                await body.read(scope)
                with _watched(receive, has_left):
                    await app(scope, body.replay, send_with_headers)
            except asyncio.CancelledError:
                if not has_left.is_set():
                    raise
                status = status or _CLIENT_CLOSED_REQUEST
            except RequestError as error:
                drain_seconds = 0 if error.status == 408 else self.limits.read_seconds
                await _send_error(send_with_headers, error, body, drain_seconds)
            except Exception as error:
                self._log.failure(error)
                if not status:
                    await _send_error(send_with_headers, RequestError(500, "internal error: see the service's log"))
        finally:
            self.body_bytes -= body.reserved
            self._record(scope, status, time.perf_counter() - start, body.n_bytes)

    def _record(self, scope: Scope, status: int, seconds: float, n_bytes: int) -> None:
        endpoint = getattr(scope.get("route"), "path_format", None) or "none"  # such as /v1/items/{id}
        method = scope["method"] if scope["method"] in _METHODS else "other"  # each label value adds a metric
        self._metrics.requests.labels(endpoint, method, str(status)).inc()
        self._metrics.seconds.labels(endpoint).observe(seconds)
        client, *_ = scope.get("client") or [None]
        about = {"method": method, "endpoint": endpoint, "status": status, "milliseconds": round(1000 * seconds, 2)}
        self._log.event("request", **about, bytes=n_bytes, client=client)

    def _route(self, scope: Scope) -> tuple[Any, Scope]:
        """Return the application for a request, and the request with the path inside this application."""
        _, first, name, *rest = (*scope["path"].split("/", 3), "", "")[:4]
        if first != "c" or name not in self._collections or not scope["path"].startswith(f"/c/{name}/"):
            return self._app, scope
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        return self._collections[name], {**scope, "path": f"/{rest[0]}", "raw_path": b"/" + raw.split(b"/", 3)[3]}

    def _is_preflight(self, scope: Scope) -> bool:
        """Return whether a browser asks if a page of a permitted origin may send a request."""
        names = {name for name, _ in scope["headers"]}
        return scope["method"] == "OPTIONS" and b"access-control-request-method" in names and bool(self._origin(scope))

    def _origin(self, scope: Scope) -> bytes | None:
        """Return the origin of the page that sends a request, if it is permitted."""
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        allowed = self._settings.origins
        return origin if origin is not None and ("*" in allowed or origin.decode("latin-1") in allowed) else None

    def _headers(self, scope: Scope) -> Iterable[tuple[bytes, bytes]]:
        if self._settings.origins:
            yield b"vary", b"origin"
            if origin := self._origin(scope):
                yield b"access-control-allow-origin", origin
                yield b"access-control-expose-headers", b"etag, retry-after"
                yield b"cross-origin-resource-policy", b"cross-origin"
        yield from _HEADERS
        if scope["path"].startswith("/v1/"):
            yield b"cache-control", b"no-store"
        if self._metrics.draining:
            yield b"connection", b"close"

    def _check_host(self, scope: Scope) -> None:
        """Reject unknown host names, which protects against DNS rebinding by other sites."""
        if self._hosts is None:
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise RequestError(421, "this host name is not allowed: start the service with --allow-host NAME")

    def _check_key(self, scope: Scope) -> None:
        """Raise an error if the client may not send this request; ``scope["dlfh.role"]`` is set to its role."""
        path, given = scope["path"], [value for name, value in scope["headers"] if name == b"authorization"]
        required = required_role(scope["method"], path)
        if required in ("write", "admin") and not self._settings.writable:
            required = "read"  # the endpoint says that the service is read-only
        scheme, _, key = (given[0] if len(given) == 1 else b"").partition(b" ")
        role = self._keys.role_of(key.strip()) if scheme.lower() == b"bearer" else None
        is_wrong = bool(given) and role is None and self._keys.needed
        if role is None and not is_wrong and (not self._keys.needed or (self._settings.public and path != "/metrics")):
            role = "read"
        scope["dlfh.role"] = role
        if allows(role, required):
            return
        if role is not None and given:
            raise RequestError(403, f"this key may only {role}, but the request needs a key with the role {required}")
        message = "the key is wrong" if is_wrong else "a key is required: send it as Authorization: Bearer KEY"
        raise RequestError(401, message, www_authenticate="Bearer")


@contextmanager
def _watched(receive: Receive, has_left: asyncio.Event) -> Iterator[None]:
    """Cancel the current request, and set ``has_left``, if its client disconnects."""
    request = asyncio.current_task()
    assert request is not None

    async def watch() -> None:
        await asyncio.sleep(_UNWATCHED_SECONDS)  # most requests are answered sooner
        while (await receive())["type"] != "http.disconnect":
            pass
        has_left.set()
        request.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


class _Body:
    """A request body, read completely and within limits before the application runs."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self._guard, self._receive = guard, receive
        self._content: bytes | None = None
        self.is_incomplete, self.reserved, self.n_bytes = True, 0, 0

    async def read(self, scope: Scope) -> None:
        """Read the body, counting its actual bytes instead of trusting the declared length."""
        limits = self._guard.limits
        is_upload = scope["path"].startswith(self._guard.uploads)
        max_bytes = limits.upload_bytes if is_upload else limits.body_bytes
        too_large = f"the request body has more than {max_bytes:,} bytes"
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > max_bytes:
            raise RequestError(413, too_large)
        parts = []
        try:
            async with asyncio.timeout(limits.read_seconds):
                while self.is_incomplete:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "the request is incomplete")
                    part = message.get("body", b"")
                    self.is_incomplete = message.get("more_body", False)
                    self.n_bytes += len(part)
                    if self.n_bytes > max_bytes:
                        raise RequestError(413, too_large)
                    self.reserved += len(part)
                    self._guard.body_bytes += len(part)
                    if self._guard.body_bytes > _MAX_BODIES * limits.upload_bytes:
                        raise busy()
                    parts.append(part)
        except TimeoutError:
            raise RequestError(408, f"the request did not arrive within {limits.read_seconds:g} seconds") from None
        self._content = b"".join(parts)

    async def replay(self) -> Message:
        if self._content is None:
            return await self._receive()
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def drain(self, seconds: float) -> None:
        remaining = _MAX_DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.is_incomplete and remaining > 0:
                    message = await self._receive()
                    self.is_incomplete = message["type"] == "http.request" and message.get("more_body", False)
                    remaining -= len(message.get("body", b""))


async def _send_error(send: Send, error: RequestError, body: _Body | None = None, drain_seconds: float = 0) -> None:
    """Send an error, and drain a body that has not arrived completely."""
    content = dump({"error": error.message})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        *((name.encode(), value.encode()) for name, value in error.headers.items()),
    ]
    is_incomplete = body is not None and body.is_incomplete
    if is_incomplete:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": is_incomplete})
    if body is not None and is_incomplete:
        await body.drain(drain_seconds)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Log:
    """A log with one line of JSON per request or event; without a stream, nothing is written."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def event(self, name: str, **fields: Any) -> None:
        if self._stream is None:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"time": now, "event": name, **fields})
        with self._lock:
            try:
                print(line, file=self._stream, flush=True)
            except (OSError, ValueError):  # the reader has closed the stream
                self._stream = None

    def failure(self, error: BaseException) -> None:
        """Log an unexpected error: its type and the last stack frames, without the message."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("failure", error=type(error).__name__, where=where)


class Metrics:
    """The metrics of one service, and whether it is shutting down (``draining``)."""

    def __init__(self) -> None:
        self.draining = False
        own: Any = {"registry": CollectorRegistry()}
        self.registry = own["registry"]
        self.requests = Counter("dlfh_requests", "Number of requests.", ("endpoint", "method", "status"), **own)
        self.seconds = Histogram("dlfh_request_seconds", "Response time.", ["endpoint"], buckets=_SECONDS, **own)
        self.batches = Histogram("dlfh_batch_size", "Requests per batch.", buckets=(1, 2, 4, 8, 16, 32), **own)
        self.waiting = Gauge("dlfh_waiting", "Requests in the queue.", **own)
        self.items = Gauge("dlfh_items", "Items in a collection.", ["collection"], **own)
        attempts = "Attempts to load a new state of the collection."
        self.refreshes = Counter("dlfh_refreshes", attempts, ["result"], **own)

    def text(self) -> bytes:
        return generate_latest(self.registry)
