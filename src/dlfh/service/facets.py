"""Labels, columns and titles of all items: what they can be filtered by, and completions of a query.

They are gathered by segments of the index, which never change. After a change, only new segments are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.where import Condition, Group, Not, Value, Where, names_of, parse_where, values_of
from dlfh.service.completing import TitleBlock, fold, has_prefix

#: Columns with more than ``_MAX_VALUES`` values are not listed; others list the ``_MAX_LISTED`` most frequent.
_MAX_VALUES, _MAX_LISTED = 10_000, 200
#: The name of labels in filters, and the key of an item's metadata that holds the columns of its table.
LABELS, _COLUMNS = "labels", "columns"

Key = tuple[type, Value]  # a value and its type, since 1 equals True
Counts = dict[str, Counter[Key] | None]  # frequencies by name; None for a name with too many values
Title = Callable[[str, Mapping[str, Any] | None], str]


class _Rows(NamedTuple):
    """What is known of the rows of a segment, and of those among them that are removed."""

    segment: Any
    counts: Counts
    titles: TitleBlock
    removed: Mask
    removed_counts: Counts


class Facets:
    """The values of all items by name, with their frequencies, and their titles.

    Parameters
    ----------
    index : Index
    title : callable
        Returns the title of an item, given its id and metadata.
    last : Facets, optional
        Of an earlier state of the index, whose unchanged parts are used again.
    """

    def __init__(self, index: Index, title: Title, last: Facets | None = None) -> None:
        known = {} if last is None else {id(rows.segment): rows for rows in last._rows}
        self._positions: list[Integers] = []  # by part, the position of each row, or -1
        self._rows: list[_Rows] = []
        if index.address is None:
            start = 0
            for part in index.snapshot.parts:
                removed = np.zeros(len(part.segment), bool) if part.removed is None else part.removed
                self._rows.append(_rows(part.segment, removed, title, known.get(id(part.segment))))
                self._positions.append(np.where(removed, -1, start + np.cumsum(~removed) - 1))
                start += len(part)
        else:
            items = list(index.items())
            counts, titles = _gather(((item.id, item.metadata) for item in items), title)
            self._rows = [_Rows(None, counts, titles, np.zeros(len(items), bool), {})]
            self._positions = [index.positions()]
        self._counts: Counts = {}
        for name in dict.fromkeys(name for rows in self._rows for name in rows.counts):
            total: Counter[Key] = Counter()
            for rows in self._rows:
                total.update(rows.counts.get(name) or {})
                total.subtract(rows.removed_counts.get(name) or {})
            is_listed = len(total) <= _MAX_VALUES and all(
                rows.counts.get(name, total) is not None for rows in self._rows
            )
            if +total or not is_listed:
                self._counts[name] = +total if is_listed else None
        self._spellings: dict[str, dict[str, list[Value]]] = {}

    def _of(self, name: str) -> Counter[Key]:
        return self._counts.get(name) or Counter()

    def labels(self, prefix: str, n: int) -> list[tuple[str, int]]:
        """Return the most frequent labels in which a word starts with a prefix, and their numbers of items."""
        labels = ((str(value), count) for (_, value), count in most_frequent(self._of(LABELS), _MAX_VALUES))
        return [*islice((pair for pair in labels if has_prefix(pair[0], prefix)), n)]

    def titled(self, prefix: str) -> Iterator[int]:
        """Yield the positions of items whose titles start with a prefix, then of those with another such word."""
        for starts_line in (True, False):
            for rows, positions in zip(self._rows, self._positions, strict=True):
                found = (int(positions[row]) for row in rows.titles.find(prefix, starts_line=starts_line))
                yield from (position for position in found if position >= 0)

    def resolve(self, where: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return a filter with names and values as the items spell them; raise InputError if no item has a name."""
        if where is None:
            return None
        parsed = parse_where(where)
        unknown = sorted(name for name in names_of(parsed) if self._name(name) not in self._counts)
        if unknown:
            known = ", ".join(map(repr, sorted(self._counts))) or "no labels or columns"
            raise InputError(f"unknown name {unknown[0]!r} in where: items have {known}")
        spelled = self._spelled(parsed)
        with suppress(InputError):  # nested too deeply in this form
            parse_where(spelled)
            return spelled
        return dict(where)

    def _spelled(self, where: Where) -> dict[str, Any]:
        match where:
            case Not(part):
                return {"not": self._spelled(part)}
            case Group(parts, every):
                return {"and" if every else "or": [self._spelled(part) for part in parts]}
            case Condition(name, "none"):
                return {self._name(name): None}
            case Condition(name, "in", values):
                name = self._name(name)
                return {name: [spelling for value in values for spelling in self._spellings_of(name, value)]}
            case Condition(name, operator, (value,)):
                return {self._name(name): {operator: value}}
        raise AssertionError(f"unknown filter {where!r}")

    def _name(self, name: str) -> str:
        if name in self._counts:
            return name
        return next((known for known in sorted(self._counts) if fold(known) == fold(name)), name)

    def _spellings_of(self, name: str, value: Value) -> list[Value]:
        """Return a value if an item has it or it is not a string, and otherwise its other spellings."""
        counts = self._of(name)
        if not isinstance(value, str) or (str, value) in counts:
            return [value]
        if name not in self._spellings:
            spellings = self._spellings.setdefault(name, {})
            for kind, known in counts:
                if kind is str:
                    spellings.setdefault(fold(str(known)), []).append(known)
        return self._spellings[name].get(fold(value), [value])

    @property
    def n_labels(self) -> int:
        return len(self._of(LABELS))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return, by name, the most frequent values and the number of items that have each."""
        listed = {name: most_frequent(counts) for name, counts in self._counts.items() if counts is not None}
        return {name: [(shown(key), count) for key, count in pairs] for name, pairs in listed.items()}


def _rows(segment: Any, removed: Mask, title: Title, known: _Rows | None) -> _Rows:
    if known is None:
        pairs = zip((identifier.decode() for identifier in segment.ids), segment.all_metadata(), strict=True)
        known = _Rows(segment, *_gather(pairs, title), np.zeros(len(removed), bool), {})
    if (known.removed & ~removed).any():  # a backup was restored
        known = known._replace(removed=np.zeros(len(removed), bool), removed_counts={})
    counts = {name: counter and counter.copy() for name, counter in known.removed_counts.items()}
    rows = np.flatnonzero(removed & ~known.removed)
    if len(rows):
        names = ("",) * len(segment.codes)  # codes are not needed
        _count(counts, (item.metadata for item in segment.items(rows, names)))
    return known._replace(removed=removed, removed_counts=counts)


def _gather(items: Iterable[tuple[str, Mapping[str, Any] | None]], title: Title) -> tuple[Counts, TitleBlock]:
    counts, titles = Counts(), list[str]()

    def metadata() -> Iterator[Mapping[str, Any] | None]:
        for identifier, values in items:
            titles.append(fold(title(identifier, values)))
            yield values

    _count(counts, metadata())
    return counts, TitleBlock(titles)


def _count(counts: Counts, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
    for metadata in all_metadata:
        for name, values in filter_values(metadata):
            counter = counts.setdefault(name, Counter())
            if counter is not None:
                counter.update({(type(value), value) for value in values})
                if len(counter) > _MAX_VALUES:
                    counts[name] = None


def filter_values(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, list[Value]]]:
    """Yield the names that an item can be filtered by, its labels and columns but not its texts, and their values."""
    columns = (metadata or {}).get(_COLUMNS)
    labels = [LABELS] if LABELS in (metadata or {}) else []
    for name in dict.fromkeys([*labels, *(columns if isinstance(columns, Mapping) else ())]):
        if values := values_of(metadata, name):
            yield name, values


def most_frequent(counts: Counter[Key], n: int = _MAX_LISTED) -> list[tuple[Key, int]]:
    """Return the ``n`` most frequent values, with their types, and their counts."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], str(shown(pair[0]))))[:n]


def shown(key: Key) -> Value:
    """Return a value as JSON shows it, whole numbers as int: 3 for 3.0."""
    _, value = key
    whole = not isinstance(value, (str, bool)) and value.is_integer() and abs(value) < 1 << 53
    return int(value) if whole else value
