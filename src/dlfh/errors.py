"""Exceptions and warnings of the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DLFHError", "DataWarning", "InputError", "ModelError", "NotFittedError", "ServiceError", "StorageError"]


class DLFHError(Exception):
    r"""Base class of all exceptions that the library raises deliberately.

    The message is one line of printable characters; control characters quoted from files are escaped.

    Examples
    --------
    >>> str(InputError("no column named 'a\x1b[2Jb'"))
    "no column named 'a\\x1b[2Jb'"
    """

    def __str__(self) -> str:
        message = super().__str__()
        escaped = (letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in message)
        return message if message.isprintable() else "".join(escaped)


class InputError(DLFHError, ValueError):
    """Invalid data or an invalid parameter, named in the message."""


class ModelError(DLFHError, ValueError):
    """A model folder is missing, damaged, written by a newer version, or not a model."""


class NotFittedError(DLFHError, ValueError, AttributeError):
    """An operation needs a fitted model. Has the same built-in base classes as scikit-learn's exception."""


class ServiceError(DLFHError, RuntimeError):
    """A service cannot be reached, does not respond, is busy, or rejects the token."""


class StorageError(DLFHError, ValueError):
    """An index is missing, damaged, written by a newer version, locked by another writer, or not an index."""


class DataWarning(UserWarning):
    """The data can be used but has a problem, described in the message."""


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Prepend ``prefix`` and a colon to the message of any InputError raised in the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{prefix}: {error}") from None
