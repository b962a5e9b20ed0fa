"""Format versions of models, indexes and collections, checked in one place."""

from __future__ import annotations

from dlfh._validation import shown


def version_problem(version: object, newest: int) -> str | None:
    """Return why files of a format version cannot be read, as a predicate; None if they can.

    Versions are counted from 1. ``newest`` is the version that this library writes; it reads all up to that.
    """
    if type(version) is not int or version < 1:  # True is an int, too
        return f"is damaged: its format version is {shown(version)}"
    if version > newest:
        return f"has format version {shown(version)}, but this version of dlfh reads up to {newest}: upgrade dlfh"
    return None
