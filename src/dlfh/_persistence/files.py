"""Files that are whole or not there: replaced in one step, locked while they change."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: one writer at a time is the user's to see to
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "exclusive",
    "identity_of",
    "made_folder",
    "open_regular",
    "read_regular",
    "remove_leftovers",
    "replace_file",
    "sync_folder",
    "try_lock",
]

#: What a crash may leave of a file that was being written; no other name is ours to delete.
_TEMPORARY = re.compile(r"\.saving-[0-9a-f]{16}\.dlfh")


def replace_file(target: Path, parts: Iterable[bytes | memoryview], *, overwrite: bool = True) -> None:
    """Write a temporary sibling, flush it to the disk, and rename it to ``target``.

    Without ``overwrite``, FileExistsError is raised if there is a file of that name when this one is whole.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> replace_file(folder / "greeting", [b"hello, ", b"world"])
    >>> (folder / "greeting").read_text()
    'hello, world'
    """
    temporary = target.parent / f".saving-{secrets.token_hex(8)}.dlfh"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    made = False
    try:
        descriptor = os.open(temporary, flags, 0o666)  # less the umask, which the system sees to
        made = True
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, target)
        else:
            _rename_to_free_name(temporary, target)
    except BaseException as error:
        if made:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None  # what was asked for, not the temporary sibling
        raise
    sync_folder(target.parent)


def _rename_to_free_name(temporary: Path, target: Path) -> None:
    """Rename a file, unless the name is taken: a link never takes a place that is not free, at whatever moment."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(temporary, target)
        return
    temporary.unlink()


def open_regular(path: Path) -> IO[bytes]:
    """Open a file to read; a pipe or a device, which may never end, is refused.

    Examples
    --------
    >>> open_regular(Path("/dev/zero"))
    Traceback (most recent call last):
    OSError: [Errno 22] it is not a regular file: '/dev/zero'
    """
    # Opening a pipe waits for a writer unless it is told not to.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return what a file holds; what is no regular file, or has more than ``most`` bytes, is refused."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} make sense", str(path))
        return file.read()


def remove_leftovers(folder: Path, names: re.Pattern[str] = _TEMPORARY, keep: Iterable[str] = ()) -> None:
    """Delete temporary files that a crash left in a folder, and files of further names that are ours.

    What cannot be deleted stays: nobody asked for this, and a later sweep will find it.
    """
    kept = set(keep)
    with suppress(OSError):
        for name in os.listdir(folder):
            if name not in kept and (_TEMPORARY.fullmatch(name) or names.fullmatch(name)):
                with suppress(OSError):  # Windows: a reader has it open
                    os.unlink(folder / name)


@contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Make a folder, and those above it, so that a loss of power does not take them back.

    If the block fails, those that are new and still empty are removed again.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "a" / "b"
    >>> with suppress(RuntimeError), made_folder(folder):
    ...     raise RuntimeError
    >>> folder.parent.exists()
    False
    >>> with made_folder(folder):
    ...     pass
    >>> folder.is_dir()
    True
    """
    made: list[Path] = []
    try:
        _make_folder(path.absolute(), made)
        yield
    except BaseException:
        with suppress(OSError):  # what somebody has put something into stays
            for folder in reversed(made):
                folder.rmdir()
        raise


def _make_folder(path: Path, made: list[Path]) -> None:
    if path.is_dir():
        return
    if not path.parent.exists():
        _make_folder(path.parent, made)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    made.append(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk: those of files that were made there or renamed."""
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait for the lock of the file ``path``, and hold it while the block runs.

    Examples
    --------
    >>> import tempfile
    >>> with exclusive(Path(tempfile.mkdtemp()) / ".lock"):
    ...     pass
    """
    with _locked(path, wait=True):
        yield  # closing the file releases the lock


def try_lock(path: Path) -> IO[str] | None:
    """Take the lock of the file ``path`` until the file returned is closed; None if another holds it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / ".lock"
    >>> with try_lock(path) as lock:
    ...     print(try_lock(path))
    None
    """
    try:
        return _locked(path, wait=False)
    except BlockingIOError:
        return None


def _locked(path: Path, *, wait: bool) -> IO[str]:
    while True:
        file = open(path, "a")  # noqa: SIM115  (open for as long as the lock is held)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if identity_of(file) == identity_of(path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # its name was given to another file while we waited: a lock that nobody else will see


def identity_of(file: IO[str] | Path) -> tuple[int, int] | None:
    """Return what tells a file or folder from every other of the machine, whatever it is called; None if it is gone."""
    try:
        about = os.stat(file) if isinstance(file, Path) else os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino
