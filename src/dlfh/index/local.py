"""Items in memory, or in a folder: a snapshot of segments that every change replaces."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.errors import StorageError
from dlfh.index import changes, nearest
from dlfh.index.backend import ApproximateIndex, Mode, Scope, check_known
from dlfh.index.batch import as_codes
from dlfh.index.hits import Hits
from dlfh.index.items import Item, read_item, read_items
from dlfh.index.segment import Segment
from dlfh.index.snapshot import Column, Part, Snapshot
from dlfh.index.store import Store
from dlfh.index.strings import Strings
from dlfh.index.where import Where

__all__ = ["LocalBackend"]

Codes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


class LocalBackend:
    """Items in memory, or in the folder of a store. Implements `Backend`."""

    def __init__(self, n_bits: int, modalities: tuple[str, ...], store: Store | None = None) -> None:
        self.n_bits = n_bits
        self.modalities = modalities
        self._store = store
        self._writing = threading.RLock()
        self._snapshot: Snapshot | None = self._snapshot_of(() if store is None else store.parts)

    @classmethod
    def create(cls, folder: Path, n_bits: int, modalities: tuple[str, ...]) -> LocalBackend:
        """Create an empty index in a new or empty folder."""
        return cls(n_bits, modalities, Store.create(folder, n_bits, modalities))

    @classmethod
    def open(cls, folder: Path, *, writable: bool, verify: bool) -> LocalBackend:
        """Open the index in a folder."""
        store = Store.open(folder, writable=writable, verify=verify)
        return cls(store.n_bits, store.modalities, store)

    address = None

    @property
    def folder(self) -> Path | None:
        return None if self._store is None else self._store.folder

    @property
    def identity(self) -> str | None:
        return None if self._store is None else self._store.identity

    @property
    def state(self) -> str | None:
        return None if self._store is None else self._store.state

    @property
    def writable(self) -> bool:
        return not self.closed and (self._store is None or self._store.is_mine)

    @property
    def closed(self) -> bool:
        return self._snapshot is None

    def close(self) -> None:
        with self._writing:
            if self._store is not None:
                self._store.close()
            self._snapshot = None

    def drop(self) -> None:
        self.close()

    def refresh(self) -> bool:
        with self._writing:
            self._current()
            if self._store is None or self._store.writable or not self._store.refresh():
                return False
            self._snapshot = self._snapshot_of(self._store.parts)
            return True

    def verify(self) -> None:
        with self._writing:
            self._current()
            if self._store is not None:
                self._store.verify()

    # Changes

    def write(self, segment: Segment, mode: Mode) -> None:
        with self._writing:
            snapshot = self._writable()
            found = snapshot.find_rows(segment.ids)
            known = np.logical_or.reduce([np.zeros(len(segment), bool), *(rows >= 0 for rows in found)])
            check_known(segment.ids, known, mode)
            parts = snapshot.parts
            if known.any():
                parts = changes.remove(parts, [rows[rows >= 0] for rows in found], self.n_bits)
            if len(segment):
                self._commit(changes.append(parts, segment, self.n_bits))

    def remove(self, ids: Strings) -> None:
        with self._writing:
            snapshot = self._writable()
            check_known(ids, snapshot.find(ids) >= 0, "update")
            rows = [rows[rows >= 0] for rows in snapshot.find_rows(ids)]
            self._commit(changes.remove(snapshot.parts, rows, self.n_bits))

    def compact(self) -> None:
        with self._writing:
            self._commit(changes.compact(self._writable().parts, self.n_bits))

    # Searches

    def nearest(self, column: int, codes: Codes, k: int, scope: Scope, n_jobs: int | None) -> Hits:
        snapshot, searched = self._searched(column, scope)
        return _hits(snapshot, searched, *nearest.nearest_by_hamming(codes, searched.codes, k, n_jobs))

    def nearest_asymmetric(
        self,
        column: int,
        projections: npt.NDArray[Any],
        k: int,
        shortlist: int | None,
        scope: Scope,
        n_jobs: int | None,
    ) -> Hits:
        snapshot, searched = self._searched(column, scope)
        if shortlist is None:
            return _hits(snapshot, searched, *nearest.nearest_by_weight(projections, searched.words, k, n_jobs))
        _, rows = nearest.nearest_by_hamming(as_codes(projections), searched.codes, shortlist, n_jobs)
        return _hits(snapshot, searched, *nearest.rerank(projections, searched.words, rows, k, n_jobs))

    def within(self, column: int, codes: Codes, radius: int, scope: Scope, n_jobs: int | None) -> list[Hits]:
        snapshot, searched = self._searched(column, scope)
        found = nearest.within(codes, searched.words, radius, n_jobs)
        return [_hits(snapshot, searched, distances[None], rows[None]) for distances, rows in found]

    def distances(self, column: int, queries: npt.NDArray[Any], positions: Positions | None) -> npt.NDArray[np.float64]:
        snapshot, searched = self._searched(column)
        if positions is None:
            n_items, rows, codes_by_byte = len(snapshot), searched.positions, searched.by_byte
        else:
            n_items, (rows, codes_by_byte) = len(positions), searched.find(positions)
        distances = nearest.distances_to_all(queries, codes_by_byte)
        if rows is None:
            return distances
        spread = np.full((len(queries), n_items), np.inf)
        spread[:, rows] = distances
        return spread

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        from dlfh.index.faiss_index import FaissIndex  # exact searches do not need it

        return FaissIndex(*self._searched(column), kind, options, n_jobs)

    # Items

    def find(self, ids: Strings) -> Positions:
        return self._current().find(ids)

    def positions(self) -> Positions:
        return np.arange(len(self._current()))

    def get(self, identifier: Strings) -> Item | None:
        snapshot = self._current()
        position = int(snapshot.find(identifier)[0])
        return None if position < 0 else read_item(*snapshot.locate(position), self.modalities)

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        snapshot = self._current()
        every = np.arange(len(snapshot)) if positions is None else np.asarray(positions, np.int64)
        known = every[(every >= 0) & (every < len(snapshot))]
        runs = snapshot.locate_runs(known)
        items = (item for segment, rows in runs for item in read_items(segment, rows, self.modalities))
        return zip(known.tolist(), items, strict=True)

    def ids(self) -> list[str]:
        snapshot = self._current()
        return snapshot.ids_at(np.arange(len(snapshot)))

    def codes(self, column: int) -> tuple[list[str], Codes]:
        snapshot, searched = self._searched(column)
        return snapshot.ids_at(searched.positions_of(np.arange(len(searched)))), searched.codes

    def states(self, column: int) -> npt.NDArray[np.uint8]:
        return self._current().states_of(column)

    def count(self, column: int, states: tuple[int, ...]) -> int:
        present = self.states(column)
        return sum(int(np.count_nonzero(present == state)) for state in states)

    def matches(self, where: Where, positions: Sequence[int] | None) -> npt.NDArray[np.bool_]:
        mask = self._current().mask(where)
        return mask if positions is None else mask[np.asarray(positions, np.int64)]

    def __len__(self) -> int:
        return len(self._current())

    # Inside

    def _snapshot_of(self, parts: tuple[Part, ...]) -> Snapshot:
        return Snapshot(parts, self.n_bits, len(self.modalities))

    def _current(self) -> Snapshot:
        if self._snapshot is None:
            raise StorageError("the index is closed")
        return self._snapshot

    def _writable(self) -> Snapshot:
        snapshot = self._current()
        if self._store is not None:
            self._store.check_writable()
        return snapshot

    def _commit(self, parts: tuple[Part, ...]) -> None:
        if self._store is None:
            self._snapshot = self._snapshot_of(parts)
            return
        try:
            self._store.commit(parts)
        finally:  # also after an error, the index shows the state of the folder
            self._snapshot = self._snapshot_of(self._store.parts)

    def _searched(self, column: int, scope: Scope | None = None) -> tuple[Snapshot, Column]:
        """Return the current snapshot, and the codes of a modality that are in scope."""
        snapshot = self._current()
        searched = snapshot.column(column)
        if scope is not None and scope.ids is not None:
            positions = snapshot.find(scope.ids)
            check_known(scope.ids, positions >= 0, "update")
            searched = searched.select(positions)
        if scope is not None and scope.where is not None:
            searched = searched.within(snapshot.mask(scope.where))
        return snapshot, searched


def _hits(snapshot: Snapshot, searched: Column, distances: npt.NDArray[Any], rows: Positions) -> Hits:
    return Hits(distances, searched.positions_of(rows), searched.learned[rows], snapshot)
