"""A pool of connections to PostgreSQL that reconnects after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dlfh._optional import require
from dlfh.errors import StorageError
from dlfh.index.engines.address import Address

_MAX_IDLE = 4
#: Seconds to wait for an unavailable server, and between attempts.
_PATIENCE, _PAUSE = 20.0, 0.2

Result = TypeVar("Result")


class Connections:
    """A pool of connections to one database. A connection serves one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._psycopg: Any = require("psycopg", "this address", "postgres")
        self._address = address
        self._idle: list[Any] | None = []
        self._lock = threading.Lock()
        self.patience = _PATIENCE

    @property
    def closed(self) -> bool:
        return self._idle is None

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()

    def check(self) -> None:
        """Connect once; raise `StorageError` immediately if the server is unavailable or refuses."""
        try:
            with self.one():
                pass
        except self._psycopg.Error as error:
            raise self._storage_error(error) from None

    def run(self, query: Callable[[Any], Result]) -> Result:
        """Return ``query(connection)``, and repeat it if the connection breaks."""
        if self.closed:
            raise StorageError("the index is closed")
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with self.one() as connection:
                    return query(connection)
            except self._psycopg.Error as error:
                if not self._is_transient(error) or time.monotonic() > deadline:
                    raise self._storage_error(error) from None
            time.sleep(_PAUSE)

    def change(self, change: Callable[[Any], None]) -> None:
        """Run ``change(connection)`` in a transaction, and repeat it if the connection breaks."""

        def attempt(connection: Any) -> None:
            with connection.transaction():
                change(connection)

        self.run(attempt)

    @contextmanager
    def one(self) -> Iterator[Any]:
        """Lend an idle connection or a new one; keep it afterwards if it still works."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        # No prepared statements: a pooler in between may switch the server connection.
        connection = connection or self._psycopg.connect(
            self._address.place, autocommit=True, prepare_threshold=None, connect_timeout=5
        )
        try:
            yield connection
        finally:
            with self._lock:
                keep = self._idle is not None and len(self._idle) < _MAX_IDLE and not connection.closed
                if keep and connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)  # type: ignore[union-attr]
                    connection = None
            if connection is not None:
                connection.close()

    def _is_transient(self, error: Exception) -> bool:
        """Return whether a query that failed may succeed if it is repeated."""
        state = getattr(error, "sqlstate", None) or ""
        if state:  # connection exceptions, shutdown and start-up of the server, serialization failures, deadlocks
            return state.startswith(("08", "57P")) or state in ("40001", "40P01")
        refusals = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password")
        return isinstance(error, self._psycopg.OperationalError) and not any(text in str(error) for text in refusals)

    def _storage_error(self, error: Exception) -> StorageError:
        """Return an error with the message of the server, or else of the client, without secrets."""
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        lines = self._address.without_secrets(primary or str(error)).strip().splitlines() or [type(error).__name__]
        return StorageError(f"PostgreSQL at {self._address.shown}: {lines[-1].strip()}")
