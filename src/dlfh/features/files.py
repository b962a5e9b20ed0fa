"""Reading image files, and hashing the bytes that are decoded.

A file may be replaced at any time. A hash therefore belongs to the bytes that a vector was computed from, not to a
second reading of the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from dlfh._limits import check_limit, check_regular_file
from dlfh.errors import InputError


def read_file(path: Path, called: str) -> bytes:
    """Return the content of a file, within the limit on its size; ``called`` names it in error messages."""
    size = check_regular_file(path, called)
    check_limit("DLFH_MAX_BYTES", size, f"{called} has {size:,} bytes")
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{called} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def new_hash(content: bytes = b"") -> hashlib.blake2b:
    """Return the hash object that identifies contents."""
    return hashlib.blake2b(content, digest_size=16)
