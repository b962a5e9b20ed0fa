"""An index folder: locking, and how changes reach the disk.

A change writes new files, then replaces the manifest, which commits it, and then deletes the files that the manifest no
longer lists. A crash at any point leaves the old state or the new one; the next writer deletes leftover files. Readers
take no lock: files never change, and a reader that finds one missing reads the manifest again.

A lock excludes other writers. But lock files can be deleted, locks have no effect on some network disks, and a backup
can be restored under an open writer. So before it commits, a writer checks that the folder and the lock file are those
it opened, and that the manifest is the one it last read or wrote.
"""

from __future__ import annotations

import os
import platform
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from dlfh._persistence.files import Lock, create_folder, identity_of, read_regular, remove_leftovers, try_lock
from dlfh.errors import StorageError
from dlfh.index import files
from dlfh.index.files import MANIFEST, Manifest
from dlfh.index.segment import Part
from dlfh.index.words import Strings

Result = TypeVar("Result")

_LOCK = ".lock"
#: Exists while a writer commits, and names its machine. Only one of several writers can create it, even without locks.
_CLAIM = ".committing"
#: After this many seconds a claim is stale, whichever machine created it.
_MAX_CLAIM_SECONDS = 60.0
_MAX_CLAIM_BYTES = 1 << 10
#: Maximum number of attempts to read a folder that writers keep changing.
_ATTEMPTS = 100


class LockedError(StorageError):
    """Another process is writing to the index."""


class Store:
    """An index in a folder: its manifest and, after it was loaded, the segments that the manifest lists."""

    def __init__(self, folder: Path, manifest: Manifest, lock: Lock | None, *, verify: bool) -> None:
        self.folder, self.manifest, self._lock, self._verify = folder, manifest, lock, verify
        self.parts: tuple[Part, ...] = ()
        self._process = os.getpid()
        self._inodes = self._current_inodes()

    @property
    def is_writer(self) -> bool:
        return self._lock is not None

    @property
    def writable(self) -> bool:
        """Whether this process, as opposed to one that it was forked from, is the writer."""
        return self.is_writer and self._process == os.getpid()

    @classmethod
    def create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...], texts: tuple[str, ...] = ()) -> Store:
        """Create an empty index in a new or empty folder, and open it for writing."""
        _check_free(folder)
        try:
            with create_folder(folder):
                return cls._create(folder, n_bits, modalities, texts)
        except OSError as error:
            raise StorageError(f"cannot create an index in {folder}: {error.strerror or error}") from None

    @classmethod
    def _create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...], texts: tuple[str, ...]) -> Store:
        lock = _take_lock(folder)
        try:
            _check_free(folder)
            manifest = Manifest(secrets.token_hex(16), n_bits, modalities, texts=texts)
            files.write_manifest(folder, manifest)
            return cls(folder, manifest, lock, verify=True)
        except BaseException:
            if not os.path.lexists(folder / MANIFEST):
                with suppress(OSError):
                    os.unlink(folder / _LOCK)
            lock.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, writable: bool, verify: bool) -> Store:
        manifest = files.read_manifest(folder)
        try:
            lock = _take_lock(folder) if writable else None
        except OSError as error:
            raise StorageError(f"cannot write to the index {folder}: {error.strerror or error}") from None
        try:
            store = cls(folder, manifest, lock, verify=verify)
            store._load()
            if writable:
                with suppress(OSError):
                    if _is_stale_claim(folder):
                        (folder / _CLAIM).unlink()
                with suppress(StorageError, OSError):
                    store._sweep()
        except BaseException:
            if lock is not None:
                lock.close()
            raise
        return store

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.parts = ()

    def check_writable(self) -> None:
        if not self.is_writer:
            raise StorageError(f"the index {self.folder} is open for reading: open it with writable=True to change it")
        if not self.writable:
            raise StorageError(f"the index {self.folder} was opened for writing by the parent process, before a fork")
        self._check_sizes(self.manifest)

    def newer(self) -> Store:
        """Return a reader of the folder's current state that shares the segments that are still listed."""
        store = Store(self.folder, self.manifest, None, verify=self._verify)
        store.parts = self.parts
        store._load()
        return store

    def refresh(self) -> bool:
        if files.is_current(self.folder, self.manifest):
            return False
        self._load()
        return True

    # Committing

    def commit(self, parts: tuple[Part, ...]) -> None:
        """Replace the content of the folder with ``parts`` atomically."""
        if parts == self.parts:
            return
        written: list[str] = []
        manifest = None
        try:
            stored = tuple(self._stored(part, written) for part in parts)
            records = tuple(part.record for part in stored if part.record is not None)
            manifest = replace(self.manifest, generation=self.manifest.generation + 1, segments=records)
            with self._claimed():
                self._check_unchanged(manifest)
                files.write_manifest(self.folder, manifest)
                self.parts, self.manifest = stored, manifest
                self._remove_leftovers()
        except BaseException as error:
            with suppress(StorageError, OSError):
                self._recover(manifest, written)
            if isinstance(error, FileNotFoundError):
                raise self._changed(f"{Path(error.filename or self.folder).name} is missing") from None
            if isinstance(error, OSError):
                message = f"cannot write to the index {self.folder}: {error.strerror or error}"
                raise StorageError(message) from error
            raise

    def _stored(self, part: Part, written: list[str]) -> Part:
        """Write the files of a part that do not exist yet, and append their names to ``written``."""
        segment, record = part.segment, part.record
        if record is None:
            record = files.write_segment(self.folder, segment, self.manifest.n_bits)
            written.append(record.file)
            segment = files.read_segment(self.folder, record, self.manifest.n_bits, verify=False)
        if part.removed is not None and record.removed is None:
            removed = files.write_removed(self.folder, part.removed)
            written.append(removed.file)
            record = replace(record, removed=removed)
        return Part(segment, part.removed, record)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Claim the folder during a commit; raise if another writer has claimed it."""
        claim = self.folder / _CLAIM
        try:
            descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise self._changed("another writer is committing") from None
        try:
            with suppress(OSError):  # a change that only deletes must succeed on a full disk
                os.write(descriptor, _machine())
            os.close(descriptor)
            yield
        finally:
            with suppress(OSError):
                claim.unlink(missing_ok=True)

    def _check_unchanged(self, manifest: Manifest) -> None:
        """Raise unless the folder is as this writer left it and has all files of a new manifest."""
        if self._current_inodes() != self._inodes:
            raise self._changed("its folder or lock file was replaced or deleted")
        if not files.is_current(self.folder, self.manifest):
            raise self._changed("another writer changed it, or a backup was restored")
        for record in manifest.segments:
            files.check_sizes(self.folder, record, manifest.n_bits)

    def _changed(self, reason: str) -> StorageError:
        message = f"the index {self.folder} was changed while it was open for writing: {reason}"
        return StorageError(f"{message}; nothing was written: open the index again")

    def _current_inodes(self) -> tuple[tuple[int, int] | None, ...]:
        return identity_of(self.folder), None if self._lock is None else identity_of(self.folder / _LOCK)

    def _recover(self, intended: Manifest | None, written: list[str]) -> None:
        """After a failed commit, load the state of the folder and delete new files that it does not need."""
        current = files.read_manifest(self.folder)
        for name in {*written} - current.files():
            (self.folder / name).unlink(missing_ok=True)
        if self._current_inodes() == self._inodes and current in (self.manifest, intended):
            self._load()
            self._sweep()

    def _sweep(self) -> None:
        """Delete leftover files, unless another writer changed the folder or is about to."""
        with self._claimed():
            if files.is_current(self.folder, self.manifest):
                self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        remove_leftovers(self.folder, files.FILE_NAME, keep=self.manifest.files())

    # Reading

    def verify(self) -> None:
        self._with_manifest(self._check_deeply)

    def _check_deeply(self, manifest: Manifest) -> None:
        ids = []
        for record in manifest.segments:
            segment = files.check_deeply(self.folder, record, manifest.n_bits)
            removed = files.read_removed(self.folder, record)
            ids.append(segment.ids if removed is None else segment.ids.take(np.flatnonzero(~removed)))
        duplicate = Strings.concatenate(ids).find_duplicate() if ids else None
        if duplicate is not None:
            raise StorageError(f"index {self.folder} is damaged: it contains item {duplicate.decode()!r} twice")

    def _check_sizes(self, manifest: Manifest) -> None:
        """Raise if a file was truncated. A missing file may be mapped and still readable."""
        for record in manifest.segments:
            with suppress(OSError):
                files.check_sizes(self.folder, record, manifest.n_bits)

    def _load(self) -> None:
        self.parts, self.manifest = self._with_manifest(self._read_parts)

    def _read_parts(self, manifest: Manifest) -> tuple[tuple[Part, ...], Manifest]:
        loaded = {replace(part.record, removed=None): part.segment for part in self.parts if part.record is not None}
        self._check_sizes(manifest)
        parts = []
        for record in manifest.segments:
            segment = loaded.get(replace(record, removed=None))
            if segment is None:
                segment = files.read_segment(self.folder, record, manifest.n_bits, verify=self._verify)
            parts.append(Part(segment, files.read_removed(self.folder, record), record))
        return tuple(parts), manifest

    def _with_manifest(self, use: Callable[[Manifest], Result]) -> Result:
        for attempt in range(_ATTEMPTS):
            manifest = files.read_manifest(self.folder)
            if manifest.identity != self.manifest.identity:
                raise StorageError(f"the index {self.folder} was replaced by another one: open it again")
            try:
                return use(manifest)
            except FileNotFoundError as error:
                # Another process may have changed the index since the manifest was read.
                if attempt == _ATTEMPTS - 1 or files.is_current(self.folder, manifest):
                    name = Path(error.filename).name
                    raise StorageError(f"index {self.folder} is incomplete: {name} is missing") from None
            except OSError as error:
                raise StorageError(f"cannot read the index {self.folder}: {error.strerror or error}") from None
        raise AssertionError("the last attempt returns or raises")


def _machine() -> bytes:
    return platform.node().encode()[:_MAX_CLAIM_BYTES]


def _is_stale_claim(folder: Path) -> bool:
    """Return whether the claim in a folder that this process has locked belongs to a writer that was killed.

    A claim of this machine, or one without a name (the writer was killed before it wrote it), is stale if locks work:
    no other writer can hold the lock. Locks work if the lock that we hold cannot be taken again. Otherwise, and for
    claims of other machines, which may not see our locks, the age decides.
    """
    if not stat.S_ISREG(os.lstat(folder / _CLAIM).st_mode):
        return True  # a pipe or a link, which no writer creates
    content = read_regular(folder / _CLAIM, _MAX_CLAIM_BYTES)
    again = try_lock(folder / _LOCK)
    if again is None and content in (_machine(), b""):
        return True
    if again is not None:
        again.close()
    os.utime(folder / _LOCK)  # by the clock of the disk, which may differ from this machine's
    return os.stat(folder / _LOCK).st_mtime - os.stat(folder / _CLAIM).st_mtime > _MAX_CLAIM_SECONDS


def _take_lock(folder: Path) -> Lock:
    lock = try_lock(folder / _LOCK)
    if lock is None:
        raise LockedError(f"the index {folder} already has a writer: only one is allowed at a time")
    return lock


def _check_free(folder: Path) -> None:
    """Raise unless the folder is new, empty, or left by a crash during `Store.create`."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"cannot create an index in {folder}: it is a file, not a folder")
    if not folder.is_dir():
        return
    if (folder / MANIFEST).exists():
        raise StorageError(f"cannot create an index in {folder}: it already has a {MANIFEST}")
    if any(not name.startswith(".") for name in os.listdir(folder)):
        raise StorageError(f"cannot create an index in {folder}: the folder is not empty")
