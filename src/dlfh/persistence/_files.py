"""Files that are whole or not there: replaced in one step, locked while they change."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: one writer at a time is the user's to see to
    fcntl = None  # type: ignore[assignment]

__all__ = ["TEMPORARY_PREFIX", "current_umask", "exclusive", "replace_file", "try_lock"]

#: What a crash may leave of a file that was being written starts with this.
TEMPORARY_PREFIX = ".saving-"


def replace_file(target: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a temporary sibling, flush it to the disk, and rename it to ``target``.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> replace_file(folder / "greeting", [b"hello, ", b"world"])
    >>> (folder / "greeting").read_text()
    'hello, world'
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=target.parent)
    except OSError as error:
        error.filename = str(target)  # what the user asked for, not the temporary sibling
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.chmod(temporary, 0o666 & ~current_umask())
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait for the lock of the file ``path``, and hold it while the block runs.

    Examples
    --------
    >>> with exclusive(Path(tempfile.mkdtemp()) / ".lock"):
    ...     pass
    """
    with open(path, "a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


def try_lock(path: Path) -> IO[str] | None:
    """Take the lock of the file ``path`` until the file returned is closed; None if another holds it.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / ".lock"
    >>> with try_lock(path) as lock:
    ...     print(try_lock(path))
    None
    """
    file = open(path, "a")  # noqa: SIM115  (open for as long as the lock is held)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except BaseException:
        file.close()
        raise
    return file


def current_umask() -> int:
    """Return the mask of permissions that new files do not get."""
    # There is no way to read it but to set it; it is put back at once.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
