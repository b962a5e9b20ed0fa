"""Connections to PostgreSQL: lent, kept for the next question, and made anew when they break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dlfh._optional import require
from dlfh.errors import StorageError
from dlfh.index.engines.address import Address

__all__ = ["Connections"]

#: Connections that are kept for the next question.
_MOST_IDLE = 4
#: For how many seconds a server that is away is waited for, and between two attempts.
_PATIENCE, _PAUSE = 20.0, 0.2

Result = TypeVar("Result")


class Connections:
    """Connections to a database of PostgreSQL, of which one thread has one at a time.

    Parameters
    ----------
    address : Address
    """

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

    def try_one(self) -> None:
        """Say at once if there is no server, or if it will not have us."""
        try:
            with self.one():
                pass
        except self._psycopg.Error as error:
            raise self._said(error) from None

    def ask(self, ask: Callable[[Any], Result]) -> Result:
        """Return what ``ask`` gives for a connection; asked again if that breaks."""
        if self.closed:
            raise StorageError("the index is closed")
        end = time.monotonic() + self.patience
        while True:
            try:
                with self.one() as connection:
                    return ask(connection)
            except self._psycopg.Error as error:
                if not self._is_broken(error) or time.monotonic() > end:
                    raise self._said(error) from None
            time.sleep(_PAUSE)

    def change(self, change: Callable[[Any], None]) -> None:
        """Make a change that may be made again, whole or not at all."""

        def attempt(connection: Any) -> None:
            with connection.transaction():
                change(connection)

        self.ask(attempt)

    @contextmanager
    def one(self) -> Iterator[Any]:
        """Lend a connection that nobody uses, or make one; those that are whole are kept for others."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        # (Nothing of ours is prepared on a server: what stands between may hand us another connection.)
        connection = connection or self._psycopg.connect(
            self._address.place, autocommit=True, prepare_threshold=None, connect_timeout=5
        )
        try:
            yield connection
        finally:
            with self._lock:
                keep = self._idle is not None and len(self._idle) < _MOST_IDLE and not connection.closed
                if keep and connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)  # type: ignore[union-attr]
                    connection = None
            if connection is not None:
                connection.close()

    def _is_broken(self, error: Exception) -> bool:
        """Return whether an error is of the connection, or of a server that stops or starts."""
        state = getattr(error, "sqlstate", None) or ""
        passing = state.startswith(("08", "57P")) or state in ("40001", "40P01")
        return passing or (isinstance(error, self._psycopg.OperationalError) and not state and not _is_refusal(error))

    def _said(self, error: Exception) -> StorageError:
        """Return an error as one sentence: what the server says, or, if it says nothing, why there is none."""
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        lines = self._address.without_secrets(primary or str(error)).strip().splitlines() or [type(error).__name__]
        return StorageError(f"PostgreSQL at {self._address.shown}: {lines[-1].strip()}")


def _is_refusal(error: Exception) -> bool:
    """Return whether a server answered, and will not have us: asking again changes nothing."""
    said = str(error)
    return any(
        word in said for word in ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password")
    )
