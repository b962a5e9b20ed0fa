"""The exceptions of the library: one small hierarchy."""

from __future__ import annotations

__all__ = ["DLFHError", "DataWarning", "InputError", "ModelError", "NotFittedError", "StorageError"]


class DLFHError(Exception):
    """Base class of every error that the library raises on purpose."""


class InputError(DLFHError, ValueError):
    """Data or a parameter is not what was expected; the message names it."""


class ModelError(DLFHError, ValueError):
    """A model folder is missing, damaged, too new, or not a model at all."""


class NotFittedError(DLFHError, ValueError, AttributeError):
    """A fitted model is needed and this one has not been fitted; of the same built-in types as scikit-learn's."""


class StorageError(DLFHError, ValueError):
    """An index folder is missing, damaged, too new, locked by another writer, or not an index at all."""


class DataWarning(UserWarning):
    """Data can be used, but something about them should be known first; the message says what."""
