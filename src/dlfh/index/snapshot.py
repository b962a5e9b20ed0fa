"""The items of an index at one moment, as segments without their removed rows, and what changes make of them.

New items become a new segment at the end, and removed rows are marked. Neighbouring segments are merged so that each
is larger than the next by a constant factor. So an index of n items has O(log n) segments, and an item is copied
O(log n) times on average, whatever the sequence of changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Codes, Integers, Mask
from dlfh.codes import as_words, n_bytes
from dlfh.index.items import Hits, Item
from dlfh.index.manifest import SegmentRecord
from dlfh.index.segment import ABSENT, LEARNED, Segment, Strings
from dlfh.index.segment_file import check_checksums
from dlfh.index.where import Where

#: A part is merged with the next unless it is larger by this factor ...
_MIN_RATIO = 1.5
#: ... and then with those before that are not larger by this factor. The difference between the two factors bounds the
#: cost of copying: many items must be added or removed before a merged part is merged again.
_MERGED_RATIO = 2
#: A segment is rewritten when a smaller share of its rows is left.
_MIN_LIVE = 0.75


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


def append(parts: Parts, segment: Segment) -> Parts:
    """Return the parts with a segment of new items at the end."""
    return _merged([*parts, Part(segment)])


def remove(parts: Parts, rows: list[Integers]) -> Parts:
    """Return the parts without the given rows of each."""
    left = [part.without(gone) if len(gone) else part for part, gone in zip(parts, rows, strict=True)]
    sparse = [len(part) < _MIN_LIVE * len(part.segment) for part in left]
    return _merged([_merge([part]) if few else part for part, few in zip(left, sparse, strict=True) if len(part)])


def compact(parts: Parts) -> Parts:
    """Return a single part without removed rows, or none."""
    return parts if not parts or (len(parts) == 1 and parts[0].removed is None) else (_merge(parts),)


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
class Snapshot:
    """Items by position, in the order in which they were added, starting at 0."""

    parts: Parts
    n_bits: int
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

    def items(self, positions: Integers, modalities: tuple[str, ...]) -> Iterator[Item]:
        return (item for segment, rows in self._locate(positions) for item in segment.items(rows, modalities))

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

    def states_of(self, column: int) -> Codes:
        states = [
            part.segment.states[column] if part.live is None else part.segment.states[column, part.live]
            for part in self.parts
        ]
        return np.concatenate([np.empty(0, np.uint8), *states])

    def mask(self, where: Where) -> Mask:
        masks = [(part.segment.fields.mask(where), part.live) for part in self.parts]
        return np.concatenate([np.empty(0, bool), *(mask if live is None else mask[live] for mask, live in masks)])

    def column(self, column: int) -> Column:
        """Return the codes of a modality: those of a single clean segment as they are, others gathered once."""
        with self._lock:
            if column not in self._columns:
                self._columns[column] = self._gather(column)
            return self._columns[column]

    def _gather(self, column: int) -> Column:
        states = self.states_of(column)
        present = states != ABSENT
        positions = None if present.all() else np.flatnonzero(present)
        codes = [part.live_codes(column) for part in self.parts] or [np.empty((0, n_bytes(self.n_bits)), np.uint8)]
        return Column(codes[0] if len(codes) == 1 else np.concatenate(codes), positions, states[present] == LEARNED)
