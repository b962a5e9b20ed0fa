"""An index folder: who may write, and how a change gets to the disk.

A change writes new files beside the old ones, then replaces the manifest, which is the moment of the change,
then deletes what the manifest no longer names. So a crash at any point leaves the old state or the new one;
what it leaves besides, the next writer sweeps away. Readers take no lock: files never change, and one that
is gone is a reason to read the manifest again.

A lock keeps other writers out, but a lock's file can be deleted, some network disks have locks that do nothing, and
a backup can be restored under an open writer. So before a commit the writer compares: the folder and the lock must be
those that it opened, and the manifest the one that it last read or wrote.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from dlfh._persistence.files import create_folder, identity_of, read_regular, remove_leftovers, try_lock
from dlfh.errors import StorageError
from dlfh.index.manifest import (
    FILE_NAME,
    MANIFEST,
    Manifest,
    RemovedRecord,
    SegmentRecord,
    check_manifest,
    is_current,
    manifest_digest,
    read_manifest,
    write_manifest,
)
from dlfh.index.segment import Segment
from dlfh.index.segment_file import check_deeply, check_sizes, read_removed, read_segment, write_removed, write_segment
from dlfh.index.snapshot import Part
from dlfh.index.strings import Strings

__all__ = ["Store"]

Result = TypeVar("Result")

_LOCK = ".lock"
#: Is there while a writer commits: of several, one alone can make it, whatever locks do. It names the writer's machine.
_CLAIM = ".committing"
#: After so many seconds a claim is of no living writer, wherever it was made.
_LONGEST_CLAIM = 60.0
_MOST_CLAIM_BYTES = 1 << 10
#: How often a reader starts again because a writer was faster.
_ATTEMPTS = 100


class Store:
    """The parts of an index as a folder holds them.

    Attributes
    ----------
    folder : Path
    writable : bool
    parts : tuple of Part
        The state that was read or written last.
    """

    def __init__(self, folder: Path, manifest: Manifest, lock: IO[str] | None, *, verify: bool) -> None:
        self.folder = folder
        self.parts: tuple[Part, ...] = ()
        self._manifest = manifest
        self._content: bytes | None = None  # of the manifest, if this writer wrote it
        self._lock = lock
        self._verify = verify
        self._process = os.getpid()
        self._place = self._identity_of_place()

    @property
    def identity(self) -> str:
        return self._manifest.identity

    @property
    def state(self) -> str:
        """What tells this state from all others: names of files are drawn, so that no two are alike."""
        return f"{self.identity}-{manifest_digest(self._manifest)}"

    @property
    def n_bits(self) -> int:
        return self._manifest.n_bits

    @property
    def modalities(self) -> tuple[str, ...]:
        return self._manifest.modalities

    @property
    def writable(self) -> bool:
        return self._lock is not None

    @property
    def is_mine(self) -> bool:
        """Whether this process is the writer, and not one that was forked from it."""
        return self.writable and self._process == os.getpid()

    @classmethod
    def create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...]) -> Store:
        _check_place(folder)
        try:
            with create_folder(folder):
                return cls._create(folder, n_bits, modalities)
        except OSError as error:
            raise StorageError(f"cannot make an index in {folder}: {error.strerror or error}") from None

    @classmethod
    def _create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...]) -> Store:
        lock = _take_lock(folder)
        try:
            _check_place(folder)
            manifest = Manifest(secrets.token_hex(16), n_bits, modalities, 0, ())
            write_manifest(folder, manifest)
            return cls(folder, manifest, lock, verify=True)
        except BaseException:
            if not os.path.lexists(folder / MANIFEST):
                with suppress(OSError):
                    os.unlink(folder / _LOCK)
            lock.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, writable: bool, verify: bool) -> Store:
        manifest = read_manifest(folder)
        if not writable:
            store = cls(folder, manifest, None, verify=verify)
            store._load()
            return store
        try:
            lock = _take_lock(folder)
        except OSError as error:
            raise StorageError(f"cannot write in the index {folder}: {error.strerror or error}") from None
        try:
            store = cls(folder, manifest, lock, verify=verify)
            store._load()
            with suppress(OSError):
                if _is_left_over(folder):
                    (folder / _CLAIM).unlink()
            with suppress(StorageError, OSError):
                store._sweep()
        except BaseException:
            lock.close()
            raise
        return store

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.parts = ()

    def check_writable(self) -> None:
        """Raise unless this process may change the index."""
        if self._lock is None:
            raise StorageError(f"the index {self.folder} is open for reading: open it with writable=True to change it")
        if self._process != os.getpid():
            raise StorageError(f"the index {self.folder} was opened for writing by another process, before a fork")
        self._check_sizes(self._manifest)

    def refresh(self) -> bool:
        """Read the folder again if its manifest has changed; return whether it has."""
        if read_manifest(self.folder) == self._manifest:
            return False
        self._load()
        return True

    def commit(self, parts: tuple[Part, ...]) -> None:
        """Make ``parts`` the state of the folder, in one step."""
        if parts == self.parts:
            return
        written: list[str] = []
        manifest = None
        try:
            stored = tuple(self._stored(part, written) for part in parts)
            segments = tuple(_records(part) for part in stored)
            generation = self._manifest.generation + 1
            manifest = Manifest(self.identity, self.n_bits, self.modalities, generation, segments)
            with self._claimed():
                self._check_mine(manifest)
                content = write_manifest(self.folder, manifest)
                self.parts, self._manifest, self._content = stored, manifest, content
                self._remove_leftovers()
        except BaseException as error:
            with suppress(StorageError, OSError):
                self._recover(manifest, written)
            if isinstance(error, FileNotFoundError):
                raise self._lost(f"{Path(error.filename or self.folder).name} is gone") from None
            if isinstance(error, OSError):
                message = f"cannot write in the index {self.folder}: {error.strerror or error}"
                raise StorageError(message) from error
            raise

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Be the only writer that compares and commits."""
        claim = self.folder / _CLAIM
        try:
            descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise self._lost("another writer is at work in it") from None
        try:
            with suppress(OSError):  # on a full disk there is room for names, which is what deleting needs
                os.write(descriptor, _machine())
            os.close(descriptor)
            yield
        finally:
            with suppress(OSError):
                claim.unlink(missing_ok=True)

    def _check_mine(self, manifest: Manifest) -> None:
        """Raise unless the folder is as this writer left it, and holds all that a new manifest names."""
        if self._identity_of_place() != self._place:
            raise self._lost("its folder or its lock file was replaced or deleted")
        if not is_current(self.folder, self._manifest, self._content):
            raise self._lost("another writer changed it, or a backup was restored")
        for record, removed in manifest.segments:
            check_sizes(self.folder, record, removed, self.n_bits)

    def _lost(self, why: str) -> StorageError:
        return StorageError(
            f"the index {self.folder} is not as this writer left it: {why}; nothing was written, so open it again"
        )

    def _identity_of_place(self) -> tuple[tuple[int, int] | None, ...]:
        return identity_of(self.folder), None if self._lock is None else identity_of(self.folder / _LOCK)

    def _recover(self, wanted: Manifest | None, written: list[str]) -> None:
        """After a commit that failed, take the state that the folder is in, and delete what no state needs."""
        now = read_manifest(self.folder)
        for name in {*written} - now.files():
            (self.folder / name).unlink(missing_ok=True)
        if self._identity_of_place() == self._place and now in (self._manifest, wanted):
            self._load()  # the change was made, or it was not: the folder says
            self._sweep()

    def verify(self) -> None:
        """Check every byte of the state that the folder holds now."""
        self._with_manifest(self._check_deeply)

    def _check_deeply(self, manifest: Manifest) -> None:
        check_manifest(self.folder, manifest)
        ids = []
        for record, removed in manifest.segments:
            segment = check_deeply(self.folder, record, manifest.n_bits)
            gone = None if removed is None else read_removed(self.folder, removed, record.rows)
            ids.append(segment.ids if gone is None else segment.ids.take(np.flatnonzero(~gone)))
        twice = Strings.concatenate(ids).find_duplicate() if ids else None
        if twice is not None:
            raise StorageError(f"index {self.folder} is damaged: it has the item {twice.decode()!r} twice")

    def _check_sizes(self, manifest: Manifest) -> None:
        """Check that no file was cut short; one that is gone may be mapped and go on as it was."""
        for record, removed in manifest.segments:
            with suppress(OSError):
                check_sizes(self.folder, record, removed, self.n_bits)

    def _stored(self, part: Part, written: list[str]) -> Part:
        """Return the part with files that hold it, its segment as it is there; note the names of new files."""
        segment, record = part.segment, part.segment_record
        if record is None:
            record = write_segment(self.folder, segment, self.n_bits)
            written.append(record.file)
            segment = read_segment(self.folder, record, self.n_bits, verify=False)
        removed = part.removed_record
        if removed is None and part.removed is not None:
            removed = write_removed(self.folder, part.removed)
            written.append(removed.file)
        return Part(segment, part.removed, record, removed)

    def _load(self) -> None:
        self.parts, self._manifest = self._with_manifest(self._read_parts)
        self._content = None

    def _with_manifest(self, use: Callable[[Manifest], Result]) -> Result:
        """Return what ``use`` makes of the manifest and the files it names."""
        for attempt in range(_ATTEMPTS):
            manifest = read_manifest(self.folder)
            if manifest.identity != self.identity:
                raise StorageError(f"the index {self.folder} was replaced by another one: open it again")
            try:
                return use(manifest)
            except FileNotFoundError as error:
                # Another process may have changed the index between the two reads; its state is whole.
                if attempt == _ATTEMPTS - 1 or read_manifest(self.folder) == manifest:
                    name = Path(error.filename).name
                    raise StorageError(f"index {self.folder} is incomplete: {name} is missing") from None
            except OSError as error:
                raise StorageError(f"cannot read the index {self.folder}: {error.strerror or error}") from None
        raise AssertionError("the last attempt returns or raises")

    def _read_parts(self, manifest: Manifest) -> tuple[tuple[Part, ...], Manifest]:
        known = {part.segment_record: part.segment for part in self.parts}
        self._check_sizes(manifest)
        return tuple(self._read(record, removed, known) for record, removed in manifest.segments), manifest

    def _read(
        self, record: SegmentRecord, removed: RemovedRecord | None, known: dict[SegmentRecord | None, Segment]
    ) -> Part:
        segment = known.get(record) or read_segment(self.folder, record, self.n_bits, verify=self._verify)
        gone = None if removed is None else read_removed(self.folder, removed, record.rows)
        return Part(segment, gone, record, removed)

    def _sweep(self) -> None:
        """Delete what the manifest does not name, unless another writer has changed it or is about to."""
        with self._claimed():
            if read_manifest(self.folder) == self._manifest:
                self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Delete files that the manifest does not name: of the state before, or of a crash."""
        remove_leftovers(self.folder, FILE_NAME, keep=self._manifest.files())


def _records(part: Part) -> tuple[SegmentRecord, RemovedRecord | None]:
    assert part.segment_record is not None
    return part.segment_record, part.removed_record


def _machine() -> bytes:
    return platform.node().encode()[:_MOST_CLAIM_BYTES]


def _is_left_over(folder: Path) -> bool:
    """Return whether the claim in a folder that this process has locked is of a writer that was killed.

    It is if it was made on this machine, whose locks keep living writers out: the lock is ours, and taking it again
    fails, so locks are what they should be. (A claim without a name is of a writer that was killed before it wrote
    it.) Where locks do nothing, or a claim is of another machine, which may not see our locks, its age must tell.
    """
    content = read_regular(folder / _CLAIM, _MOST_CLAIM_BYTES)
    again = try_lock(folder / _LOCK)
    if again is None and content in (_machine(), b""):
        return True
    if again is not None:
        again.close()
    os.utime(folder / _LOCK)  # by the clock of the disk, which is not always that of this machine
    return os.stat(folder / _LOCK).st_mtime - os.stat(folder / _CLAIM).st_mtime > _LONGEST_CLAIM


def _take_lock(folder: Path) -> IO[str]:
    lock = try_lock(folder / _LOCK)
    if lock is None:
        raise StorageError(f"the index {folder} is being written by another process or object: one writer at a time")
    return lock


def _check_place(folder: Path) -> None:
    """Refuse to make an index anywhere but in a new or empty folder, or in what a crash left of one."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"cannot make an index in {folder}: it is a file, not a folder")
    if not folder.is_dir():
        return
    if (folder / MANIFEST).exists():
        raise StorageError(f"cannot make an index in {folder}: there is one, or something else with a {MANIFEST}")
    if any(not name.startswith(".") for name in os.listdir(folder)):
        raise StorageError(f"cannot make an index in {folder}: the folder is not empty")
