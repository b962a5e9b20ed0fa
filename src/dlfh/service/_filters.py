"""Filters: which items have a label, or a value in a column of their table."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.errors import InputError

__all__ = ["Filters", "labels_of"]

Mask = npt.NDArray[np.bool_]
Value = str | int | float | bool

#: A column with more values than this tells items apart, and is none to filter by; so many are listed.
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


class Filters:
    """Items by their labels and columns.

    Parameters
    ----------
    all_metadata : iterable of dict or None
        Of each item, in their order.

    Examples
    --------
    >>> filters = Filters([{"labels": ["a", "b"], "columns": {"price": 3}}, {"labels": ["b"]}, None])
    >>> filters.mask({"labels": ["a"]}), filters.mask({"price": [3, 4], "labels": "b"})
    (array([ True, False, False]), array([ True, False, False]))
    >>> filters.values()
    {'labels': [('b', 2), ('a', 1)], 'price': [(3, 1)]}
    """

    def __init__(self, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
        self._places: dict[str, dict[str, array[int]]] = {}
        self._too_many: set[str] = set()
        self._n_items = 0
        for place, metadata in enumerate(all_metadata):
            self._n_items = place + 1
            for label in labels_of(metadata) if metadata else ():
                self._note(_LABELS, label, place)
            columns = metadata.get(_COLUMNS) if metadata else None
            for name, value in columns.items() if isinstance(columns, dict) else ():
                if isinstance(value, (str, int, float)) and name != _LABELS:
                    self._note(name, value, place)

    def _note(self, name: str, value: Value, place: int) -> None:
        if name in self._too_many:
            return
        places = self._places.setdefault(name, {})
        own = places.setdefault(_key(value), array("q"))
        if not own or own[-1] != place:
            own.append(place)
        if len(places) > _MOST_VALUES:
            del self._places[name]
            self._too_many.add(name)

    def mask(self, where: Mapping[str, Value | list[Value]]) -> Mask:
        """Return which items have all that is asked for: of each name, the value or one of the values."""
        chosen = np.ones(self._n_items, bool)
        for name, values in where.items():
            if name in self._too_many:
                raise InputError(f"where cannot filter by {name!r}: it has more than {_MOST_VALUES:,} values")
            if name not in self._places:
                known = ", ".join(map(repr, self._places)) or "nothing to filter by"
                raise InputError(f"where names {name!r}, and items have {known}")
            own = np.zeros(self._n_items, bool)
            for value in values if isinstance(values, list) else [values]:
                own[np.asarray(self._places[name].get(_key(value), ()), np.int64)] = True
            chosen &= own
        return chosen

    @property
    def n_labels(self) -> int:
        """How many different labels items have."""
        return len(self._places.get(_LABELS, ()))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return what there is to filter by: of each name, its most frequent values and how many items have them."""
        listed = {}
        for name, places in self._places.items():
            counted = [(json.loads(key), len(own)) for key, own in places.items()]
            listed[name] = sorted(counted, key=lambda pair: (-pair[1], str(pair[0])))[:_MOST_LISTED]
        return listed


def _key(value: Value) -> str:
    """Return a value as what is equal in JSON: 3 and 3.0 are, 3 and "3" are not, nor are 1 and true."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)
