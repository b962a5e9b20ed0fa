"""Items in memory, or in a folder: a snapshot of segments that every change replaces."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dlfh._arrays import Codes, Floats, Integers, Mask
from dlfh.errors import StorageError
from dlfh.index import nearest
from dlfh.index.backend import ApproximateIndex, Backend, Request, check_known
from dlfh.index.batch import as_codes
from dlfh.index.items import Hits, Item
from dlfh.index.segment import Segment, Strings
from dlfh.index.snapshot import Column, Parts, Snapshot, append, compact, remove
from dlfh.index.store import Store
from dlfh.index.where import Where


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
            self._current()
            if self._store is None or self._store.is_writer or not self._store.refresh():
                return False
            self._snapshot = self._snapshot_of(self._store.parts)
            return True

    def verify(self) -> None:
        with self._writing:
            self._current()
            if self._store is not None:
                self._store.verify()

    def write(self, segment: Segment, *, replace: bool) -> None:
        with self._writing:
            parts, found, known = self._find_rows(segment.ids)
            if not replace:
                check_known(segment.ids, known, expected=False)
            if known.any():
                parts = remove(parts, found)
            if len(segment):
                self._commit(append(parts, segment))

    def remove(self, ids: Strings) -> None:
        with self._writing:
            parts, found, known = self._find_rows(ids)
            check_known(ids, known)
            self._commit(remove(parts, found))

    def _find_rows(self, ids: Strings) -> tuple[Parts, list[Integers], Mask]:
        """Return the parts, if they may be changed, the rows of the given ids in each, and which ids exist."""
        snapshot = self._writable()
        found = snapshot.find_rows(ids)
        known = np.logical_or.reduce([np.zeros(len(ids), bool), *(rows >= 0 for rows in found)])
        return snapshot.parts, [rows[rows >= 0] for rows in found], known

    def compact(self) -> None:
        with self._writing:
            self._commit(compact(self._writable().parts))

    def nearest(self, request: Request, k: int) -> Hits:
        snapshot, column = self._searched(request)
        queries, n_jobs = request.queries, request.n_jobs
        if queries.dtype == np.uint8:
            found = nearest.nearest_by_hamming(queries, column.codes, k, n_jobs)
        elif queries.ndim == 3:
            found = nearest.nearest_by_table(queries, column.blocks, len(column), k, n_jobs)
        elif request.shortlist is None:
            found = nearest.nearest_by_weight(queries, column.words, k, n_jobs)
        else:
            _, rows = nearest.nearest_by_hamming(as_codes(queries), column.codes, request.shortlist, n_jobs)
            found = nearest.rerank(queries, column.words, rows, k, n_jobs)
        return snapshot.hits(column, *found)

    def within(self, request: Request, radius: int) -> list[Hits]:
        snapshot, column = self._searched(request)
        found = nearest.within(request.queries, column.words, radius, request.n_jobs)
        return [snapshot.hits(column, distances[None], rows[None]) for distances, rows in found]

    def distances(self, request: Request, positions: Integers | None) -> Floats:
        snapshot, column = self._searched(request)
        if positions is None:
            n_items, places, codes_by_byte = len(snapshot), column.positions, column.by_byte
        else:
            places, rows = column.find(positions)
            n_items, codes_by_byte = len(positions), np.ascontiguousarray(column.codes[rows].T)
        distances = nearest.distances_to_all(request.queries, codes_by_byte)
        if places is None:
            return distances
        spread = np.full((len(request.queries), n_items), np.inf)
        spread[:, places] = distances
        return spread

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        from dlfh.index.approximate import FaissIndex  # exact searches do not need it

        snapshot = self._current()
        return FaissIndex(snapshot, snapshot.column(column), kind, options, n_jobs)

    def find(self, ids: Strings) -> Integers:
        return self._current().find(ids)

    def positions(self) -> Integers:
        return np.arange(len(self._current()))

    def get(self, identifier: Strings) -> Item | None:
        snapshot = self._current()
        found = snapshot.find(identifier)
        return None if found[0] < 0 else next(snapshot.items(found, self.modalities))

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        snapshot = self._current()
        known = np.arange(len(snapshot)) if positions is None else np.asarray(positions, np.int64)
        known = known[(known >= 0) & (known < len(snapshot))]
        return zip(known.tolist(), snapshot.items(known, self.modalities), strict=True)

    def ids(self) -> list[str]:
        snapshot = self._current()
        return snapshot.ids_at(np.arange(len(snapshot)))

    def states(self, column: int) -> Codes:
        return self._current().states_of(column)

    def count(self, column: int, states: tuple[int, ...]) -> int:
        return int(np.isin(self.states(column), states).sum())

    def matches(self, where: Where, positions: Sequence[int] | None) -> Mask:
        mask = self._current().mask(where)
        return mask if positions is None else mask[np.asarray(positions, np.int64)]

    def __len__(self) -> int:
        return len(self._current())

    def _snapshot_of(self, parts: Parts) -> Snapshot:
        self._state = None if self._store is None else self._store.manifest.state
        return Snapshot(parts, self.n_bits)

    def _current(self) -> Snapshot:
        if self._snapshot is None:
            raise StorageError("the index is closed")
        return self._snapshot

    def _writable(self) -> Snapshot:
        snapshot = self._current()
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

    def _searched(self, request: Request) -> tuple[Snapshot, Column]:
        """Return the current snapshot, and the codes that a request searches."""
        snapshot = self._current()
        column = snapshot.column(request.column)
        if request.ids is not None:
            positions = snapshot.find(request.ids)
            check_known(request.ids, positions >= 0)
            column = column.select(positions)
        if request.where is not None:
            column = column.within(snapshot.mask(request.where))
        return snapshot, column
