"""Atomic replacement of files, durable folders, advisory locks and format versions."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from dlfh._limits import check_limit
from dlfh._validation import shown

try:
    import fcntl
except ImportError:  # Windows: users must ensure that only one process writes
    fcntl = None  # type: ignore[assignment]

#: Names of temporary files, which a crash may leave behind. No other file is deleted.
_TEMPORARY = re.compile(r"\.saving-[0-9a-f]{16}\.dlfh")


def replace_file(target: Path, parts: Iterable[bytes | memoryview], *, overwrite: bool = True) -> None:
    """Flush a temporary file to disk and rename it; without ``overwrite``, raise FileExistsError if a target exists."""
    temporary = target.parent / f".saving-{secrets.token_hex(8)}.dlfh"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:  # the umask applies
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, target)
        else:
            _rename_to_free_name(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None  # callers do not know the temporary file
        raise
    sync_folder(target.parent)


def _rename_to_free_name(temporary: Path, target: Path) -> None:
    """Rename a file unless ``target`` exists; a hard link makes test and rename one atomic step."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(temporary, target)
        return
    temporary.unlink()


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading; refuse pipes and devices, which may never end."""
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, max_bytes: int | None = None) -> bytes:
    """Return a regular file's content; raise OSError above ``max_bytes``, by default InputError (DLFH_MAX_BYTES)."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if max_bytes is None:
            check_limit("DLFH_MAX_BYTES", size, f"{path} has {size:,} bytes")
        elif size > max_bytes:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the limit of {max_bytes:,}", str(path))
        return file.read(size)


def remove_leftovers(folder: Path, names: re.Pattern[str] = _TEMPORARY, keep: Iterable[str] = ()) -> None:
    """Delete temporary files, and files whose names match ``names``, that a crash left in a folder, where possible."""
    kept = set(keep)
    with suppress(OSError):
        for name in os.listdir(folder):
            if name not in kept and (_TEMPORARY.fullmatch(name) or names.fullmatch(name)):
                with suppress(OSError):  # Windows: a reader has it open
                    os.unlink(folder / name)


@contextmanager
def create_folder(path: Path) -> Iterator[None]:
    """Create a folder and its parents durably; if the block fails, remove the new folders that are still empty."""
    created: list[Path] = []
    target = path.absolute()
    missing = [] if target.is_dir() else [target, *takewhile(lambda folder: not folder.exists(), target.parents)]
    try:
        for folder in reversed(missing):
            try:
                folder.mkdir()
            except FileExistsError:
                if not folder.is_dir():
                    raise
                continue
            created.append(folder)
            sync_folder(folder.parent)
        yield
    except BaseException:
        with suppress(OSError):  # no longer empty
            for folder in reversed(created):
                folder.rmdir()
        raise


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk, so that new and renamed files survive a power failure."""
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class Lock(AbstractContextManager["Lock"]):
    """A locked file. Closing it, or losing the last reference to it, releases the lock."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def close(self) -> None:
        with suppress(OSError):  # nothing was written, and the lock is released even if closing fails
            self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def exclusive(path: Path) -> Lock:
    """Wait for the lock file ``path``, and lock it."""
    return _locked(path, wait=True)


def try_lock(path: Path) -> Lock | None:
    """Lock the file ``path``; return None if another process holds the lock."""
    try:
        return _locked(path, wait=False)
    except BlockingIOError:
        return None


def _locked(path: Path, *, wait: bool) -> Lock:
    while True:
        file = _open_lock(path)
        lock = Lock(file)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if identity_of(file) == identity_of(path):
                return lock
        except BaseException:
            lock.close()
            raise
        lock.close()  # the file was replaced while we waited, so other processes lock another file


def _open_lock(path: Path) -> IO[bytes]:
    """Open or create a lock file; refuse pipes, where opening would wait, and links, which could lead elsewhere."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_regular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, f"{path.name} is not a regular file", str(path))


def identity_of(file: IO[bytes] | Path) -> tuple[int, int] | None:
    """Return device and inode of a file or folder; None if it does not exist."""
    try:
        status = os.stat(file) if isinstance(file, Path) else os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def version_problem(version: object, newest: int) -> str | None:
    """Return why a format version cannot be read, as a predicate ("is damaged: ..."); None if it is 1 to ``newest``."""
    if type(version) is not int or version < 1:  # True is an int
        return f"is damaged: its format version is {shown(version)}"
    if version > newest:
        return f"has format version {shown(version)}, but this version of dlfh reads up to {newest}: upgrade dlfh"
    return None
