"""An index folder: who may write, and how a change gets to the disk.

A change writes new files beside the old ones, then replaces the manifest, which is the moment of the change,
then deletes what the manifest no longer names. So a crash at any point leaves the old state or the new one;
what it leaves besides, the next writer sweeps away. Readers take no lock: files never change, and one that
is gone is a reason to read the manifest again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from dlfh.errors import StorageError
from dlfh.index._manifest import (
    FILE_NAME,
    MANIFEST,
    Manifest,
    RemovedRecord,
    SegmentRecord,
    read_manifest,
    write_manifest,
)
from dlfh.index._segment import Segment
from dlfh.index._segment_file import check_deeply, read_removed, read_segment, write_removed, write_segment
from dlfh.index._snapshot import Part
from dlfh.persistence._files import make_folder, remove_leftovers, try_lock

__all__ = ["Store"]

Result = TypeVar("Result")

_LOCK = ".lock"
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
        self._lock = lock
        self._verify = verify
        self._process = os.getpid()

    @property
    def n_bits(self) -> int:
        return self._manifest.n_bits

    @property
    def modalities(self) -> tuple[str, ...]:
        return self._manifest.modalities

    @property
    def writable(self) -> bool:
        return self._lock is not None

    @classmethod
    def create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...]) -> Store:
        _check_place(folder)
        try:
            make_folder(folder)
            lock = _take_lock(folder)
            try:
                _check_place(folder)
                manifest = Manifest(n_bits, modalities, 0, ())
                write_manifest(folder, manifest)
            except BaseException:
                lock.close()
                raise
        except OSError as error:
            raise StorageError(f"cannot make an index in {folder}: {error.strerror or error}") from None
        return cls(folder, manifest, lock, verify=True)

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
        try:
            stored = tuple(map(self._stored, parts))
            segments = tuple(_records(part) for part in stored)
            manifest = Manifest(self.n_bits, self.modalities, self._manifest.generation + 1, segments)
            write_manifest(self.folder, manifest)
        except BaseException as error:
            with suppress(StorageError, OSError):  # the folder says which state it is
                self._load()
                self._sweep()
            if isinstance(error, OSError):
                message = f"cannot write in the index {self.folder}: {error.strerror or error}"
                raise StorageError(message) from error
            raise
        self.parts, self._manifest = stored, manifest
        self._sweep()

    def verify(self) -> None:
        """Check every byte of the state that the folder holds now."""
        self._with_manifest(self._check_deeply)

    def _check_deeply(self, manifest: Manifest) -> None:
        for record, removed in manifest.segments:
            check_deeply(self.folder, record, manifest.n_bits)
            if removed is not None:
                read_removed(self.folder, removed, record.rows)

    def _stored(self, part: Part) -> Part:
        """Return the part with files that hold it, its segment mapped from there."""
        segment, record = part.segment, part.segment_record
        if record is None:
            record = write_segment(self.folder, segment, self.n_bits)
            segment = read_segment(self.folder, record, self.n_bits, verify=False)
        removed = part.removed_record
        if removed is None and part.removed is not None:
            removed = write_removed(self.folder, part.removed)
        return Part(segment, part.removed, record, removed)

    def _load(self) -> None:
        self.parts, self._manifest = self._with_manifest(self._read_parts)

    def _with_manifest(self, use: Callable[[Manifest], Result]) -> Result:
        """Return what ``use`` makes of the manifest and the files it names."""
        for attempt in range(_ATTEMPTS):
            manifest = read_manifest(self.folder)
            if (manifest.n_bits, manifest.modalities) != (self.n_bits, self.modalities):
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
        return tuple(self._read(record, removed, known) for record, removed in manifest.segments), manifest

    def _read(
        self, record: SegmentRecord, removed: RemovedRecord | None, known: dict[SegmentRecord | None, Segment]
    ) -> Part:
        segment = known.get(record) or read_segment(self.folder, record, self.n_bits, verify=self._verify)
        gone = None if removed is None else read_removed(self.folder, removed, record.rows)
        return Part(segment, gone, record, removed)

    def _sweep(self) -> None:
        """Delete files that the manifest does not name: of the state before, or of a crash."""
        remove_leftovers(self.folder, FILE_NAME, keep=self._manifest.files())


def _records(part: Part) -> tuple[SegmentRecord, RemovedRecord | None]:
    assert part.segment_record is not None
    return part.segment_record, part.removed_record


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
