"""A segment: an immutable batch of validated items, as a few arrays."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Codes, Integers, Mask
from dlfh._validation import shown
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.items import Item
from dlfh.index.nearest import as_array, check_packed
from dlfh.index.where import Fields
from dlfh.index.words import Strings, Words

if TYPE_CHECKING:
    from dlfh.index.files import SegmentRecord

Checksums = npt.NDArray[np.uint32]

#: States of an item in a modality, as numbers and as names.
ABSENT, LEARNED, HASHED = 0, 1, 2
STATES = ("absent", "learned", "hashed")

_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_PLAIN = frozenset([str, int, float, bool, NoneType])


@dataclass(frozen=True)
class Segment:
    """Items in the order in which they were added.

    ``states[m, i]`` is the state of item i in modality m, and ``codes[m]`` has the codes of the items that have one, in
    order. ``hashes`` and ``hash_rows`` are the hash table of the ids. ``metadata`` are JSON texts, empty for items
    without metadata. ``checksums`` cover id and text, so that items can be checked one by one; None if no item has
    metadata. ``words`` are the postings of indexed texts; None if the index has no texts.
    """

    ids: Strings
    hashes: npt.NDArray[np.uint64]
    hash_rows: npt.NDArray[np.uint32]
    states: Codes
    codes: tuple[Codes, ...]
    metadata: Strings
    checksums: Checksums | None
    words: Words | None
    _blocks: dict[tuple[int, ...], Codes] = field(default_factory=dict, repr=False, compare=False)
    _seen: dict[tuple[int, ...], Mask] = field(default_factory=dict, repr=False, compare=False)
    _kinds: dict[tuple[tuple[int, ...], bool], Codes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        ids: Strings,
        states: Codes,
        codes: Iterable[Codes],
        metadata: Strings,
        words: Words | None,
        checksums: Checksums | None = None,
    ) -> Segment:
        """Create a segment from items with distinct ids."""
        if not len(metadata.blob):
            metadata, checksums = Strings.empty(len(ids)), None
        elif checksums is None:
            checksums = _checksums(ids, metadata)
        return cls(ids, *ids.hash_table(), states, tuple(codes), metadata, checksums, words)

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
    def code_places(self) -> tuple[Integers | None, ...]:
        """For each modality, the number of codes before each row; None if all rows have one."""
        return tuple(
            rows if rows is None else np.cumsum(self.states[m] != ABSENT) - 1 for m, rows in enumerate(self.code_rows)
        )

    def codes_of(self, columns: Sequence[int], rows: Integers) -> Iterator[tuple[Integers | None, Codes, Integers]]:
        """Yield, by column, the indices of rows whose first code is there (None: all), its codes, and their places."""
        left: Mask | None = None
        for m in columns:
            place = self.code_places[m]
            if place is None and left is None:
                yield None, self.codes[m], rows
                return
            present = self.states[m, rows] != ABSENT
            found = np.flatnonzero(present if left is None else present & left)
            yield found, self.codes[m], rows[found] if place is None else place[rows[found]]
            left = ~present if left is None else left & ~present

    def blocks(self, columns: tuple[int, ...]) -> Codes:
        """Return each row's code in the first of ``columns`` where it has one, in blocks as in `Column.blocks`."""
        if columns not in self._blocks:
            n, width = len(self), self.codes[0].shape[1]
            blocks = np.zeros((-(-n // 32), 32, width), np.uint8)
            for found, codes, places in self.codes_of(columns, np.arange(n)):
                blocks.reshape(-1, width)[:n][slice(None) if found is None else found] = codes[places]
            self._blocks[columns] = np.ascontiguousarray(blocks.transpose(0, 2, 1))
        return self._blocks[columns]

    def seen(self, columns: tuple[int, ...]) -> Mask:
        """Return which values occur in each byte of `blocks`, shape (bytes, 256)."""
        if columns not in self._seen:
            blocks = self.blocks(columns)
            seen = np.zeros((blocks.shape[1], 256), bool)
            for byte in range(len(seen)):
                seen[byte, blocks[:, byte]] = True
            self._seen[columns] = seen
        return self._seen[columns]

    def kinds(self, columns: tuple[int, ...], *, with_learned: bool) -> Codes:
        """Return a bit mask of each row's codes: bit t for the t-th column, and the next bit for a learned code."""
        key = columns, with_learned
        if key not in self._kinds:
            kinds = np.zeros(len(self), np.uint8)
            for t, m in enumerate(columns):
                kinds |= (self.states[m] != ABSENT).astype(np.uint8) << t
                if with_learned:
                    kinds |= (self.states[m] == LEARNED).astype(np.uint8) << len(columns)
            self._kinds[key] = kinds
        return self._kinds[key]

    @cached_property
    def fields(self) -> Fields:
        """The values that filters compare."""
        return Fields(len(self), self.all_metadata)

    def items(self, rows: Integers, modalities: tuple[str, ...]) -> Iterator[Item]:
        """Yield the items in the given rows, after verifying the checksums of their metadata."""
        places = [rows if present is None else np.searchsorted(present, rows) for present in self.code_rows]
        columns = list(zip(modalities, self.codes, (place.tolist() for place in places), strict=True))
        states = self.states[:, rows].T.tolist()
        for i, row in enumerate(rows.tolist()):
            identifier, codes, named, metadata = self.ids[row], {}, {}, None
            for (name, values, place), state in zip(columns, states[i], strict=True):
                named[name] = STATES[state]
                if state != ABSENT:
                    codes[name] = values[place[i]].copy()
            if self.checksums is not None:
                metadata = _parse_metadata(identifier, self.metadata[row], self.checksums.item(row))
            yield Item(identifier.decode(), metadata, codes, named)

    def all_metadata(self) -> Iterable[dict[str, Any] | None]:
        if self.checksums is None:
            return itertools.repeat(None, len(self))
        return map(_parse_metadata, self.ids, self.metadata, self.checksums.tolist())

    def take(self, rows: Integers) -> Segment:
        states = self.states[:, rows]
        codes = []
        for old, new, values in zip(self.states, states, self.codes, strict=True):
            place = np.cumsum(old != ABSENT) - 1
            codes.append(values[place[rows[new != ABSENT]]])
        ids, words = self.ids.take(rows), self.words and self.words.take(rows)
        if self.checksums is None:
            return Segment.of(ids, states, codes, Strings.empty(len(rows)), words)
        return Segment.of(ids, states, codes, self.metadata.take(rows), words, self.checksums[rows])

    @classmethod
    def concatenate(cls, segments: Sequence[Segment]) -> Segment:
        if len(segments) == 1:
            return segments[0]
        checksums = None
        if any(segment.checksums is not None for segment in segments):
            known = ((segment, segment.checksums) for segment in segments)
            checksums = np.concatenate([_checksums(s.ids, s.metadata) if sums is None else sums for s, sums in known])
        return cls.of(
            Strings.concatenate(segment.ids for segment in segments),
            np.concatenate([segment.states for segment in segments], axis=1),
            map(np.concatenate, zip(*(segment.codes for segment in segments), strict=True)),
            Strings.concatenate(segment.metadata for segment in segments),
            Words.concatenate([words for words in (segment.words for segment in segments) if words is not None]),
            checksums,
        )

    def find(self, ids: Strings) -> Integers:
        """Return the row of each id, or -1."""
        found = np.empty(len(ids), np.int64)
        stored = (self.hashes, self.hash_rows, self.ids.offsets, self.ids.blob)
        _kernels.find_strings(*stored, ids.hashes(), ids.offsets, ids.blob, found, 0, len(ids))
        return found


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


def check_ids(ids: Any, *, distinct: bool = False) -> Strings:
    """Return ids as UTF-8; raise `InputError` if one is not valid."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be a list of strings, got {type(ids).__name__}")
    values = [*ids]
    if not {*map(type, values)} <= {str} or not all(values):
        row = next((row for row, value in enumerate(values) if not isinstance(value, str) or not value), None)
    else:
        row = None
    if row is not None:
        raise InputError(f"ids must be non-empty strings, got {shown(values[row])} in row {row}")
    try:
        encoded = [value.encode() for value in values]
    except UnicodeEncodeError as error:
        row = values.index(error.object)
        raise InputError(f"ids must be valid Unicode, got {shown(values[row])} in row {row}") from None
    if distinct:
        check_distinct(encoded)
    return Strings.of(encoded)


def check_distinct(ids: Sequence[str | bytes]) -> None:
    """Raise `InputError` if an id occurs twice."""
    if len(set(ids)) < len(ids):
        seen: dict[str | bytes, int] = {}
        row, value = next((row, value) for row, value in enumerate(ids) if seen.setdefault(value, row) != row)
        name = value if isinstance(value, str) else value.decode()
        raise InputError(f"duplicate id {name!r} in rows {seen[value]} and {row}")


def make_segment(
    n_bits: int,
    modalities: tuple[str, ...],
    ids: Any,
    codes: Any,
    learned: Any = False,
    metadata: Any = None,
    present: Any = None,
    *,
    texts: Sequence[str] = (),
) -> Segment:
    """Check the arguments of `Index.add`, and return them as a segment; ``texts`` names metadata to index."""
    names = check_ids(ids, distinct=True)
    n = len(names)
    if not isinstance(codes, Mapping):
        raise InputError('codes must be a dict such as {"image": codes}, got ' + type(codes).__name__)
    if not isinstance(present, Mapping | None):
        raise InputError('present must be a dict such as {"image": flags}, got ' + type(present).__name__)
    for argument, by_modality in (("codes", codes), ("learned", learned), ("present", present)):
        unknown = [name for name in by_modality if name not in modalities] if isinstance(by_modality, Mapping) else []
        if unknown:
            raise InputError(f"{argument} has modality {unknown[0]!r}, but the index has {list(modalities)}")
    states = np.zeros((len(modalities), n), np.uint8)
    columns = []
    for m, name in enumerate(modalities):
        if name not in codes:
            columns.append(np.empty((0, n_bytes(n_bits)), np.uint8))
            continue
        values = check_packed(codes[name], n_bits, f"codes of modality {name!r}")
        if len(values) != n:
            raise InputError(f"modality {name!r} has {len(values)} codes, but there are {n} ids")
        exists = _flags((present or {}).get(name, True), n, f"present of modality {name!r}")
        flags, argument = learned, "learned"
        if isinstance(learned, Mapping):
            flags, argument = learned.get(name, False), f"learned of modality {name!r}"
        states[m] = np.where(exists, np.where(_flags(flags, n, argument), LEARNED, HASHED), ABSENT)
        columns.append(values[exists])
    without = np.flatnonzero((states == ABSENT).all(axis=0))
    if len(without):
        raise InputError(f"item {names[int(without[0])].decode()!r} has no code in any modality")
    metadata = list(metadata) if isinstance(metadata, Iterator) else metadata
    stored = _metadata(metadata, n)
    given = [value or {} for value in metadata] if len(stored.blob) else [{}] * n
    found = (value.get(name) for value in given for name in texts)
    return Segment.of(names, states, columns, stored, Words.of(found, len(texts)) if texts else None)


def _flags(value: Any, n: int, name: str) -> Mask:
    flags = as_array(value, name)
    if flags.dtype != np.bool_ or flags.shape not in ((), (n,)):
        raise InputError(f"{name} must be True, False or an array of {n} booleans, got {shown(value)}")
    return np.broadcast_to(flags, n)


def _metadata(metadata: Any, n: int) -> Strings:
    if metadata is None:
        return Strings.empty(n)
    if isinstance(metadata, (str, bytes, Mapping)) or not isinstance(metadata, Iterable):
        raise InputError(f"metadata must be a list of dicts or Nones, got {type(metadata).__name__}")
    texts = [_as_json(value, row) for row, value in enumerate(metadata)]
    if len(texts) != n:
        raise InputError(f"metadata has {len(texts)} entries, but there are {n} ids")
    return Strings.of(texts)


def _as_json(value: Any, row: int) -> bytes:
    if value is None:
        return b""
    try:
        given = value if type(value) is dict else dict(value) if isinstance(value, Mapping) else None
        if given is None or not _has_string_keys(given):
            raise TypeError("not a JSON object")
        return _encode_json(given).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"metadata must be dicts of JSON values, got {shown(value)} in row {row}") from None


def _has_string_keys(value: Any) -> bool:
    """Return whether all keys are strings, at every depth: json.dumps converts others, which can create duplicates."""
    if type(value) is dict or isinstance(value, Mapping):
        if not {*map(type, value)} <= {str} and not all(isinstance(key, str) for key in value):
            return False
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return True
    if _PLAIN.issuperset(map(type, value)):  # written for speed, as most values are plain
        return True
    return all(_has_string_keys(each) for each in value if type(each) not in _PLAIN)


def metadata_checksum(identifier: bytes, text: bytes) -> int:
    """Return the checksum of the metadata of an item, which includes the id."""
    return zlib.crc32(text, zlib.crc32(identifier))


def _checksums(ids: Strings, metadata: Strings) -> Checksums:
    return np.fromiter(map(zlib.crc32, metadata, map(zlib.crc32, ids)), np.uint32, len(ids))  # `metadata_checksum`


def _parse_metadata(identifier: bytes, text: bytes, checksum: int) -> dict[str, Any] | None:
    try:
        metadata = json.loads(text.decode()) if text else None
        if metadata_checksum(identifier, text) == checksum and (not text or isinstance(metadata, dict)):
            return metadata
    except (ValueError, RecursionError):
        pass
    raise StorageError(f"the metadata of {identifier.decode()!r} is damaged")
