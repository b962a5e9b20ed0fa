"""How much a file may ask for: the budgets of every reader, in one place.

A file of a few kilobytes can ask for all memory of a machine, or for all its time: compressed zeros, a picture of a
billion white pixels, groups that hold each other. What is refused is said with the environment variable that allows
more, which works for the library and the command line alike.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.errors import InputError

__all__ = ["DEEPEST", "Budget", "check_limit", "check_regular_file", "limit_of"]

#: What is in something in something: no deeper.
DEEPEST = 64

#: A large file may take more memory than a small one, up to so many times its size.
_TIMES_ITS_SIZE = 10

#: By environment variable, the most that is read unless it is set.
_LIMITS = {
    "DLFH_MAX_BYTES": 1 << 30,  # of memory that the content of a file takes, or 10 times its size if that is more
    "DLFH_MAX_PIXELS": 128_000_000,  # of one image: more than cameras have
    "DLFH_MAX_OBJECTS": 1_000_000,  # arrays, groups, cells and fields in one file
    "DLFH_MAX_CHARACTERS": 1 << 22,  # of one text: more than novels have
}


def limit_of(variable: str) -> int:
    """Return a limit, as the environment sets it or by default.

    Examples
    --------
    >>> limit_of("DLFH_MAX_PIXELS")
    128000000
    """
    text = os.environ.get(variable)
    if text is None:
        return _LIMITS[variable]
    if not text.strip().isdecimal() or len(text) > 30:
        raise InputError(f"the environment variable {variable} must be a whole number, got {text[:40]!r}")
    return int(text)


def check_limit(variable: str, asked: int, what: str) -> None:
    """Refuse what asks for more than a limit, in a sentence that begins with what it is.

    Examples
    --------
    >>> check_limit("DLFH_MAX_PIXELS", 10**10, "wall.png has 10,000,000,000 pixels")
    Traceback (most recent call last):
    dlfh.errors.InputError: wall.png has 10,000,000,000 pixels, and 128,000,000 is the most that is read: set
    DLFH_MAX_PIXELS to allow more
    """
    limit = limit_of(variable)
    if asked > limit:
        raise InputError(f"{what}, and {limit:,} is the most that is read: set {variable} to allow more")


def check_regular_file(path: str | os.PathLike[str], called: str = "it") -> int:
    """Return the size of a file; a folder, a pipe or a device is refused before anything opens it."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"{called} does not exist") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{called} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(about.st_mode):
        raise InputError(f"{called} is a folder, not a file")
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{called} is a pipe or a device, not a file")
    return about.st_size


@dataclass
class Budget:
    """What one file may still ask for.

    Attributes
    ----------
    n_bytes : int
        Of memory in all.
    bytes_left, objects_left : int
    called : str
        What to call the file in an error.
    """

    n_bytes: int
    bytes_left: int
    objects_left: int
    called: str = "it"

    @classmethod
    def of_file(cls, file: Path, called: str = "it") -> Budget:
        """Return the budget of a file by its size."""
        n_bytes = max(limit_of("DLFH_MAX_BYTES"), _TIMES_ITS_SIZE * file.stat().st_size)
        return cls(n_bytes, n_bytes, limit_of("DLFH_MAX_OBJECTS"), called)

    def take_bytes(self, n_bytes: int) -> None:
        """Count memory that the content of the file takes, before it is taken."""
        self.bytes_left -= n_bytes
        if self.bytes_left < 0:
            raise InputError(
                f"what is in {self.called} takes more than {self.n_bytes / 2**30:.3g} GB of memory, "
                "the most that is read: set DLFH_MAX_BYTES to allow more"
            )

    def take_objects(self, number: int = 1) -> None:
        """Count arrays, groups or cells."""
        self.objects_left -= number
        if self.objects_left < 0:
            raise InputError(
                f"{self.called} has more than {limit_of('DLFH_MAX_OBJECTS'):,} arrays, groups, cells or fields, "
                "the most that is read: set DLFH_MAX_OBJECTS to allow more"
            )

    def strings(self, texts: Sequence[str]) -> npt.NDArray[Any]:
        """Return texts as an array, in which each takes as much room as the longest."""
        self.take_bytes(4 * len(texts) * max(map(len, texts), default=0))
        return np.array(texts, dtype=str)
