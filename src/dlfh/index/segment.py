"""A segment: items that were put in together and never change, as a few arrays."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.errors import StorageError
from dlfh.index.fields import Fields
from dlfh.index.strings import HashTable, Strings

__all__ = ["ABSENT", "HASHED", "LEARNED", "STATES", "Segment"]

RowNumbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

ABSENT, LEARNED, HASHED = 0, 1, 2
#: What an item can have in a modality, by the number that stands for it.
STATES = ("absent", "learned", "hashed")


@dataclass(frozen=True)
class Segment:
    """Items in the order in which they were added.

    ``states[m, i]`` says what item i has in modality m, and ``codes[m]`` holds the codes of the items that
    have one there, in order. Metadata are JSON texts, empty where an item has none, or None where no item
    has any; ``metadata_checks`` are checksums of id and text, so that a single item can be checked alone.
    """

    ids: Strings
    table: HashTable
    states: npt.NDArray[np.uint8]
    codes: tuple[Codes, ...]
    metadata: Strings | None
    metadata_checks: npt.NDArray[np.uint32] | None

    @classmethod
    def of(
        cls, ids: Strings, states: npt.NDArray[np.uint8], codes: tuple[Codes, ...], metadata: Strings | None
    ) -> Segment:
        """Make a segment of items whose ids are distinct."""
        checks = None
        if metadata is not None and len(metadata.blob):
            values = (metadata_check(ids[i], metadata[i]) for i in range(len(ids)))
            checks = np.fromiter(values, np.uint32, len(ids))
        return cls(ids, HashTable.of(ids), states, codes, metadata if checks is not None else None, checks)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def code_rows(self) -> tuple[RowNumbers | None, ...]:
        """The rows that have a code in each modality; None if all have."""
        return tuple(
            None if len(codes) == len(self) else np.flatnonzero(states)
            for states, codes in zip(self.states, self.codes, strict=True)
        )

    @cached_property
    def fields(self) -> Fields:
        """What its items can be filtered by."""
        return Fields(len(self), self._all_metadata)

    def metadata_of(self, row: int) -> dict[str, Any] | None:
        """Return the metadata of an item, checked against their checksum."""
        if self.metadata is None or self.metadata_checks is None:
            return None
        return _read_metadata(self.ids[row], self.metadata[row], int(self.metadata_checks[row]))

    def _all_metadata(self) -> Iterable[dict[str, Any] | None]:
        if self.metadata is None or self.metadata_checks is None:
            return itertools.repeat(None, len(self))
        return map(_read_metadata, self.ids, self.metadata, self.metadata_checks.tolist())

    def take(self, rows: RowNumbers) -> Segment:
        """Return a segment of some rows, in the order given."""
        states = self.states[:, rows]
        codes = []
        for mine, new, values in zip(self.states, states, self.codes, strict=True):
            place = np.cumsum(mine != ABSENT) - 1
            codes.append(values[place[rows[new != ABSENT]]])
        metadata, checks = self.metadata, self.metadata_checks
        if metadata is not None and checks is not None:
            metadata, checks = metadata.take(rows), checks[rows]
        ids = self.ids.take(rows)
        return Segment(ids, HashTable.of(ids), states, tuple(codes), metadata, checks)

    @classmethod
    def concatenate(cls, segments: Sequence[Segment]) -> Segment:
        """Return one segment with the items of several, in order; their ids are distinct."""
        if len(segments) == 1:
            return segments[0]
        ids = Strings.concatenate(segment.ids for segment in segments)
        states = np.concatenate([segment.states for segment in segments], axis=1)
        codes = tuple(np.concatenate(columns) for columns in zip(*(segment.codes for segment in segments), strict=True))
        if all(segment.metadata is None for segment in segments):
            return cls(ids, HashTable.of(ids), states, codes, None, None)
        filled = [segment._with_metadata() for segment in segments]
        metadata = Strings.concatenate(texts for texts, _ in filled)
        return cls(ids, HashTable.of(ids), states, codes, metadata, np.concatenate([checks for _, checks in filled]))

    def _with_metadata(self) -> tuple[Strings, npt.NDArray[np.uint32]]:
        if self.metadata is not None and self.metadata_checks is not None:
            return self.metadata, self.metadata_checks
        checks = np.fromiter((metadata_check(self.ids[i], b"") for i in range(len(self))), np.uint32, len(self))
        return Strings(np.zeros(len(self) + 1, np.int64), np.empty(0, np.uint8)), checks

    def find(self, ids: Strings) -> RowNumbers:
        """Return the row of each id, or -1."""
        return self.table.find(self.ids, ids)


def metadata_check(identifier: bytes, text: bytes) -> int:
    """Return the checksum of an item's metadata, which belongs to its id."""
    return zlib.crc32(text, zlib.crc32(identifier))


def _read_metadata(identifier: bytes, text: bytes, check: int) -> dict[str, Any] | None:
    try:
        if metadata_check(identifier, text) == check:
            return json.loads(text.decode()) if text else None
    except (ValueError, RecursionError):
        pass
    raise StorageError(f"the metadata of {identifier.decode()!r} are damaged")
