"""Items in memory or in a folder: searches use an immutable snapshot of segments, which changes replace.

New items become a new segment at the end, and removed rows are marked. Neighbouring segments are merged so that each
is larger than the next by a constant factor. So an index of n items has O(log n) segments, and an item is copied
O(log n) times on average, whatever the sequence of changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask
from dlfh.codes import n_bytes
from dlfh.errors import StorageError
from dlfh.index import nearest
from dlfh.index.backend import ApproximateIndex, Backend, Reader, Request, check_known
from dlfh.index.files import check_checksums
from dlfh.index.items import Hits, Item
from dlfh.index.nearest import Column, Tables, as_codes
from dlfh.index.scan import Bounds, possible_rows
from dlfh.index.segment import ABSENT, LEARNED, Part, Segment
from dlfh.index.store import Store
from dlfh.index.where import Where
from dlfh.index.words import Strings, WordIndex

Parts = tuple[Part, ...]

#: A part is merged with the next unless it is larger by this factor ...
_MIN_RATIO = 1.5
#: ... and then with preceding parts that are not larger by this factor. The difference between the factors bounds the
#: cost of copying: many items must be added or removed before a merged part is merged again.
_MERGED_RATIO = 2
#: A segment is rewritten when a smaller share of its rows is left.
_MIN_LIVE = 0.75


@dataclass(frozen=True, eq=False)
class Snapshot(Reader):
    """Items by position, in the order in which they were added, starting at 0."""

    parts: Parts
    n_bits: int
    modalities: tuple[str, ...]
    texts: tuple[str, ...] = ()
    _columns: dict[int, Column] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def starts(self) -> Integers:
        """The position of the first item of each part, followed by the number of items."""
        return np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def _is_compact(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].live is None

    def _locate(self, positions: Integers) -> Iterator[tuple[Segment, Integers]]:
        """Yield the segment and rows of each run of positions in the same segment."""
        start = 0
        for number, run in itertools.groupby(self.starts.searchsorted(positions, side="right").tolist()):
            stop, part = start + len(list(run)), self.parts[number - 1]
            rows = positions[start:stop] - self.starts[number - 1]
            start = stop
            yield part.segment, rows if part.live is None else part.live[rows]

    def positions(self) -> Integers:
        return np.arange(len(self))

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        known = self.positions() if positions is None else np.asarray(positions, np.int64)
        known = known[(known >= 0) & (known < len(self))]
        found = (item for segment, rows in self._locate(known) for item in segment.items(rows, self.modalities))
        return zip(known.tolist(), found, strict=True)

    def ids(self) -> list[str]:
        return self.ids_at(self.positions())

    def ids_at(self, places: Integers) -> list[str]:
        if self._is_compact:
            ids = self.parts[0].segment.ids
            return [ids[row].decode() for row in places.tolist()]
        part_of = np.searchsorted(self.starts, places, side="right") - 1
        rows = places - self.starts[part_of]
        lives = [part.live for part in self.parts]
        segments = [part.segment.ids for part in self.parts]
        found = []
        for p, row in zip(part_of.tolist(), rows.tolist(), strict=True):
            live = lives[p]
            found.append(segments[p][row if live is None else live.item(row)].decode())
        return found

    def hits(self, column: Column, distances: Array, rows: Integers) -> Hits:
        return Hits(distances, column.positions_of(rows), column.learned[rows], self.ids_at)

    def find_rows(self, ids: Strings) -> list[Integers]:
        """Return, for each part, the row of each id, or -1."""
        found = []
        for part in self.parts:
            rows = part.segment.find(ids)
            if part.removed is not None and len(rows):
                rows[(rows >= 0) & part.removed[rows]] = -1
            found.append(rows)
        return found

    def find(self, ids: Strings) -> Integers:
        if self._is_compact:  # positions are rows
            return self.parts[0].segment.find(ids)
        positions = np.full(len(ids), -1)
        for part, start, rows in zip(self.parts, self.starts, self.find_rows(ids), strict=False):
            places = rows if part.live is None else np.searchsorted(part.live, rows)
            np.copyto(positions, start + places, where=rows >= 0)
        return positions

    def states(self, column: int) -> Codes:
        states = [
            part.segment.states[column] if part.live is None else part.segment.states[column, part.live]
            for part in self.parts
        ]
        return np.concatenate([np.empty(0, np.uint8), *states])

    def count(self, column: int, states: tuple[int, ...]) -> int:
        return int(np.isin(self.states(column), states).sum())

    def matches(self, where: Where, positions: Sequence[int] | None) -> Mask:
        masks = [(part.segment.fields.mask(where), part.live) for part in self.parts]
        mask = np.concatenate([np.empty(0, bool), *(mask if live is None else mask[live] for mask, live in masks)])
        return mask if positions is None else mask[np.asarray(positions, np.int64)]

    @cached_property
    def words(self) -> WordIndex:
        """The words of the items' texts."""
        parts = [(part.segment.words, part.removed) for part in self.parts]
        return WordIndex([(words, removed) for words, removed in parts if words is not None], len(self.texts))

    def column(self, column: int) -> Column:
        """Return the codes of a modality: without a copy if one clean segment has them all, otherwise gathered once."""
        with self._lock:
            if column not in self._columns:
                self._columns[column] = self._gather(column)
            return self._columns[column]

    def _gather(self, column: int) -> Column:
        states = self.states(column)
        present = states != ABSENT
        positions = None if present.all() else np.flatnonzero(present)
        codes = [part.live_codes(column) for part in self.parts] or [np.empty((0, n_bytes(self.n_bits)), np.uint8)]
        return Column(codes[0] if len(codes) == 1 else np.concatenate(codes), positions, states[present] == LEARNED)

    def nearest(self, request: Request, k: int) -> Hits:
        column = self._searched(request)
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
        return self.hits(column, *found)

    def within(self, request: Request, radius: int) -> list[Hits]:
        column = self._searched(request)
        found = nearest.within(request.queries, column.words, radius, request.n_jobs)
        return [self.hits(column, distances[None], rows[None]) for distances, rows in found]

    def distances_at(self, columns: Sequence[int], tables: Tables, positions: Integers) -> Floats:
        """Return the distances of the items at ascending positions; infinity for items without a code in any column.

        Each item is compared by its code in the first of ``columns`` where it has one.
        """
        totals, found = np.zeros((len(tables.integers), len(positions)), np.int64), np.zeros(len(positions), bool)
        for part, place, rows in self._rows(positions):
            for which, codes, places in part.segment.codes_of(columns, rows):
                at = slice(place, place + len(rows)) if which is None else place + which
                found[at] = True
                for total, table in zip(totals, tables.integers, strict=True):
                    summed = np.empty(len(places), np.int64)
                    _kernels.sum_tables(table, codes, places, summed)
                    total[at] = summed
        return np.where(found, tables.scaled(totals), np.inf)

    def kinds(self, columns: tuple[int, ...], positions: Integers | None, *, with_learned: bool) -> Codes:
        """Return `Segment.kinds` of the given items; of all items by default."""
        if positions is None:
            each = [(part.segment.kinds(columns, with_learned=with_learned), part.live) for part in self.parts]
            return np.concatenate([np.empty(0, np.uint8), *(k if live is None else k[live] for k, live in each)])
        kinds = np.empty(len(positions), np.uint8)
        for part, place, rows in self._rows(positions):
            kinds[place : place + len(rows)] = part.segment.kinds(columns, with_learned=with_learned)[rows]
        return kinds

    def seen(self, columns: tuple[int, ...]) -> Mask:
        """Return which values occur in each byte of `Segment.blocks`, shape (bytes, 256)."""
        return np.logical_or.reduce([part.segment.seen(columns) for part in self.parts])

    def scan(
        self,
        bounds: Bounds,
        columns: tuple[int, ...],
        levels: tuple[Integers, Codes],
        candidates: Mask | None,
        *,
        with_learned: bool,
    ) -> Integers:
        """Return the positions of the candidates that the bounds do not exclude; see `dlfh.index.scan`."""
        found, (places, values) = [np.empty(0, np.int64)], levels
        stops = places.searchsorted(self.starts).tolist()
        for number, (start, stop) in enumerate(itertools.pairwise(self.starts.tolist())):
            part, of_part = self.parts[number], slice(stops[number], stops[number + 1])
            kinds, rows = part.segment.kinds(columns, with_learned=with_learned), places[of_part] - start
            eligible = None if candidates is None else candidates[start:stop]
            if part.live is None:
                found.append(start + possible_rows(part, bounds, kinds, (rows, values[of_part]), eligible))
                continue
            mask = np.zeros(len(kinds), bool)
            mask[part.live] = True if eligible is None else eligible
            possible = possible_rows(part, bounds, kinds, (part.live[rows], values[of_part]), mask)
            found.append(start + part.live.searchsorted(possible))
        return np.concatenate(found)

    def _rows(self, positions: Integers) -> Iterator[tuple[Part, int, Integers]]:
        """Yield each part that contains some of the ascending positions, the index of the first, and their rows."""
        places = np.searchsorted(positions, self.starts).tolist()
        for part, start, first, last in zip(self.parts, self.starts.tolist(), places, places[1:], strict=False):
            if first < last:
                rows = positions[first:last] - start
                yield part, first, rows if part.live is None else part.live[rows]

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        from dlfh.index.approximate import FaissIndex  # exact searches do not need it

        return FaissIndex(self, self.column(column), kind, options, n_jobs)

    def _searched(self, request: Request) -> Column:
        column = self.column(request.column)
        if request.positions is not None:
            column = column.select(request.positions)
        return column if request.where is None else column.within(self.matches(request.where, None))


class LocalBackend(Backend):
    """Items in memory, or in the folder of a store."""

    def __init__(self, n_bits: int, modalities: tuple[str, ...], store: Store | None = None) -> None:
        self.n_bits, self.modalities, self._store = n_bits, modalities, store
        self.texts = () if store is None else store.manifest.texts
        self.folder = None if store is None else store.folder
        self._writing = threading.RLock()
        self._snapshot: Snapshot | None = self._snapshot_of(() if store is None else store.parts)

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

    def newer(self) -> LocalBackend:
        assert self._store is not None
        return LocalBackend(self.n_bits, self.modalities, self._store.newer())

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
        """Return the parts, the rows of the given ids in each, and a mask of existing ids; raise if not writable."""
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
        return Snapshot(parts, self.n_bits, self.modalities, self.texts)

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
