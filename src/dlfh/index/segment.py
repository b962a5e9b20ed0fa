"""A segment: items that were written together and never change, as a few arrays."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Codes, Integers
from dlfh.errors import StorageError
from dlfh.index.fields import Fields
from dlfh.index.items import Item
from dlfh.index.strings import HashTable, Strings

#: States of an item in a modality, as numbers and as names.
ABSENT, LEARNED, HASHED = 0, 1, 2
STATES = ("absent", "learned", "hashed")


@dataclass(frozen=True)
class Segment:
    """Items in the order in which they were added.

    ``states[m, i]`` is the state of item i in modality m, and ``codes[m]`` has the codes of the items that have one, in
    order. ``metadata`` are JSON texts, empty for items without metadata, or None if no item has any.
    ``metadata_checksums`` cover id and text, so that items can be checked one by one.
    """

    ids: Strings
    table: HashTable
    states: Codes
    codes: tuple[Codes, ...]
    metadata: Strings | None
    metadata_checksums: npt.NDArray[np.uint32] | None

    @classmethod
    def of(cls, ids: Strings, states: Codes, codes: tuple[Codes, ...], metadata: Strings | None) -> Segment:
        """Create a segment from items with distinct ids."""
        if metadata is None or not len(metadata.blob):
            return cls(ids, HashTable.of(ids), states, codes, None, None)
        checksums = np.fromiter(map(metadata_checksum, ids, metadata), np.uint32, len(ids))
        return cls(ids, HashTable.of(ids), states, codes, metadata, checksums)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def code_rows(self) -> tuple[Integers | None, ...]:
        """For each modality, the rows that have a code; None if all have one."""
        return tuple(
            None if len(codes) == len(self) else np.flatnonzero(states)
            for states, codes in zip(self.states, self.codes, strict=True)
        )

    @cached_property
    def fields(self) -> Fields:
        """The values that filters compare."""
        return Fields(len(self), self._all_metadata)

    def items(self, rows: Integers, modalities: tuple[str, ...]) -> Iterator[Item]:
        """Yield the items in the given rows; their metadata are compared with their checksums."""
        places = [rows if present is None else np.searchsorted(present, rows) for present in self.code_rows]
        columns = list(zip(modalities, self.codes, (place.tolist() for place in places), strict=True))
        states = self.states[:, rows].T.tolist()
        for i, row in enumerate(rows.tolist()):
            codes, named, metadata = {}, {}, None
            for (name, values, place), state in zip(columns, states[i], strict=True):
                named[name] = STATES[state]
                if state != ABSENT:
                    codes[name] = values[place[i]].copy()
            if self.metadata is not None and self.metadata_checksums is not None:
                metadata = _parse_metadata(self.ids[row], self.metadata[row], self.metadata_checksums.item(row))
            yield Item(self.ids[row].decode(), metadata, codes, named)

    def _all_metadata(self) -> Iterable[dict[str, Any] | None]:
        if self.metadata is None or self.metadata_checksums is None:
            return itertools.repeat(None, len(self))
        return map(_parse_metadata, self.ids, self.metadata, self.metadata_checksums.tolist())

    def take(self, rows: Integers) -> Segment:
        """Return a segment with the given rows, in that order."""
        states = self.states[:, rows]
        codes = []
        for old, new, values in zip(self.states, states, self.codes, strict=True):
            place = np.cumsum(old != ABSENT) - 1
            codes.append(values[place[rows[new != ABSENT]]])
        metadata, checksums = self.metadata, self.metadata_checksums
        if metadata is not None and checksums is not None:
            metadata, checksums = metadata.take(rows), checksums[rows]
        ids = self.ids.take(rows)
        return Segment(ids, HashTable.of(ids), states, tuple(codes), metadata, checksums)

    @classmethod
    def concatenate(cls, segments: Sequence[Segment]) -> Segment:
        """Return one segment with the items of several, whose ids are distinct."""
        if len(segments) == 1:
            return segments[0]
        ids = Strings.concatenate(segment.ids for segment in segments)
        states = np.concatenate([segment.states for segment in segments], axis=1)
        codes = tuple(np.concatenate(columns) for columns in zip(*(segment.codes for segment in segments), strict=True))
        if all(segment.metadata is None for segment in segments):
            return cls(ids, HashTable.of(ids), states, codes, None, None)
        filled = [segment._filled_metadata() for segment in segments]
        metadata = Strings.concatenate(texts for texts, _ in filled)
        checksums = np.concatenate([checksums for _, checksums in filled])
        return cls(ids, HashTable.of(ids), states, codes, metadata, checksums)

    def _filled_metadata(self) -> tuple[Strings, npt.NDArray[np.uint32]]:
        if self.metadata is not None and self.metadata_checksums is not None:
            return self.metadata, self.metadata_checksums
        checksums = (metadata_checksum(identifier, b"") for identifier in self.ids)
        empty = Strings(np.zeros(len(self) + 1, np.int64), np.empty(0, np.uint8))
        return empty, np.fromiter(checksums, np.uint32, len(self))

    def find(self, ids: Strings) -> Integers:
        """Return the row of each id, or -1."""
        return self.table.find(self.ids, ids)


def metadata_checksum(identifier: bytes, text: bytes) -> int:
    """Return the checksum of the metadata of an item, which includes the id."""
    return zlib.crc32(text, zlib.crc32(identifier))


def _parse_metadata(identifier: bytes, text: bytes, checksum: int) -> dict[str, Any] | None:
    try:
        if metadata_checksum(identifier, text) == checksum:
            return json.loads(text.decode()) if text else None
    except (ValueError, RecursionError):
        pass
    raise StorageError(f"the metadata of {identifier.decode()!r} are damaged")
