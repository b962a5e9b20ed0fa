"""Consistent snapshots of an index: its segments without removed rows, and searches over them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Codes, Floats, Integers, Mask
from dlfh.codes import as_words, n_bytes
from dlfh.index import nearest
from dlfh.index.backend import ApproximateIndex, Reader, Request, check_known
from dlfh.index.batch import as_codes
from dlfh.index.items import Hits, Item
from dlfh.index.manifest import SegmentRecord
from dlfh.index.segment import ABSENT, LEARNED, Segment, Strings
from dlfh.index.where import Where


@dataclass(frozen=True, eq=False)
class Part:
    """A segment, the mask of its removed rows (None: no row), and the record of its files (None: not written yet)."""

    segment: Segment
    removed: Mask | None = None
    record: SegmentRecord | None = None

    @cached_property
    def live(self) -> Integers | None:
        """The rows that are not removed; None if no row is."""
        return None if self.removed is None else np.flatnonzero(~self.removed)

    def __len__(self) -> int:
        return len(self.segment) if self.live is None else len(self.live)

    def without(self, rows: Integers) -> Part:
        removed = np.zeros(len(self.segment), bool) if self.removed is None else self.removed.copy()
        removed[rows] = True
        return Part(self.segment, removed, None if self.record is None else replace(self.record, removed=None))

    def live_codes(self, column: int) -> Codes:
        codes = self.segment.codes[column]
        if self.removed is None:
            return codes
        rows = self.segment.code_rows[column]
        return codes[~(self.removed if rows is None else self.removed[rows])]


Parts = tuple[Part, ...]


@dataclass(frozen=True)
class Column:
    """The codes of a modality in order, and the positions of their items (None: 0, 1, 2, ...)."""

    codes: Codes
    positions: Integers | None
    learned: Mask

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        return as_words(self.codes)

    @cached_property
    def blocks(self) -> Codes:
        """The codes in blocks of 32, transposed, shape (blocks, bytes, 32); the last block is padded with zeros."""
        n, width = self.codes.shape
        blocks = np.zeros((-(-n // 32), 32, width), np.uint8)
        blocks.reshape(-1, width)[:n] = self.codes
        return np.ascontiguousarray(blocks.transpose(0, 2, 1))

    @cached_property
    def by_byte(self) -> Codes:
        return np.ascontiguousarray(self.codes.T)

    def find(self, positions: Integers) -> tuple[Integers, Integers]:
        """Return the indices of those of ``positions`` that have a code, and the rows of these codes."""
        if self.positions is None:
            return np.arange(len(positions)), positions
        rows = np.minimum(np.searchsorted(self.positions, positions), max(len(self) - 1, 0))
        found = np.flatnonzero(self.positions[rows] == positions) if len(self) else np.empty(0, np.int64)
        return found, rows[found]

    def select(self, positions: Integers) -> Column:
        return self._take(self.find(np.unique(positions))[1])

    def within(self, mask: Mask) -> Column:
        """Return the column of the items in a mask over all positions."""
        return self._take(np.flatnonzero(mask if self.positions is None else mask[self.positions]))

    def _take(self, rows: Integers) -> Column:
        return Column(self.codes[rows], self.positions_of(rows), self.learned[rows])

    def positions_of(self, rows: Integers) -> Integers:
        return rows if self.positions is None else self.positions[rows]


@dataclass(frozen=True, eq=False)
class Snapshot(Reader):
    """Items by position, in the order in which they were added, starting at 0."""

    parts: Parts
    n_bits: int
    modalities: tuple[str, ...]
    _columns: dict[int, Column] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def starts(self) -> Integers:
        """The position of the first item of each part, followed by the number of items."""
        return np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

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
        if len(self.parts) == 1 and self.parts[0].live is None:  # a compact index
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
        """Return the position of each id, or -1."""
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

    def column(self, column: int) -> Column:
        """Return the codes of a modality: those of a single clean segment as they are, others gathered once."""
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

    def distances(self, request: Request, positions: Integers | None) -> Floats:
        column = self._searched(request)
        if positions is None:
            n_items, places, codes_by_byte = len(self), column.positions, column.by_byte
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

        return FaissIndex(self, self.column(column), kind, options, n_jobs)

    def _searched(self, request: Request) -> Column:
        """Return the codes that a request searches."""
        column = self.column(request.column)
        if request.ids is not None:
            positions = self.find(request.ids)
            check_known(request.ids, positions >= 0)
            column = column.select(positions)
        return column if request.where is None else column.within(self.matches(request.where, None))
