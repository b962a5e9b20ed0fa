"""Limits on the resources that reading a file may take.

A file of a few kilobytes can exhaust memory or take hours to read: compressed zeros, an image of a billion white
pixels, groups that contain each other. Every error names the environment variable that raises the limit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dlfh._arrays import Array
from dlfh.errors import InputError, prefixed

MAX_DEPTH = 64  #: Maximum nesting depth.
_MEMORY_PER_BYTE = 10  #: Memory that a file may take, as a multiple of its size, if that is more than DLFH_MAX_BYTES.
#: Default limits by environment variable.
_LIMITS = {
    "DLFH_MAX_BYTES": 1 << 30,  # memory taken by the content of a file
    "DLFH_MAX_PIXELS": 128_000_000,  # pixels of one image: more than any camera has
    "DLFH_MAX_OBJECTS": 1_000_000,  # arrays, groups, cells and fields in one file
    "DLFH_MAX_CHARACTERS": 1 << 22,  # characters of one text: more than a novel
}
#: Formats by their first bytes.
_FIRST_BYTES = {
    b"\x93NUMPY": "a NumPy array (.npy)",
    b"PK": "a zip or NumPy archive (.npz)",
    b"PAR1": "a Parquet table (.parquet)",
    b"MATLAB": "a MATLAB file (.mat)",
    b"\x89HDF": "an HDF5 file (.h5)",
}


def limit_of(variable: str) -> int:
    """Return a limit: the value of its environment variable, or the default."""
    if (text := os.environ.get(variable)) is None:
        return _LIMITS[variable]
    if not text.strip().isdecimal() or len(text) > 30:
        raise InputError(f"the environment variable {variable} must be a non-negative integer, got {text[:40]!r}")
    return int(text)


def check_limit(variable: str, value: int, statement: str) -> None:
    """Raise InputError if ``value`` exceeds a limit; ``statement`` is the first part of the message."""
    limit = limit_of(variable)
    if value > limit:
        raise InputError(f"{statement}, more than the limit of {limit:,}: set {variable} to raise the limit")


def check_regular_file(path: str | os.PathLike[str], called: str = "it") -> int:
    """Return the size of a regular file; refuse folders, pipes and devices without opening them."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"{called} does not exist") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{called} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{called} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{called} is a pipe or a device, not a file")
    return status.st_size


def read_file(path: Path, called: str) -> bytes:
    """Return the content of a file, within the limit on its size; ``called`` names it in error messages."""
    size = check_regular_file(path, called)
    check_limit("DLFH_MAX_BYTES", size, f"{called} has {size:,} bytes")
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{called} cannot be read: {getattr(error, 'strerror', None) or error}") from None


@dataclass
class Budget:
    """Remaining memory and number of objects that one file may use."""

    n_bytes: int  # total memory
    bytes_left: int
    objects_left: int

    @classmethod
    def of_file(cls, file: Path) -> Budget:
        """Return the budget for a file, which depends on its size."""
        n_bytes = max(limit_of("DLFH_MAX_BYTES"), _MEMORY_PER_BYTE * file.stat().st_size)
        return cls(n_bytes, n_bytes, limit_of("DLFH_MAX_OBJECTS"))

    def take_bytes(self, n_bytes: int) -> None:
        """Reserve memory; call this before allocating it."""
        self.bytes_left -= n_bytes
        if self.bytes_left < 0:
            raise InputError(
                f"reading it takes more than the limit of {self.n_bytes / 2**30:.3g} GB of memory: "
                "set DLFH_MAX_BYTES to raise the limit"
            )

    def check_bytes(self, n_bytes: int) -> None:
        """Raise InputError if ``n_bytes`` exceeds the remaining memory, without reserving any."""
        if n_bytes > self.bytes_left:
            self.take_bytes(n_bytes)

    def take_objects(self, number: int = 1) -> None:
        """Count new arrays, groups, cells or fields against the limit."""
        self.objects_left -= number
        if self.objects_left < 0:
            raise InputError(
                f"it has more than the limit of {limit_of('DLFH_MAX_OBJECTS'):,} arrays, groups, cells "
                "and fields: set DLFH_MAX_OBJECTS to raise the limit"
            )

    def strings(self, texts: Sequence[str]) -> Array:
        """Return texts as a fixed-width array, in which every text takes as much memory as the longest."""
        self.take_bytes(4 * len(texts) * max(map(len, texts), default=0))
        return np.array(texts, dtype=str)


@contextmanager
def reading(file: Path, kind: str) -> Iterator[Budget]:
    """Yield the budget for reading a file; errors of the parser become an InputError that names file and ``kind``."""
    with prefixed(f"cannot read {file}"):
        check_regular_file(file)
        try:
            with open(file, "rb") as stream:  # a missing permission is reported as such, not as damage
                head = stream.read(8)
            yield Budget.of_file(file)
        except InputError:
            raise
        except PermissionError as error:
            raise InputError(str(error.strerror)) from None
        except MemoryError:
            raise InputError("it is damaged, or needs more memory than is available") from None
        except Exception:  # parsers raise all kinds of errors on damaged files
            # The first bytes may indicate another format than the suffix.
            found = (each for start, each in _FIRST_BYTES.items() if head.startswith(start) and file.suffix not in each)
            hint = "".join(f"; it looks like {each}" for each in found) if head else ": it is empty"
            raise InputError(f"it is damaged, truncated or not {kind}{hint}") from None
