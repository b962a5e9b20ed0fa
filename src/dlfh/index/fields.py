"""Metadata as columns of values: read once, then filtered as arrays."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh._cancellation import checkpoint
from dlfh.index.where import And, Condition, Not, Or, Value, Where, names_of, values_of


class Fields:
    """The metadata of items by name. A column is read when a filter first uses it.

    read: Returns the metadata of all items, in order.
    """

    def __init__(self, n_items: int, read: Callable[[], Iterable[Mapping[str, Any] | None]]) -> None:
        self._n_items = n_items
        self._read = read
        self._columns: dict[str, dict[type, _Values]] = {}
        self._lock = threading.Lock()

    def mask(self, where: Where) -> Mask:
        """Return a mask of the items that match a filter."""
        with self._lock:
            missing = sorted(names_of(where) - self._columns.keys())
            if missing:
                self._columns |= self._gather(missing)
        return self._mask(where)

    def _gather(self, names: list[str]) -> dict[str, dict[type, _Values]]:
        found: dict[str, dict[type, tuple[list[int], list[Any]]]] = {
            name: {kind: ([], []) for kind in (float, bool, str)} for name in names
        }
        for row, metadata in enumerate(self._read()):
            for name, by_type in found.items():
                for value in values_of(metadata, name):
                    rows, values = by_type[type(value)]
                    rows.append(row)
                    values.append(value)
        return {name: {kind: _Values.of(*pairs) for kind, pairs in by_type.items()} for name, by_type in found.items()}

    def _mask(self, where: Where) -> Mask:
        checkpoint()
        match where:
            case Not(part):
                return ~self._mask(part)
            case And(parts):
                mask = np.ones(self._n_items, bool)
                for part in parts:  # one after the other: 256 masks at once could take all memory
                    mask &= self._mask(part)
                return mask
            case Or(parts):
                mask = np.zeros(self._n_items, bool)
                for part in parts:
                    mask |= self._mask(part)
                return mask
            case Condition(name, operator, values):
                columns = self._columns[name]
                mask = np.full(self._n_items, operator == "none")
                if operator == "none":
                    for column in columns.values():
                        mask[column.rows] = False
                elif operator == "in":
                    for value in values:
                        mask[columns[type(value)].equal(value)] = True
                else:
                    mask[columns[type(values[0])].ordered(operator, values[0])] = True
                return mask


class _Values(NamedTuple):
    """Values of one type: the distinct ones in order, and the rows that have them, grouped by value.

    The rows with ``distinct[i]`` are ``rows[starts[i]:starts[i + 1]]``.
    """

    distinct: list[Any]
    starts: list[int]
    rows: Integers

    @classmethod
    def of(cls, rows: list[int], values: list[Value]) -> _Values:
        distinct = sorted({*values})
        places = {value: place for place, value in enumerate(distinct)}
        groups = np.fromiter(map(places.__getitem__, values), np.int64, len(values))
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(distinct) + 1))
        return cls(distinct, starts.tolist(), np.array(rows, np.int64)[order])

    def equal(self, value: Value) -> Integers:
        """Return the rows with a value."""
        place = bisect_left(self.distinct, value)
        if place == len(self.distinct) or self.distinct[place] != value:
            return self.rows[:0]
        return self.rows[self.starts[place] : self.starts[place + 1]]

    def ordered(self, operator: str, value: Value) -> Integers:
        """Return the rows with a smaller or larger value."""
        place = (bisect_left if operator in ("<", ">=") else bisect_right)(self.distinct, value)
        return self.rows[: self.starts[place]] if operator in ("<", "<=") else self.rows[self.starts[place] :]
