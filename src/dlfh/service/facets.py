"""The labels and columns that a collection can be filtered by, and their most frequent values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dlfh.errors import InputError
from dlfh.index.where import Value, names_of, parse_where, values_of

#: The values of a column with more than ``_MAX_VALUES`` are not listed; of others, at most ``_MAX_LISTED``.
_MAX_VALUES, _MAX_LISTED = 10_000, 200
#: The name of labels in filters, and the key of an item's metadata that holds the columns of its table.
_LABELS, _COLUMNS = "labels", "columns"


class Facets:
    """The values that items can be filtered by, and their frequencies, from the metadata of all items."""

    def __init__(self, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
        self._counts: dict[str, Counter[tuple[type, Value]]] = {}
        self._names: set[str] = set()
        unlisted: set[str] = set()
        for metadata in all_metadata:
            for name in _names(metadata):
                values = values_of(metadata, name)
                self._names.update([name] if values else ())
                if name in unlisted or not values:
                    continue
                counts = self._counts.setdefault(name, Counter())
                counts.update({(type(value), value) for value in values})
                if len(counts) > _MAX_VALUES:
                    del self._counts[name]
                    unlisted.add(name)

    def check(self, where: Mapping[str, Any]) -> None:
        """Raise InputError if a filter names a label or column that no item has."""
        unknown = sorted(names_of(parse_where(where)) - self._names)
        if unknown:
            known = ", ".join(map(repr, sorted(self._names))) or "no labels or columns"
            raise InputError(f"where has the unknown name {unknown[0]!r}: items have {known}")

    @property
    def n_labels(self) -> int:
        """Number of distinct labels."""
        return len(self._counts.get(_LABELS, ()))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return, by name, the most frequent values and the number of items that have each."""
        listed = {}
        for name, counts in self._counts.items():
            pairs = [(_shown(value), count) for (_, value), count in counts.items()]
            listed[name] = sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))[:_MAX_LISTED]
        return listed


def _names(metadata: Mapping[str, Any] | None) -> Iterable[str]:
    """Return the names that an item can be filtered by: its labels and columns, not its texts."""
    columns = (metadata or {}).get(_COLUMNS)
    labels = [_LABELS] if _LABELS in (metadata or {}) else []
    return dict.fromkeys([*labels, *(columns if isinstance(columns, Mapping) else ())])


def _shown(value: Value) -> Value:
    """Return a whole number as int: 3 for 3.0."""
    whole = not isinstance(value, (str, bool)) and value.is_integer() and abs(value) < 1 << 53
    return int(value) if whole else value
