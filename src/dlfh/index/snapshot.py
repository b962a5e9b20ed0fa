"""The items of an index at one moment: segments, less what was removed from them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.codes import as_words, n_bytes
from dlfh.index.manifest import RemovedRecord, SegmentRecord
from dlfh.index.segment import ABSENT, LEARNED, Segment
from dlfh.index.strings import Strings
from dlfh.index.where import Where

__all__ = ["Column", "Part", "Snapshot"]

RowNumbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Part:
    """A segment, the rows removed from it (None: none), and the files that hold the two, if any do."""

    segment: Segment
    removed: npt.NDArray[np.bool_] | None = None
    segment_record: SegmentRecord | None = None
    removed_record: RemovedRecord | None = None

    @cached_property
    def live(self) -> RowNumbers | None:
        """The rows that are left; None if all are."""
        return None if self.removed is None else np.flatnonzero(~self.removed)

    @property
    def n_removed(self) -> int:
        return len(self.segment) - len(self)

    def __len__(self) -> int:
        return len(self.segment) if self.live is None else len(self.live)

    def without(self, rows: RowNumbers) -> Part:
        """Return the part with more rows removed."""
        removed = np.zeros(len(self.segment), bool) if self.removed is None else self.removed.copy()
        removed[rows] = True
        return Part(self.segment, removed, self.segment_record)

    def cleaned(self) -> Segment:
        """Return a segment of the rows that are left."""
        return self.segment if self.live is None else self.segment.take(self.live)


@dataclass(frozen=True)
class Column:
    """The codes of one modality in insertion order, and the items' positions (None: 0, 1, 2, ...)."""

    codes: Codes
    positions: RowNumbers | None
    learned: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        """The codes as rows of 64-bit words."""
        return as_words(self.codes)

    @cached_property
    def by_byte(self) -> Codes:
        """The codes by byte, shape (bytes, n), each byte's in one piece."""
        return np.ascontiguousarray(self.codes.T)

    def select(self, positions: RowNumbers) -> Column:
        """Return the column of some items alone; those without a code are left out."""
        wanted = np.unique(positions)
        if self.positions is not None:
            wanted = np.intersect1d(wanted, self.positions, assume_unique=True)
            rows = np.searchsorted(self.positions, wanted)
        else:
            rows = wanted
        return Column(self.codes[rows], wanted, self.learned[rows])

    def within(self, mask: npt.NDArray[np.bool_]) -> Column:
        """Return the column of the items that a mask over all has alone."""
        rows = np.flatnonzero(mask if self.positions is None else mask[self.positions])
        return Column(self.codes[rows], self.positions_of(rows), self.learned[rows])

    def find(self, positions: RowNumbers) -> tuple[RowNumbers, Codes]:
        """Return which of some items have a code, as places in ``positions``, and their codes by byte."""
        if self.positions is None:
            return np.arange(len(positions)), np.ascontiguousarray(self.codes[positions].T)
        rows = np.minimum(np.searchsorted(self.positions, positions), max(len(self) - 1, 0))
        here = np.flatnonzero(self.positions[rows] == positions) if len(self) else np.empty(0, np.int64)
        return here, np.ascontiguousarray(self.codes[rows[here]].T)

    def positions_of(self, rows: RowNumbers) -> RowNumbers:
        return rows if self.positions is None else self.positions[rows]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Items by position: 0 is the one that was added first of those that are there."""

    parts: tuple[Part, ...]
    n_bits: int
    n_modalities: int
    _columns: dict[int, Column] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def starts(self) -> RowNumbers:
        """The position of each part's first item, and the number of items."""
        return np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, position: int) -> tuple[Segment, int]:
        """Return the segment and row of a position."""
        part = int(np.searchsorted(self.starts, position, side="right")) - 1
        row = position - int(self.starts[part])
        live = self.parts[part].live
        return self.parts[part].segment, row if live is None else int(live[row])

    def locate_runs(self, positions: RowNumbers) -> Iterator[tuple[Segment, list[int]]]:
        """Yield segments and rows of positions, consecutive ones of a segment together."""
        parts = np.searchsorted(self.starts, positions, side="right") - 1
        breaks = np.flatnonzero(np.diff(parts, prepend=-1))
        for start, stop in itertools.pairwise([*breaks.tolist(), len(positions)]):
            part = self.parts[parts[start]]
            rows = positions[start:stop] - self.starts[parts[start]]
            yield part.segment, (rows if part.live is None else part.live[rows]).tolist()

    def find_rows(self, ids: Strings) -> list[RowNumbers]:
        """Return, for each part, the row of each id in it, or -1."""
        found = []
        for part in self.parts:
            rows = part.segment.find(ids)
            if part.removed is not None and len(rows):
                rows[(rows >= 0) & part.removed[rows]] = -1
            found.append(rows)
        return found

    def find(self, ids: Strings) -> RowNumbers:
        """Return the position of each id, or -1."""
        positions = np.full(len(ids), -1)
        for part, start, rows in zip(self.parts, self.starts, self.find_rows(ids), strict=False):
            hit = rows >= 0
            places = rows[hit] if part.live is None else np.searchsorted(part.live, rows[hit])
            positions[hit] = start + places
        return positions

    def ids_at(self, positions: npt.ArrayLike) -> list[str]:
        """Return the ids of positions."""
        asked = np.asarray(positions, np.int64)
        if len(self.parts) == 1 and self.parts[0].live is None:
            names = self.parts[0].segment.ids
            return [names[row].decode() for row in asked.tolist()]
        part_of = np.searchsorted(self.starts, asked, side="right") - 1
        rows = asked - self.starts[part_of]
        for p, part in enumerate(self.parts):
            if part.live is not None:
                rows[part_of == p] = part.live[rows[part_of == p]]
        segments = [part.segment.ids for part in self.parts]
        return [segments[p][row].decode() for p, row in zip(part_of.tolist(), rows.tolist(), strict=True)]

    def states_of(self, modality: int) -> npt.NDArray[np.uint8]:
        """Return what each item has in a modality, by position."""
        states = [
            part.segment.states[modality] if part.live is None else part.segment.states[modality, part.live]
            for part in self.parts
        ]
        return np.concatenate([np.empty(0, np.uint8), *states])

    def mask(self, where: Where) -> npt.NDArray[np.bool_]:
        """Return of which items a filter holds, by position."""
        masks = [(part.segment.fields.mask(where), part.live) for part in self.parts]
        return np.concatenate([np.empty(0, bool), *(mask if live is None else mask[live] for mask, live in masks)])

    def column(self, modality: int) -> Column:
        """Return the codes of a modality: straight from a single clean segment, otherwise gathered once."""
        with self._lock:
            if modality not in self._columns:
                self._columns[modality] = self._gather(modality)
            return self._columns[modality]

    def _gather(self, modality: int) -> Column:
        states = self.states_of(modality)
        present = states != ABSENT
        positions = None if present.all() else np.flatnonzero(present)
        codes = [self._live_codes(part, modality) for part in self.parts]
        whole = codes[0] if len(codes) == 1 else np.concatenate([np.empty((0, n_bytes(self.n_bits)), np.uint8), *codes])
        return Column(whole, positions, states[present] == LEARNED)

    @staticmethod
    def _live_codes(part: Part, modality: int) -> Codes:
        codes = part.segment.codes[modality]
        if part.removed is None:
            return codes
        rows = part.segment.code_rows[modality]
        removed = part.removed if rows is None else part.removed[rows]
        return codes[~removed]
