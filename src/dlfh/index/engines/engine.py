"""What an index is to those who use one: a small protocol, and what all engines have in common.

The local `Index` fulfils it, and so does each engine: one class a database, which says how to write rows, find and read
them there. What is checked, counted and returned is the same everywhere.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_choice, check_integer
from dlfh.codes import as_words, n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index import nearest as nearest
from dlfh.index.batch import MOST_BITS, as_codes, check_ids, check_queries, check_schema, make_segment
from dlfh.index.engines.address import Address
from dlfh.index.hits import Hits
from dlfh.index.items import Item
from dlfh.index.segment import ABSENT, LEARNED, STATES, Segment
from dlfh.index.where import Where, all_values, parse_where

__all__ = ["Engine", "Found", "ItemIndex", "Row", "Stored", "rows_of"]

Codes = npt.NDArray[np.uint8]

#: How far a shortlist reaches beyond what is wanted, where the best of it are ranked here.
_LEAST_SHORTLIST, _SHORTLIST_TIMES = 200, 5
#: How many items an engine is asked of at a time, at least, where the first that fulfil a filter are wanted.
_LEAST_FILTERED = 5_000


class ItemIndex(Protocol):
    """An index of items, wherever they are: `Index` in memory or in a folder, or an engine."""

    n_bits: int
    modalities: tuple[str, ...]

    @property
    def identity(self) -> str | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def writable(self) -> bool: ...
    @property
    def closed(self) -> bool: ...

    def add(self, ids: Sequence[str], codes: dict[str, Codes], **options: Any) -> None: ...
    def put(self, ids: Sequence[str], codes: dict[str, Codes], **options: Any) -> None: ...
    def remove(self, ids: Sequence[str]) -> None: ...
    def get(self, identifier: str) -> Item: ...
    def items(self, positions: Sequence[int] | None = None) -> Iterator[Item]: ...
    def ids(self) -> list[str]: ...
    def contains(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]: ...
    def search(self, modality: str, queries: npt.NDArray[Any], k: int = 10, **options: Any) -> Hits: ...
    def search_radius(self, modality: str, queries: npt.NDArray[Any], radius: int, **options: Any) -> list[Hits]: ...
    def count(self, modality: str, state: str | None = None) -> int: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, identifier: object) -> bool: ...


class Row(NamedTuple):
    """An item to be written: its metadata as JSON, empty if it has none; of each modality its state, and its code."""

    id: str
    metadata: str
    states: tuple[int, ...]
    codes: tuple[bytes | None, ...]

    def fields(self) -> dict[str, list[str | float | bool]]:
        """Return what it can be filtered by."""
        return dict(all_values(json.loads(self.metadata) if self.metadata else None))


class Stored(NamedTuple):
    """An item as it was read: its number grows in the order in which items were added."""

    number: int
    id: str
    metadata: str
    states: tuple[int, ...]
    codes: tuple[bytes | None, ...]


class Found(NamedTuple):
    """What a search in an engine finds, the nearest first."""

    number: int
    id: str
    distance: int
    state: int


def rows_of(segment: Segment) -> Iterator[Row]:
    """Yield checked items, one by one."""
    n = len(segment)
    codes: list[list[bytes | None]] = []
    for states, values in zip(segment.states, segment.codes, strict=True):
        own = iter(values)
        codes.append([next(own).tobytes() if state != ABSENT else None for state in states.tolist()])
    texts = iter(segment.metadata) if segment.metadata is not None else iter([b""] * n)
    for row, (identifier, text) in enumerate(zip(segment.ids, texts, strict=True)):
        states = tuple(segment.states[:, row].tolist())
        yield Row(identifier.decode(), text.decode(), states, tuple(column[row] for column in codes))


class _Names(dict[int, str]):
    """The ids of items by their numbers, as `Hits` asks for them."""

    def ids_at(self, positions: npt.ArrayLike) -> list[str]:
        return [self[number] for number in np.asarray(positions).tolist()]


class Engine(ABC):
    """Items in a database. Parameters of its methods are those of `Index`.

    Positions, in what a search finds, are the numbers of items, which grow in the order in which they were added.
    """

    n_bits: int
    modalities: tuple[str, ...]
    #: Where the items are, without any secret.
    address: str

    # What each engine says

    @classmethod
    @abstractmethod
    def create(cls, address: Address, n_bits: int, modalities: Sequence[str]) -> Self:
        """Make an empty index, where there is none of this name."""

    @classmethod
    @abstractmethod
    def open(cls, address: Address) -> Self:
        """Open an index that is there."""

    @abstractmethod
    def _write(self, rows: list[Row], *, replace: bool) -> None:
        """Write items, all or none; replace those that are there, or raise `taken` for one."""

    @abstractmethod
    def _delete(self, ids: list[str]) -> None:
        """Delete items, all or, if one is not there (`unknown`), none."""

    @abstractmethod
    def _nearest(self, code: bytes, column: int, limit: int | None, radius: int | None, scope: Scope) -> list[Found]:
        """Return the nearest items by Hamming distance, ties by number: so many, or all within a radius."""

    @abstractmethod
    def _passing(self, numbers: list[int], where: Where) -> set[int]:
        """Return those of some numbers whose items are there and fulfil a filter."""

    @abstractmethod
    def _read(self, numbers: list[int] | None) -> Iterator[Stored]:
        """Yield items by their numbers, in any order, or all in the order of their numbers."""

    @abstractmethod
    def _numbers(self, ids: list[str]) -> dict[str, int]:
        """Return the numbers of those of some ids that are there."""

    @abstractmethod
    def _count(self, column: int | None, states: tuple[int, ...]) -> int:
        """Return how many items have one of some states in a modality, or all items."""

    @abstractmethod
    def drop(self) -> None:
        """Delete it, with all items, and close it."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells it from all others, from the day it was made."""

    @property
    @abstractmethod
    def state(self) -> str:
        """What tells the items that are there now from all others that there were or will be."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it was closed."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    # What is the same for all

    @property
    def writable(self) -> bool:
        """Whether items may be changed; the engine's own rights may say otherwise."""
        return not self.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, ids: Sequence[str], codes: dict[str, Codes], **options: Any) -> None:
        """Add items at the end: all, or none if anything is wrong with one."""
        self._put(ids, codes, options, replace=False)

    def put(self, ids: Sequence[str], codes: dict[str, Codes], **options: Any) -> None:
        """Add items, or replace those that are there, in one step; they go last."""
        self._put(ids, codes, options, replace=True)

    def _put(self, ids: Sequence[str], codes: dict[str, Codes], options: dict[str, Any], *, replace: bool) -> None:
        defaults: dict[str, Any] = {"learned": False, "metadata": None, "present": None}
        unknown = options.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"unexpected argument {min(unknown)!r}")
        given = defaults | options
        segment = make_segment(
            ids, codes, given["learned"], given["metadata"], given["present"], self.n_bits, self.modalities
        )
        self._check_open()
        if len(segment):
            self._write(list(rows_of(segment)), replace=replace)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all, or none if one is not there."""
        names = [name.decode() for name in check_ids(ids)]
        self._check_open()
        if names:
            self._delete([*dict.fromkeys(names)])

    def search(
        self,
        modality: str,
        queries: npt.NDArray[Any],
        k: int = 10,
        *,
        ranking: str = "hamming",
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        shortlist: int | None = None,
        n_jobs: int | None = None,
    ) -> Hits:
        """Find the ``k`` nearest items to each query by their codes in a modality.

        As `Index.search`, except that asymmetric ranking always ranks a shortlist, by default of ``max(5 * k, 200)``
        items: databases search by Hamming distance only.
        """
        k = check_integer(k, "k", 1)
        check_choice(ranking, "ranking", ("hamming", "asymmetric"))
        least = max(_SHORTLIST_TIMES * k, _LEAST_SHORTLIST)
        length = least if shortlist is None else check_integer(shortlist, "shortlist", k)
        asked = check_queries(queries, self.n_bits)
        if ranking == "asymmetric" and asked.dtype == np.uint8:
            raise InputError(f"ranking {ranking!r} needs queries as projections (float), got packed codes")
        column, scope = self._column(modality), self._scope(ids, where)
        limit = k if ranking == "hamming" else length
        found = [self._find(code, column, limit, None, scope) for code in as_codes(asked)]
        if ranking == "asymmetric":
            return self._reranked(asked, column, found, k)
        return _hits(found)

    def search_radius(
        self,
        modality: str,
        queries: npt.NDArray[Any],
        radius: int,
        *,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> list[Hits]:
        """Find all items within a Hamming distance of each query; one `Hits` of one row per query."""
        radius = min(check_integer(radius, "radius", 0), self.n_bits)
        codes = as_codes(check_queries(queries, self.n_bits))
        column, scope = self._column(modality), self._scope(ids, where)
        return [_hits([self._find(code, column, None, radius, scope)]) for code in codes]

    def _find(self, code: Codes, column: int, limit: int | None, radius: int | None, scope: Scope) -> list[Found]:
        return [] if scope.numbers == [] else self._nearest(code.tobytes(), column, limit, radius, scope)

    def _reranked(self, asked: npt.NDArray[Any], column: int, found: list[list[Found]], k: int) -> Hits:
        numbers = sorted({hit.number for own in found for hit in own})
        codes = {row.number: row.codes[column] or b"" for row in self._read(numbers)}
        distances, best = [], []
        for query, own in zip(asked, found, strict=True):
            # One that another writer removed between the two questions is no longer there to be found.
            left = sorted((hit for hit in own if hit.number in codes), key=lambda hit: hit.number)
            packed = np.frombuffer(b"".join(codes[hit.number] for hit in left), np.uint8)
            words = as_words(packed.reshape(len(left), n_bytes(self.n_bits)))
            apart, rows = nearest.nearest_by_weight(query[None], words, k, 1)
            distances.append(apart[0])
            best.append([left[row] for row in rows[0].tolist()])
        return _hits(best, distances)

    def get(self, identifier: str) -> Item:
        """Return an item by its id."""
        (name,) = (name.decode() for name in check_ids([identifier]))
        self._check_open()
        number = self._numbers([name]).get(name)
        for row in [] if number is None else self._read([number]):
            return self._item(row)
        raise unknown(name)

    def items(self, positions: Sequence[int] | None = None) -> Iterator[Item]:
        """Yield items by their numbers (`Hits.positions`), or all in the order in which they were added."""
        self._check_open()
        if positions is None:
            yield from map(self._item, self._read(None))
            return
        wanted = [int(number) for number in positions]
        rows = {row.number: row for row in self._read(wanted)} if wanted else {}
        missing = [number for number in wanted if number not in rows]
        if missing:
            raise InputError(f"positions must be numbers of items that are there, got {missing[0]}")
        yield from (self._item(rows[number]) for number in wanted)

    def items_at(self, numbers: Sequence[int]) -> list[tuple[int, Item]]:
        """Return those of some items, by their numbers, that are still there."""
        self._check_open()
        return [(row.number, self._item(row)) for row in self._read(list(numbers))] if len(numbers) else []

    def first_of(
        self,
        numbers: Sequence[int],
        n: int,
        *,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Return the first so many of some numbers, in their order, among those that ``ids`` and ``where`` leave."""
        scope = self._scope(ids, where)
        if scope.numbers is not None:
            known = {*scope.numbers}
            numbers = [number for number in numbers if number in known]
        if scope.where is None:
            return [*numbers[:n]]
        found: list[int] = []
        for some in batches(numbers, max(n, _LEAST_FILTERED)):
            passing = self._passing([*some], scope.where)
            found += [number for number in some if number in passing]
            if len(found) >= n:
                break
        return found[:n]

    def places(self) -> npt.NDArray[np.int64]:
        """Return the numbers of all items, in the order in which they were added."""
        self._check_open()
        return np.array([row.number for row in self._read(None)], np.int64)

    def states(self, modality: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return, in the order of items, which have a code in a modality, and of which it is learned."""
        column = self._column(modality)
        states = np.array([row.states[column] for row in self._read(None)], np.int64)
        return states != ABSENT, states == LEARNED

    def verify(self) -> None:
        """Read every item; whether bytes are as they were written, an engine knows."""
        for _ in self.items():
            pass

    def ids(self) -> list[str]:
        """Return all ids, in the order in which items were added."""
        return [item.id for item in self.items()]

    def contains(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of many ids are there."""
        names = [name.decode() for name in check_ids(ids)]
        self._check_open()
        known = self._numbers(names) if names else {}
        return np.array([name in known for name in names], bool)

    def __contains__(self, identifier: object) -> bool:
        try:
            return bool(self.contains([identifier])[0])  # type: ignore[list-item]
        except InputError:  # what cannot be an id is not there
            return False

    def count(self, modality: str, state: str | None = None) -> int:
        """Return how many items have a code in a modality, or are in a state there."""
        column = self._column(modality)
        states = tuple(number for number in range(len(STATES)) if number != ABSENT)
        if state is not None:
            states = (STATES.index(check_choice(state, "state", STATES)),)
        return self._count(column, states)

    def __len__(self) -> int:
        self._check_open()
        return self._count(None, ())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address}, {self.n_bits} bits, {', '.join(self.modalities)})"

    # Inside

    def _set_schema(self, n_bits: int, modalities: Any) -> None:
        self.n_bits = check_integer(n_bits, "n_bits", 1, MOST_BITS)
        self.modalities = check_schema(modalities)

    def _check_open(self) -> None:
        if self.closed:
            raise StorageError("the index is closed")

    def _column(self, modality: str) -> int:
        self._check_open()
        if modality not in self.modalities:
            raise InputError(f"the index has the modalities {list(self.modalities)}, got {modality!r}")
        return self.modalities.index(modality)

    def _scope(self, ids: Sequence[str] | None, where: Mapping[str, Any] | None) -> Scope:
        numbers = None
        if ids is not None:
            names = [name.decode() for name in check_ids(ids)]
            known = self._numbers(names) if names else {}
            for name in names:
                if name not in known:
                    raise unknown(name)
            numbers = sorted(known.values())
        return Scope(numbers, None if where is None else parse_where(where))

    def _item(self, row: Stored) -> Item:
        present = zip(self.modalities, row.codes, strict=True)
        return Item(
            row.id,
            json.loads(row.metadata) if row.metadata else None,
            {name: np.frombuffer(code, np.uint8).copy() for name, code in present if code is not None},
            {name: STATES[state] for name, state in zip(self.modalities, row.states, strict=True)},
        )


class Scope(NamedTuple):
    """Which items may be found: those with some numbers, and those of which a filter holds."""

    numbers: list[int] | None = None
    where: Where | None = None


def taken(name: str) -> InputError:
    return InputError(f"id {name!r} is already in the index: use put")


def unknown(name: str) -> InputError:
    return InputError(f"id {name!r} is not in the index")


def batches(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield values in batches."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _hits(found: list[list[Found]], distances: list[npt.NDArray[Any]] | None = None) -> Hits:
    """Return what was found, as many for each query as the one that found the fewest."""
    width = min(map(len, found), default=0)
    names = _Names((hit.number, hit.id) for own in found for hit in own)
    shape = (len(found), width)
    whole = [[hit.distance for hit in own] for own in found]
    apart = np.array([own[:width] for own in (whole if distances is None else distances)])
    return Hits(
        apart.reshape(shape).astype(np.int32 if distances is None else np.float64),
        np.array([[hit.number for hit in own[:width]] for own in found], np.int64).reshape(shape),
        np.array([[hit.state == LEARNED for hit in own[:width]] for own in found], bool).reshape(shape),
        names,
    )
