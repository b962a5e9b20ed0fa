"""Items in memory, or in a folder: a snapshot of segments that every change replaces.

New items become a new segment at the end, and removed rows are marked. Neighbouring segments are merged so that each
is larger than the next by a constant factor. So an index of n items has O(log n) segments, and an item is copied
O(log n) times on average, whatever the sequence of changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh.errors import StorageError
from dlfh.index.backend import Backend, check_known
from dlfh.index.segment import Segment, Strings
from dlfh.index.segment_file import check_checksums
from dlfh.index.snapshot import Part, Parts, Snapshot
from dlfh.index.store import Store

#: A part is merged with the next unless it is larger by this factor ...
_MIN_RATIO = 1.5
#: ... and then with those before that are not larger by this factor. The difference between the two factors bounds the
#: cost of copying: many items must be added or removed before a merged part is merged again.
_MERGED_RATIO = 2
#: A segment is rewritten when a smaller share of its rows is left.
_MIN_LIVE = 0.75


class LocalBackend(Backend):
    """Items in memory, or in the folder of a store."""

    address = None

    def __init__(self, n_bits: int, modalities: tuple[str, ...], store: Store | None = None) -> None:
        self.n_bits = n_bits
        self.modalities = modalities
        self._store = store
        self._writing = threading.RLock()
        self._snapshot: Snapshot | None = self._snapshot_of(() if store is None else store.parts)

    @property
    def folder(self) -> Path | None:
        return None if self._store is None else self._store.folder

    @property
    def identity(self) -> str | None:
        return None if self._store is None else self._store.manifest.identity

    @property
    def state(self) -> str | None:
        return self._state

    @property
    def writable(self) -> bool:
        return not self.closed and (self._store is None or self._store.writable)

    @property
    def closed(self) -> bool:
        return self._snapshot is None

    def close(self) -> None:
        with self._writing:
            if self._store is not None:
                self._store.close()
            self._snapshot = None

    drop = close

    def refresh(self) -> bool:
        with self._writing:
            self.reader()
            if self._store is None or self._store.is_writer or not self._store.refresh():
                return False
            self._snapshot = self._snapshot_of(self._store.parts)
            return True

    def verify(self) -> None:
        with self._writing:
            self.reader()
            if self._store is not None:
                self._store.verify()

    def write(self, segment: Segment, *, replace: bool) -> None:
        with self._writing:
            parts, found, known = self._find_rows(segment.ids)
            if not replace:
                check_known(segment.ids, known, expected=False)
            if known.any():
                parts = _without(parts, found)
            if len(segment):
                self._commit(_merged([*parts, Part(segment)]))

    def remove(self, ids: Strings) -> None:
        with self._writing:
            parts, found, known = self._find_rows(ids)
            check_known(ids, known)
            self._commit(_without(parts, found))

    def _find_rows(self, ids: Strings) -> tuple[Parts, list[Integers], Mask]:
        """Return the parts, if they may be changed, the rows of the given ids in each, and which ids exist."""
        snapshot = self._writable()
        found = snapshot.find_rows(ids)
        known = np.logical_or.reduce([np.zeros(len(ids), bool), *(rows >= 0 for rows in found)])
        return snapshot.parts, [rows[rows >= 0] for rows in found], known

    def compact(self) -> None:
        with self._writing:
            parts = self._writable().parts
            if len(parts) > 1 or any(part.removed is not None for part in parts):
                self._commit((_merge(parts),))

    def _snapshot_of(self, parts: Parts) -> Snapshot:
        self._state = None if self._store is None else self._store.manifest.state
        return Snapshot(parts, self.n_bits, self.modalities)

    def reader(self) -> Snapshot:
        if self._snapshot is None:
            raise StorageError("the index is closed")
        return self._snapshot

    def _writable(self) -> Snapshot:
        snapshot = self.reader()
        if self._store is not None:
            self._store.check_writable()
        return snapshot

    def _commit(self, parts: Parts) -> None:
        if self._store is None:
            self._snapshot = self._snapshot_of(parts)
            return
        try:
            self._store.commit(parts)
        finally:  # also after an error, the index shows the state of the folder
            self._snapshot = self._snapshot_of(self._store.parts)


def _without(parts: Parts, rows: list[Integers]) -> Parts:
    """Return the parts without the given rows of each."""
    left = [part.without(gone) if len(gone) else part for part, gone in zip(parts, rows, strict=True)]
    sparse = [len(part) < _MIN_LIVE * len(part.segment) for part in left]
    return _merged([_merge([part]) if few else part for part, few in zip(left, sparse, strict=True) if len(part)])


def _merged(parts: list[Part]) -> Parts:
    for last in range(len(parts) - 1, 0, -1):
        if last < len(parts) and len(parts[last - 1]) < _MIN_RATIO * len(parts[last]):
            first, size = last - 1, len(parts[last - 1]) + len(parts[last])
            while first and len(parts[first - 1]) < _MERGED_RATIO * size:
                first -= 1
                size += len(parts[first])
            parts[first : last + 1] = [_merge(parts[first : last + 1])]
    return tuple(parts)


def _merge(parts: Sequence[Part]) -> Part:
    for part in parts:
        if part.record is not None:
            check_checksums(part.segment, part.record)
    return Part(
        Segment.concatenate([part.segment if part.live is None else part.segment.take(part.live) for part in parts])
    )
