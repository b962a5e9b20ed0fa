"""The part of a backend that all databases share.

Each database has a subclass of `Engine` that writes, finds and reads rows. The position of an item is its number.
Numbers increase in insertion order and never change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from dlfh._arrays import Codes, Integers, Mask
from dlfh._persistence.files import version_problem
from dlfh._validation import shown
from dlfh.codes import as_words, n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index import nearest
from dlfh.index.backend import ApproximateIndex, Backend, Reader, Request, check_layout
from dlfh.index.engines.address import Address
from dlfh.index.items import Hits, Item
from dlfh.index.segment import ABSENT, LEARNED, STATES, Segment
from dlfh.index.where import Where, all_values
from dlfh.index.words import Strings

FORMAT = 1  # version of the table layout
#: Default length of a shortlist: ``_SHORTLIST_FACTOR * k``, but at least ``_MIN_SHORTLIST`` items.
_SHORTLIST_FACTOR, _MIN_SHORTLIST = 5, 200


class Row(NamedTuple):
    """An item in a database."""

    id: str
    metadata: str  # JSON, empty if the item has none
    states: tuple[int, ...]  # by modality
    codes: tuple[bytes | None, ...]  # by modality
    number: int = -1  # assigned when the item is written

    def fields(self) -> dict[str, list[str | float | bool]]:
        return dict(all_values(json.loads(self.metadata) if self.metadata else None))


class Match(NamedTuple):
    """An item that a search found."""

    number: int
    id: str
    distance: float
    state: int


class Engine(Backend, Reader, Protocol):
    """Items in a database."""

    n_bits: int = 0  # 0 until it is read from the database
    modalities: tuple[str, ...] = ()
    _address: Address
    _name: str

    def __init__(self, address: Address) -> None:
        self._address, self._name, self.address = address, address.name, address.shown

    @classmethod
    def create(cls, address: Address, n_bits: int, modalities: tuple[str, ...]) -> Self:
        """Create an empty index; raise `InputError` if the name is taken."""
        engine = cls(address)
        engine.n_bits, engine.modalities = n_bits, modalities
        with engine._closed_on_error():
            engine._create()
        return engine

    @classmethod
    def open(cls, address: Address) -> Self:
        engine = cls(address)
        with engine._closed_on_error():
            about = engine._read_about()
            if about is None:
                raise StorageError(f"there is no index at {engine.address}")
            version, *layout = about
            problem = version_problem(version, FORMAT)
            if problem is not None:
                raise StorageError(f"the index at {engine.address} {problem}")
            try:
                engine.n_bits, engine.modalities = check_layout(*layout)
            except InputError as error:
                raise engine._damaged(str(error)) from None
            engine._check_tables()
        return engine

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    # Each database implements these. Changes take effect completely or not at all.

    def _create(self) -> None: ...
    def _write(self, rows: list[Row], *, replace: bool) -> None: ...
    def _delete(self, ids: list[str]) -> None: ...
    def _numbers(self, ids: list[str]) -> dict[str, int]: ...  # of existing ids
    def _matching(self, numbers: list[int], where: Where) -> set[int]: ...
    def count(self, column: int | None, states: tuple[int, ...]) -> int: ...  # all items if column is None
    # The nearest items by Hamming distance and number: at most ``limit``, or all within ``radius``.
    def _nearest(self, request: Request, code: bytes, limit: int | None, radius: int | None) -> list[Match]: ...
    def _read(self, numbers: list[int] | None) -> Iterator[Row]: ...  # in any order; all rows in order if None
    def _read_about(self) -> tuple[Any, Any, Any] | None: ...  # format, code length, modalities; None without an index
    def _check_tables(self) -> None: ...  # raises `StorageError` if the tables are not as `create` creates them
    def _check(self, row: Row) -> None: ...  # raises `InputError` if the database cannot store a row

    @property
    def writable(self) -> bool:
        return not self.closed

    def reader(self) -> Self:
        self.check_open()
        return self

    def _damaged(self, problem: str) -> StorageError:
        return StorageError(f"the index at {self.address} is damaged: {problem}")

    def _rows(self, numbers: list[int] | None) -> Iterator[Row]:
        """Yield the rows that `_read` yields; raise `StorageError` if one is not valid."""
        for row in self._read(numbers):
            states = all(type(state) is int and 0 <= state < len(STATES) for state in row.states)
            if not states or not isinstance(row.number, int) or not isinstance(row.id, str) or not row.id:
                raise self._damaged(f"item {shown(row.id)} has an invalid number, id or state")
            for state, code in zip(row.states, row.codes, strict=True):
                if (state == ABSENT) != (code is None) or (code is not None and len(code) != n_bytes(self.n_bits)):
                    raise self._damaged(f"item {shown(row.id)} has an invalid code")
            yield row

    def refresh(self) -> bool:
        return False  # every query reads the current content

    def verify(self) -> None:
        for _ in self.items(None):  # checks each row; the database checks its files
            pass

    def compact(self) -> None:
        return  # the database manages its space

    def write(self, segment: Segment, *, replace: bool) -> None:
        rows = list(_rows_of(segment))
        for row in rows:
            self._check(row)
        if rows:
            self._write(rows, replace=replace)

    def remove(self, ids: Strings) -> None:
        names = [*dict.fromkeys(_decoded(ids))]
        if names:
            self._delete(names)

    def nearest(self, request: Request, k: int) -> Hits:
        codes = nearest.as_codes(request.queries)
        if request.queries.dtype == np.uint8:
            return hits_of(self._nearest_each(request, codes, k, None))
        # Databases search by Hamming distance only; projections then rerank a shortlist.
        length = request.shortlist or max(_SHORTLIST_FACTOR * k, _MIN_SHORTLIST)
        return self._reranked(request, self._nearest_each(request, codes, length, None), k)

    def within(self, request: Request, radius: int) -> list[Hits]:
        return [hits_of([matches]) for matches in self._nearest_each(request, request.queries, None, radius)]

    def _nearest_each(self, request: Request, codes: Codes, limit: int | None, radius: int | None) -> list[list[Match]]:
        if request.positions is not None and not len(request.positions):
            return [[] for _ in codes]
        return [self._nearest(request, code.tobytes(), limit, radius) for code in codes]

    def _reranked(self, request: Request, found: list[list[Match]], k: int) -> Hits:
        numbers = sorted({match.number for matches in found for match in matches})
        codes = {row.number: row.codes[request.column] or b"" for row in self._rows(numbers)}
        best = []
        for projection, matches in zip(request.queries, found, strict=True):
            # Another writer may have removed items between the two reads.
            left = sorted((match for match in matches if match.number in codes), key=lambda match: match.number)
            words = as_words(self._matrix([codes[match.number] for match in left]))
            (weighted,), (rows,) = nearest.nearest_by_weight(projection[None], words, k, 1)
            pairs = zip(rows.tolist(), weighted.tolist(), strict=True)
            best.append([left[row]._replace(distance=distance) for row, distance in pairs])
        return hits_of(best, np.float64)

    def _matrix(self, codes: list[bytes]) -> Codes:
        return np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), n_bytes(self.n_bits))

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        raise InputError(f"approximate search needs an index in memory, a folder or PostgreSQL, not {self.address}")

    def find(self, ids: Strings) -> Integers:
        names = _decoded(ids)
        numbers = self._numbers(names) if names else {}
        return np.array([numbers.get(name, -1) for name in names], np.int64)

    def positions(self) -> Integers:
        return np.array([row.number for row in self._rows(None)], np.int64)

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        if positions is None:
            return ((row.number, self._item(row)) for row in self._rows(None))
        numbers = [int(position) for position in positions if position >= 0]
        rows = {row.number: row for row in self._rows(numbers)} if numbers else {}
        return ((number, self._item(rows[number])) for number in numbers if number in rows)

    def ids(self) -> list[str]:
        return [row.id for row in self._rows(None)]

    def states(self, column: int) -> Codes:
        return np.array([row.states[column] for row in self._rows(None)], np.uint8)

    def matches(self, where: Where, positions: Sequence[int] | None) -> Mask:
        numbers = [int(position) for position in (self.positions() if positions is None else positions)]
        matching = self._matching(numbers, where)
        return np.array([number in matching for number in numbers], bool)

    def __len__(self) -> int:
        return self.count(None, ())

    def _item(self, row: Row) -> Item:
        codes = zip(self.modalities, row.codes, strict=True)
        try:
            metadata = json.loads(row.metadata) if row.metadata else None
        except (TypeError, ValueError, RecursionError):
            metadata = False
        if not isinstance(metadata, dict | None):
            raise self._damaged(f"the metadata of item {shown(row.id)} cannot be read")
        present = {name: np.frombuffer(code, np.uint8).copy() for name, code in codes if code is not None}
        states = {name: STATES[state] for name, state in zip(self.modalities, row.states, strict=True)}
        return Item(row.id, metadata, present, states)


def batches(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield values in batches."""
    return (values[start : start + size] for start in range(0, len(values), size))


def hits_of(found: list[list[Match]], dtype: type = np.int32) -> Hits:
    """Return matches as `Hits`; every query keeps only as many as the query with the fewest has."""
    shape = len(found), min(map(len, found), default=0)
    matches = [match for row in found for match in row[: shape[1]]]
    names = {match.number: match.id for match in matches}
    distances: Any = np.array([match.distance for match in matches], dtype).reshape(shape)
    numbers = np.array([match.number for match in matches], np.int64).reshape(shape)
    learned = np.array([match.state == LEARNED for match in matches], bool).reshape(shape)
    return Hits(distances, numbers, learned, lambda positions: [names[number] for number in positions.tolist()])


def _rows_of(segment: Segment) -> Iterator[Row]:
    codes: list[list[bytes | None]] = []
    for states, values in zip(segment.states, segment.codes, strict=True):
        present = iter(values)
        codes.append([next(present).tobytes() if state != ABSENT else None for state in states.tolist()])
    for row, (identifier, text) in enumerate(zip(segment.ids, segment.metadata, strict=True)):
        states = tuple(segment.states[:, row].tolist())
        yield Row(identifier.decode(), text.decode(), states, tuple(column[row] for column in codes))


def _decoded(ids: Strings) -> list[str]:
    return [name.decode() for name in ids]
