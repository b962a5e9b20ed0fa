"""The part of a backend that all databases share.

Each database has one subclass of `Engine`, which writes, finds and reads rows. Items are identified by numbers that
increase in the order in which they were added and stay with the item: their positions.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_integer
from dlfh.codes import as_words, n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index import nearest
from dlfh.index.backend import ApproximateIndex, Mode, Scope, check_known
from dlfh.index.batch import MOST_BITS, as_codes, check_schema
from dlfh.index.engines.address import Address
from dlfh.index.hits import Hits
from dlfh.index.items import Item
from dlfh.index.segment import ABSENT, LEARNED, STATES, Segment
from dlfh.index.strings import Strings
from dlfh.index.where import Where, all_values

__all__ = ["Engine", "Match", "Row", "batches", "check_names", "hits_of"]

Codes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

#: Default length of a shortlist: this many times ``k``, and at least this many items.
_SHORTLIST_FACTOR, _MIN_SHORTLIST = 5, 200


class Row(NamedTuple):
    """An item in a database.

    ``metadata`` is JSON, empty if the item has none; ``states`` and ``codes`` have an entry for each modality;
    ``number`` is assigned when the item is written.
    """

    id: str
    metadata: str
    states: tuple[int, ...]
    codes: tuple[bytes | None, ...]
    number: int = -1

    def fields(self) -> dict[str, list[str | float | bool]]:
        """Return the values that filters compare, by name."""
        return dict(all_values(json.loads(self.metadata) if self.metadata else None))


class Match(NamedTuple):
    """An item that a search found."""

    number: int
    id: str
    distance: int
    state: int


class _Ids(dict[int, str]):
    """Ids by number, for `Hits`."""

    def ids_at(self, positions: npt.ArrayLike) -> list[str]:
        return [self[number] for number in np.asarray(positions).tolist()]


class Engine(ABC):
    """Items in a database. Implements `Backend`."""

    n_bits: int
    modalities: tuple[str, ...]
    #: Without passwords.
    address: str
    folder = None

    # Each database implements these.

    @classmethod
    @abstractmethod
    def create(cls, address: Address, n_bits: int, modalities: tuple[str, ...]) -> Self:
        """Create an empty index; raise `InputError` if the name is taken."""

    @classmethod
    @abstractmethod
    def open(cls, address: Address) -> Self:
        """Open an existing index."""

    @property
    @abstractmethod
    def identity(self) -> str: ...

    @property
    @abstractmethod
    def state(self) -> str: ...

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def drop(self) -> None: ...

    @abstractmethod
    def _write(self, rows: list[Row], mode: Mode) -> None:
        """Write rows, all or none, after `check_names`."""

    @abstractmethod
    def _delete(self, ids: list[str]) -> None:
        """Delete items, all or none, after `check_names`."""

    @abstractmethod
    def _nearest(
        self,
        column: int,
        code: bytes,
        limit: int | None,
        radius: int | None,
        numbers: list[int] | None,
        where: Where | None,
    ) -> list[Match]:
        """Return the nearest items by Hamming distance and number: at most ``limit``, or all within ``radius``."""

    @abstractmethod
    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        """Return the numbers of existing items that match a filter."""

    @abstractmethod
    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        """Yield the existing rows with the given numbers in any order, or all rows in order of their numbers."""

    @abstractmethod
    def _numbers(self, ids: list[str]) -> dict[str, int]:
        """Return the numbers of the given ids that exist."""

    @abstractmethod
    def _count(self, column: int | None, states: tuple[int, ...]) -> int:
        """Return the number of items in one of the given states, or of all items if ``column`` is None."""

    # The rest is the same for all.

    @property
    def writable(self) -> bool:
        return not self.closed

    def refresh(self) -> bool:
        return False  # every query reads the current content

    def verify(self) -> None:
        for _ in self.items(None):  # the database checks its own files
            pass

    def compact(self) -> None:
        return  # databases manage their space themselves

    def write(self, segment: Segment, mode: Mode) -> None:
        if len(segment):
            self._write(list(_rows_of(segment)), mode)

    def remove(self, ids: Strings) -> None:
        names = [*dict.fromkeys(_decoded(ids))]
        if names:
            self._delete(names)

    def nearest(self, column: int, codes: Codes, k: int, scope: Scope, n_jobs: int | None) -> Hits:
        return hits_of(self._find_each(column, codes, k, None, scope))

    def nearest_asymmetric(
        self,
        column: int,
        projections: npt.NDArray[Any],
        k: int,
        shortlist: int | None,
        scope: Scope,
        n_jobs: int | None,
    ) -> Hits:
        """Rank a shortlist that the database finds: databases search by Hamming distance only."""
        length = max(_SHORTLIST_FACTOR * k, _MIN_SHORTLIST) if shortlist is None else shortlist
        found = self._find_each(column, as_codes(projections), length, None, scope)
        codes = {row.number: row.codes[column] or b"" for row in self._read(_all_numbers(found))}
        distances, best = [], []
        for projection, matches in zip(projections, found, strict=True):
            # Another writer may have removed items between the two reads.
            left = sorted((match for match in matches if match.number in codes), key=lambda match: match.number)
            packed = np.frombuffer(b"".join(codes[match.number] for match in left), np.uint8)
            words = as_words(packed.reshape(len(left), n_bytes(self.n_bits)))
            weighted, rows = nearest.nearest_by_weight(projection[None], words, k, 1)
            distances.append(weighted[0])
            best.append([left[row] for row in rows[0].tolist()])
        return hits_of(best, distances)

    def within(self, column: int, codes: Codes, radius: int, scope: Scope, n_jobs: int | None) -> list[Hits]:
        return [hits_of([matches]) for matches in self._find_each(column, codes, None, radius, scope)]

    def _find_each(
        self, column: int, codes: Codes, limit: int | None, radius: int | None, scope: Scope
    ) -> list[list[Match]]:
        numbers = None
        if scope.ids is not None:
            positions = self.find(scope.ids)
            check_known(scope.ids, positions >= 0, "update")
            numbers = np.unique(positions).tolist()
            if not numbers:
                return [[] for _ in codes]
        return [self._nearest(column, code.tobytes(), limit, radius, numbers, scope.where) for code in codes]

    def distances(self, column: int, queries: npt.NDArray[Any], positions: Positions | None) -> npt.NDArray[np.float64]:
        codes = {row.number: row.codes[column] for row in self._read(None if positions is None else positions.tolist())}
        stored = [codes.get(number) for number in (codes if positions is None else positions.tolist())]
        packed = b"".join(code or bytes(n_bytes(self.n_bits)) for code in stored)
        matrix = np.frombuffer(packed, np.uint8).reshape(len(stored), n_bytes(self.n_bits))
        distances = nearest.distances_to_all(queries, np.ascontiguousarray(matrix.T))
        distances[:, [code is None for code in stored]] = np.inf
        return distances

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        raise InputError(f"approximate search works in memory, in a folder and in PostgreSQL, not at {self.address}")

    def find(self, ids: Strings) -> Positions:
        names = _decoded(ids)
        numbers = self._numbers(names) if names else {}
        return np.array([numbers.get(name, -1) for name in names], np.int64)

    def get(self, identifier: Strings) -> Item | None:
        (number,) = self.find(identifier).tolist()
        return next((self._item(row) for row in self._read([number])), None) if number >= 0 else None

    def positions(self) -> Positions:
        return np.array([row.number for row in self._read(None)], np.int64)

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        if positions is None:
            yield from ((row.number, self._item(row)) for row in self._read(None))
            return
        wanted = [int(position) for position in positions]
        rows = {row.number: row for row in self._read(wanted)} if wanted else {}
        yield from ((number, self._item(rows[number])) for number in wanted if number in rows)

    def ids(self) -> list[str]:
        return [row.id for row in self._read(None)]

    def codes(self, column: int) -> tuple[list[str], Codes]:
        found = [(row.id, row.codes[column]) for row in self._read(None) if row.codes[column] is not None]
        packed = np.frombuffer(b"".join(code or b"" for _, code in found), np.uint8)
        return [name for name, _ in found], packed.reshape(len(found), n_bytes(self.n_bits))

    def states(self, column: int) -> npt.NDArray[np.uint8]:
        return np.array([row.states[column] for row in self._read(None)], np.uint8)

    def count(self, column: int, states: tuple[int, ...]) -> int:
        return self._count(column, states)

    def matches(self, where: Where, positions: Sequence[int] | None) -> npt.NDArray[np.bool_]:
        numbers = [int(position) for position in (self.positions() if positions is None else positions)]
        matching = self._matching(numbers, where)
        return np.array([number in matching for number in numbers], bool)

    def __len__(self) -> int:
        return self._count(None, ())

    def _set_schema(self, n_bits: int, modalities: Any) -> None:
        self.n_bits = check_integer(n_bits, "n_bits", 1, MOST_BITS)
        self.modalities = check_schema(modalities)

    def _check_open(self) -> None:
        if self.closed:
            raise StorageError("the index is closed")

    def _item(self, row: Row) -> Item:
        codes = zip(self.modalities, row.codes, strict=True)
        return Item(
            row.id,
            json.loads(row.metadata) if row.metadata else None,
            {name: np.frombuffer(code, np.uint8).copy() for name, code in codes if code is not None},
            {name: STATES[state] for name, state in zip(self.modalities, row.states, strict=True)},
        )


def check_names(ids: Sequence[str], known: dict[str, int], mode: Mode) -> None:
    """Raise if an id exists and must be new, or does not exist and must."""
    check_known(ids, np.array([name in known for name in ids], bool), mode)


def batches(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield values in batches."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _rows_of(segment: Segment) -> Iterator[Row]:
    codes: list[list[bytes | None]] = []
    for states, values in zip(segment.states, segment.codes, strict=True):
        present = iter(values)
        codes.append([next(present).tobytes() if state != ABSENT else None for state in states.tolist()])
    texts = iter(segment.metadata) if segment.metadata is not None else iter([b""] * len(segment))
    for row, (identifier, text) in enumerate(zip(segment.ids, texts, strict=True)):
        states = tuple(segment.states[:, row].tolist())
        yield Row(identifier.decode(), text.decode(), states, tuple(column[row] for column in codes))


def _decoded(ids: Strings) -> list[str]:
    return [name.decode() for name in ids]


def _all_numbers(found: list[list[Match]]) -> list[int]:
    return sorted({match.number for matches in found for match in matches})


def hits_of(found: list[list[Match]], distances: list[npt.NDArray[Any]] | None = None) -> Hits:
    """Return matches as `Hits`, for each query as many as the query with the fewest has."""
    width = min(map(len, found), default=0)
    shape = (len(found), width)
    hamming = [[match.distance for match in matches] for matches in found]
    values = np.array([row[:width] for row in (hamming if distances is None else distances)])
    return Hits(
        values.reshape(shape).astype(np.int32 if distances is None else np.float64),
        np.array([[match.number for match in matches[:width]] for matches in found], np.int64).reshape(shape),
        np.array([[match.state == LEARNED for match in matches[:width]] for matches in found], bool).reshape(shape),
        _Ids((match.number, match.id) for matches in found for match in matches),
    )
