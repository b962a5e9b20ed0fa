"""The JSON log and the Prometheus metrics. Neither contains queries, ids or other payload."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Mapping
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Log:
    """A log with one line of JSON per request or event; without a stream, nothing is written."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

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

    def request(self, scope: Mapping[str, Any], status: int, seconds: float, n_bytes: int) -> None:
        client = scope.get("client")
        self.event(
            "request",
            method=_method(scope),
            endpoint=_endpoint(scope),
            status=status,
            milliseconds=round(1000 * seconds, 2),
            bytes=n_bytes,
            client=client[0] if client else None,
        )

    def failure(self, error: BaseException) -> None:
        """Log an unexpected error: its type and the last stack frames, without the message."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("failure", error=type(error).__name__, where=where)


class Metrics:
    """The metrics of one service, and whether it is shutting down (``draining``)."""

    def __init__(self) -> None:
        self.draining = False
        registry = self.registry = CollectorRegistry()
        labels = ("endpoint", "method", "status")
        self._requests = Counter("dlfh_requests", "Number of requests.", labels, registry=registry)
        self._seconds = Histogram(
            "dlfh_request_seconds", "Response time.", ["endpoint"], buckets=_SECONDS, registry=registry
        )
        self.batches = Histogram(
            "dlfh_batch_size", "Requests per batch.", buckets=(1, 2, 4, 8, 16, 32), registry=registry
        )
        self.waiting = Gauge("dlfh_waiting", "Requests in the queue.", registry=registry)
        self.items = Gauge("dlfh_items", "Items in the collection.", registry=registry)
        self.refreshes = Counter(
            "dlfh_refreshes", "Attempts to load a new state of the collection.", ["result"], registry=registry
        )

    def request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        endpoint = _endpoint(scope)
        self._requests.labels(endpoint, _method(scope), str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


def _endpoint(scope: Mapping[str, Any]) -> str:
    """Return the endpoint template of a request, such as ``/v1/items/{id}``."""
    return getattr(scope.get("route"), "path_format", None) or "none"


def _method(scope: Mapping[str, Any]) -> str:
    """Return the HTTP method, or "other" for non-standard ones, which would add metrics without limit."""
    return scope["method"] if scope["method"] in _METHODS else "other"
