"""A line of JSON for each request and event: what happened and how long it took, never what was asked."""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import IO, Any


class Log:
    """Writes lines.

    Parameters
    ----------
    stream : file, optional
        Standard error by default; None for nothing.

    Examples
    --------
    >>> Log(sys.stdout, clock=lambda: 0.0).event("started", items=3)
    {"time": "1970-01-01T00:00:00Z", "event": "started", "items": 3}
    """

    def __init__(self, stream: IO[str] | None, clock: Any = time.time) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()

    @classmethod
    def to_stderr(cls) -> Log:
        return cls(sys.stderr)

    def event(self, name: str, **facts: Any) -> None:
        """Write what happened."""
        if self._stream is None:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        line = json.dumps({"time": now, "event": name, **facts})
        with self._lock:
            try:
                print(line, file=self._stream, flush=True)
            except (OSError, ValueError):  # nobody reads it any more
                self._stream = None

    def request(self, scope: Mapping[str, Any], status: int, seconds: float, n_bytes: int) -> None:
        """Write that a request was answered: by which endpoint, not with what."""
        if self._stream is None:
            return
        client = scope.get("client")
        self.event(
            "request",
            method=_method(scope["method"]),
            endpoint=endpoint_of(scope),
            status=status,
            milliseconds=round(1000 * seconds, 2),
            bytes=n_bytes,
            client=client[0] if client else None,
        )

    def failure(self, error: BaseException) -> None:
        """Write where the service failed: the kind of error and the lines that led there, which hold no payload."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("failure", error=type(error).__name__, where=where)


def endpoint_of(scope: Mapping[str, Any]) -> str:
    """Return the endpoint that a request reached, such as ``/v1/items/{id}``; none of its values."""
    return getattr(scope.get("route"), "path_format", None) or "none"


def _method(method: str) -> str:
    """Return a method by its name; whatever somebody made up is "other"."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH") else "other"
