"""The exceptions of the library: one small hierarchy."""

from __future__ import annotations

__all__ = ["DLFHError", "DataWarning", "InputError", "ModelError", "NotFittedError", "ServiceError", "StorageError"]


class DLFHError(Exception):
    r"""Base class of every error that the library raises on purpose.

    Its message is one line of printable characters, whatever is quoted in it from files of others.

    Examples
    --------
    >>> str(InputError("no column named 'a\x1b[2Jb'"))
    "no column named 'a\\x1b[2Jb'"
    """

    def __str__(self) -> str:
        message = super().__str__()
        return message if message.isprintable() else "".join(map(_printable, message))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


class InputError(DLFHError, ValueError):
    """Data or a parameter is not what was expected; the message names it."""


class ModelError(DLFHError, ValueError):
    """A model folder is missing, damaged, too new, or not a model at all."""


class NotFittedError(DLFHError, ValueError, AttributeError):
    """A fitted model is needed and this one has not been fitted; of the same built-in types as scikit-learn's."""


class ServiceError(DLFHError, RuntimeError):
    """A service cannot be reached, does not answer, or will not: it is busy, or wants another token."""


class StorageError(DLFHError, ValueError):
    """An index folder is missing, damaged, too new, locked by another writer, or not an index at all."""


class DataWarning(UserWarning):
    """Data can be used, but something about them should be known first; the message says what."""
