"""Errors that a request is answered with: a status and a one-sentence message."""

from __future__ import annotations


class RequestError(Exception):
    """A request that fails with an HTTP status and a message."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def unknown_item(identifier: str) -> RequestError:
    """Return the error for an id that no item has."""
    return RequestError(404, f"unknown item {identifier[:200]!r}")


def shutting_down() -> RequestError:
    """Return the error for a request that the service does not finish before it exits."""
    return RequestError(503, "the service is shutting down", {"retry-after": "5"})


def busy() -> RequestError:
    """Return the error for a request that exceeds the capacity of the service."""
    return RequestError(503, "too many requests are waiting: try again in a second", {"retry-after": "1"})
