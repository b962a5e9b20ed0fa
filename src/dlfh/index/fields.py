"""What items can be filtered by, in columns: read from their metadata once, then compared as arrays."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.index.where import And, Condition, Not, Or, Value, Where, names_of, values_of

__all__ = ["Fields"]

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


class Fields:
    """The values of some items, by name; of each name, read when it is first asked for.

    Parameters
    ----------
    n_items : int
    read : callable
        Yields the metadata of each item, in their order.

    Examples
    --------
    >>> from dlfh.index.where import parse_where
    >>> fields = Fields(3, lambda: [{"price": 3}, {"price": [4, 5]}, None])
    >>> fields.mask(parse_where({"price": {">": 3}}))
    array([False,  True, False])
    >>> fields.mask(parse_where({"not": {"price": 4}}))
    array([ True, False,  True])
    """

    def __init__(self, n_items: int, read: Callable[[], Iterable[Mapping[str, Any] | None]]) -> None:
        self._n_items = n_items
        self._read = read
        self._columns: dict[str, _Column] = {}
        self._lock = threading.Lock()

    def mask(self, where: Where) -> Mask:
        """Return of which items a filter holds."""
        with self._lock:
            missing = sorted(names_of(where) - self._columns.keys())
            if missing:
                self._columns |= self._gather(missing)
            columns = self._columns
        return _mask(where, columns, self._n_items)

    def _gather(self, names: list[str]) -> dict[str, _Column]:
        pairs: dict[str, tuple[list[int], list[Value]]] = {name: ([], []) for name in names}
        for row, metadata in enumerate(self._read()):
            for name, (rows, values) in pairs.items():
                for value in values_of(metadata, name):
                    rows.append(row)
                    values.append(value)
        return {name: _Column.of(*own) for name, own in pairs.items()}


@dataclass(frozen=True)
class _Column:
    """The values under one name, by their type: in which row each is, and what it is.

    Texts are numbers in the order of those that there are, so that they are compared as numbers.
    """

    rows: Rows
    numbers: tuple[Rows, npt.NDArray[np.float64]]
    truths: tuple[Rows, Mask]
    texts: tuple[Rows, npt.NDArray[np.int64]]
    words: list[str]

    @classmethod
    def of(cls, rows: list[int], values: list[Value]) -> _Column:
        by_type: dict[type, tuple[list[int], list[Any]]] = {kind: ([], []) for kind in (float, bool, str)}
        for row, value in zip(rows, values, strict=True):
            own_rows, own = by_type[type(value)]
            own_rows.append(row)
            own.append(value)
        words = sorted({*by_type[str][1]})
        places = {word: place for place, word in enumerate(words)}
        texts = [places[text] for text in by_type[str][1]]
        return cls(
            np.array(rows, np.int64),
            (np.array(by_type[float][0], np.int64), np.array(by_type[float][1], np.float64)),
            (np.array(by_type[bool][0], np.int64), np.array(by_type[bool][1], bool)),
            (np.array(by_type[str][0], np.int64), np.array(texts, np.int64)),
            words,
        )

    def rows_where(self, condition: Condition) -> Rows:
        """Return the rows in which some value is as a condition says."""
        if condition.operator == "in":
            return np.concatenate([self._rows_with(kind, condition.values) for kind in (float, bool, str)])
        (value,) = condition.values
        compare = _COMPARISONS[condition.operator]
        if isinstance(value, str):
            rows, texts = self.texts
            # Between two texts that there are: the first that is not before the value, or that is after it.
            before = bisect_left if condition.operator in ("<", ">=") else bisect_right
            place = before(self.words, value)
            return rows[texts < place if condition.operator in ("<", "<=") else texts >= place]
        rows, numbers = self.numbers
        return rows[compare(numbers, value)]

    def _rows_with(self, kind: type, wanted: tuple[Value, ...]) -> Rows:
        own = [value for value in wanted if type(value) is kind]
        if kind is str:
            places = [bisect_left(self.words, text) for text in own]
            known = [place for place, text in zip(places, own, strict=True) if self.words[place : place + 1] == [text]]
            return self.texts[0][np.isin(self.texts[1], np.array(known, np.int64))]
        rows, values = self.truths if kind is bool else self.numbers
        return rows[np.isin(values, np.array(own, values.dtype))]


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _mask(where: Where, columns: dict[str, _Column], n_items: int) -> Mask:
    match where:
        case Not(part):
            return ~_mask(part, columns, n_items)
        case And(parts):
            return np.logical_and.reduce([np.ones(n_items, bool), *(_mask(part, columns, n_items) for part in parts)])
        case Or(parts):
            return np.logical_or.reduce([np.zeros(n_items, bool), *(_mask(part, columns, n_items) for part in parts)])
        case Condition(name, operator):
            none = operator == "none"
            mask = np.full(n_items, none)
            mask[columns[name].rows if none else columns[name].rows_where(where)] = not none
            return mask
