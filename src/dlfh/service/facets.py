"""What there is to filter by: the labels of items and the columns of their table, and which values are frequent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dlfh.errors import InputError
from dlfh.index.where import Value, names_of, parse_where, values_of

__all__ = ["Facets", "labels_of"]

#: A column with more values than this tells items apart, and none of them is listed; so many are.
_MOST_VALUES, _MOST_LISTED = 10_000, 200
#: The name of labels among filters, and where metadata have the columns of a table.
_LABELS, _COLUMNS = "labels", "columns"


def labels_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the labels that metadata have.

    Examples
    --------
    >>> labels_of({"labels": ["a", 3]}), labels_of({})
    (['a', '3'], [])
    """
    labels = metadata.get(_LABELS)
    return [str(label) for label in labels] if isinstance(labels, list) else []


class Facets:
    """Which values items have, and how many have each.

    Parameters
    ----------
    all_metadata : iterable of dict or None
        Of each item.

    Examples
    --------
    >>> facets = Facets([{"labels": ["a", "b"], "columns": {"price": 3}}, {"labels": ["b"]}, None])
    >>> facets.values()
    {'labels': [('b', 2), ('a', 1)], 'price': [(3, 1)]}
    """

    def __init__(self, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
        self._counts: dict[str, Counter[tuple[type, Value]]] = {}
        self._names: set[str] = set()
        too_many: set[str] = set()
        for metadata in all_metadata:
            for name in _names(metadata):
                values = values_of(metadata, name)
                self._names.update([name] if values else ())
                if name in too_many or not values:
                    continue
                counts = self._counts.setdefault(name, Counter())
                counts.update({(type(value), value) for value in values})
                if len(counts) > _MOST_VALUES:
                    del self._counts[name]
                    too_many.add(name)

    def check(self, where: Mapping[str, Any]) -> None:
        """Say so if a filter names what no item has a value of."""
        unknown = sorted(names_of(parse_where(where)) - self._names)
        if unknown:
            known = ", ".join(map(repr, sorted(self._names))) or "nothing to filter by"
            raise InputError(f"where names {unknown[0]!r}, and items have {known}")

    @property
    def n_labels(self) -> int:
        """How many different labels items have."""
        return len(self._counts.get(_LABELS, ()))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return what there is to filter by: of each name, its most frequent values and how many items have them."""
        listed = {}
        for name, counts in self._counts.items():
            pairs = [(_shown(value), count) for (_, value), count in counts.items()]
            listed[name] = sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))[:_MOST_LISTED]
        return listed


def _names(metadata: Mapping[str, Any] | None) -> Iterable[str]:
    """Return what may be filtered by of an item: its labels and columns, not its texts."""
    columns = (metadata or {}).get(_COLUMNS)
    labels = [_LABELS] if _LABELS in (metadata or {}) else []
    return dict.fromkeys([*labels, *(columns if isinstance(columns, Mapping) else ())])


def _shown(value: Value) -> Value:
    """Return a number as people write it.

    Examples
    --------
    >>> _shown(3.0), _shown(2.5), _shown(True)
    (3, 2.5, True)
    """
    whole = not isinstance(value, (str, bool)) and value.is_integer() and abs(value) < 1 << 53
    return int(value) if whole else value
