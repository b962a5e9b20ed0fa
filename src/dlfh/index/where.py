"""Filters of items by their metadata: a small language with the same meaning in memory and in every database.

An item has *values* under a name, from its metadata or, if the name is missing there, from ``metadata["columns"]``.
A value is a string, a number or a boolean. A list has several values; null, an empty list and a missing name have none.
A condition matches an item if at least one of its values meets it, and "not" matches all other items:

============================  ================================================================
``{"brand": "x"}``            a value is "x"
``{"brand": ["x", "y"]}``     a value is "x" or "y"
``{"price": {"<": 20}}``      a value is less than 20; also ``<=``, ``>``, ``>=``, ``=``, ``in``
``{"tags": {"all": [...]}}``  each of the listed values is among the item's
``{"brand": {"!=": "x"}}``    no value is "x"; also ``not in``
``{"brand": None}``           no value at all; ``{"!=": None}``: at least one
``{"a": 1, "b": 2}``          both conditions; likewise several operators of one name
``{"or": [..., ...]}``        at least one of these filters; also ``and``, and ``{"not": ...}``
============================  ================================================================

Types are distinct: 3 equals 3.0 but not "3", and 1 does not equal true. Numbers are compared as 64-bit floats and
strings by code points; a string is neither less nor greater than a number. Nested objects, strings that have more than
1,000 characters or contain NUL, and numbers beyond the range of floats are not values. A filter has at most 256
conditions, with 10,000 values in total, nested at most 16 deep.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh._parallel import checkpoint
from dlfh._validation import shown
from dlfh.errors import InputError

Value = str | float | bool
Operator = Literal["in", "<", "<=", ">", ">=", "none"]

_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in", "all")

#: Maximum length of strings that filters compare.
MAX_CHARACTERS = 1_000
#: Limits of a filter: nesting depth, conditions, and values of all conditions.
_MAX_DEPTH, _MAX_CONDITIONS, _MAX_VALUES = 16, 256, 10_000
#: Metadata name under which the other columns of a table are stored.
_COLUMNS = "columns"


@dataclass(frozen=True)
class Condition:
    """A condition on the values under a name: one is in ``values``, one is less or greater, or there are none."""

    name: str
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Not:
    """Negation of a filter."""

    part: Where


@dataclass(frozen=True)
class Group:
    """Conjunction (``every``) or disjunction of filters."""

    parts: tuple[Where, ...]
    every: bool


Where = Condition | Not | Group


def parse_where(where: Any) -> Where:
    """Check a filter, and return it in a normal form."""
    return _Parser().parse(where, 0)


def names_of(where: Where) -> frozenset[str]:
    """Return the names that a filter uses."""
    if isinstance(where, Condition):
        return frozenset([where.name])
    parts = (where.part,) if isinstance(where, Not) else where.parts
    return frozenset().union(*map(names_of, parts))


def values_of(metadata: Mapping[str, Any] | None, name: str) -> list[Value]:
    """Return the values that an item has under a name."""
    if not metadata:
        return []
    columns = metadata if name in metadata else metadata.get(_COLUMNS)
    found = columns.get(name) if isinstance(columns, Mapping) else None
    values = found if isinstance(found, list) else (found,)
    return [value for value in map(_as_value, values) if value is not None]


def all_values(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, list[Value]]]:
    """Yield each name in an item's metadata, with its values."""
    columns = (metadata or {}).get(_COLUMNS)
    names = [*(metadata or ()), *(columns if isinstance(columns, Mapping) else ())]
    for name in dict.fromkeys(names):
        values = values_of(metadata, name)
        if values:
            yield name, values


def _as_value(value: Any) -> Value | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARACTERS and "\0" not in value else None
    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


class _Parser:
    """Parses one filter, and counts its conditions and values. An empty filter counts as a condition."""

    _n_conditions = _n_values = 0

    def parse(self, where: Any, depth: int) -> Where:
        if not isinstance(where, Mapping) or depth > _MAX_DEPTH:
            limit = f" nested at most {_MAX_DEPTH} deep" if depth > _MAX_DEPTH else ""
            raise InputError(f'a filter must be a dict{limit} such as {{"price": {{"<": 20}}}}, got {shown(where)}')
        if not where:
            self._count(0)
        parts: list[Where] = []
        for name, value in where.items():
            if not isinstance(name, str) or has_surrogates(name):
                raise InputError(f"names in a filter must be strings of valid Unicode, got {shown(name)}")
            if name == "not":
                parts.append(Not(self.parse(value, depth + 1)))
            elif name in ("and", "or"):
                if not isinstance(value, (list, tuple)):
                    raise InputError(f"{name!r} in a filter takes a list of filters, got {shown(value)}")
                if not value:
                    self._count(0)
                parts.append(Group(tuple(self.parse(part, depth + 1) for part in value), every=name == "and"))
            elif isinstance(value, Mapping):
                parts += [self._condition(name, operator, operand) for operator, operand in value.items()]
            else:
                parts.append(self._condition(name, "in", value if isinstance(value, (list, tuple)) else (value,)))
        return parts[0] if len(parts) == 1 else Group(tuple(parts), every=True)

    def _condition(self, name: str, operator: Any, operand: Any) -> Where:
        if operator not in _OPERATORS:
            known = ", ".join(_OPERATORS)
            raise InputError(f"the filter on {name!r} must have one of the operators {known}, got {shown(operator)}")
        is_list = isinstance(operand, (list, tuple))
        if is_list != (operator in ("in", "not in", "all")):
            expected = "one value" if is_list else "a list of values"
            raise InputError(f"{operator!r} in the filter on {name!r} takes {expected}, got {shown(operand)}")
        operands = operand if is_list else (operand,)
        if operator == "all":
            self._count(0)
            return Group(tuple(self._condition(name, "=", each) for each in operands), every=True)
        self._count(len(operands))
        if operator in ("<", "<=", ">", ">="):
            value = _check(name, operand)
            if isinstance(value, bool):
                raise InputError(f"{operator!r} in the filter on {name!r} takes a number or a string, got {value}")
            return Condition(name, operator, (value,))
        values = tuple(_check(name, value) for value in operands if value is not None)
        none, some = Condition(name, "none"), Condition(name, "in", values)
        found = some if len(values) == len(operands) else Group((none, some), every=False) if values else none
        return Not(found) if operator in ("!=", "not in") else found

    def _count(self, n_values: int) -> None:
        self._n_conditions += 1
        self._n_values += n_values
        if self._n_conditions > _MAX_CONDITIONS:
            raise InputError(f"a filter must have at most {_MAX_CONDITIONS} conditions")
        if self._n_values > _MAX_VALUES:
            raise InputError(f"a filter must have at most {_MAX_VALUES:,} values")


def _check(name: str, value: Any) -> Value:
    checked = _as_value(value)
    if checked is None or (isinstance(checked, str) and has_surrogates(checked)):
        raise InputError(
            f"the filter on {name!r} takes strings (of at most {MAX_CHARACTERS:,} characters, without NUL), "
            f"finite numbers, true, false and null, got {shown(value)}"
        )
    return checked


def has_surrogates(text: str) -> bool:
    """Return whether a string has lone surrogates, which no stored string has."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


class Fields:
    """Metadata values of all items, by name. ``read`` is called when a filter first uses a name."""

    def __init__(self, n_items: int, read: Callable[[], Iterable[Mapping[str, Any] | None]]) -> None:
        self._n_items, self._read = n_items, read
        self._columns: dict[str, dict[type, _Values]] = {}
        self._lock = threading.Lock()

    def mask(self, where: Where) -> Mask:
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
            case Group(parts, every):
                mask = np.full(self._n_items, every)
                combine = np.logical_and if every else np.logical_or
                for part in parts:  # one after the other: 256 masks at once could take all memory
                    combine(mask, self._mask(part), out=mask)
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
        first, last = bisect_left(self.distinct, value), bisect_right(self.distinct, value)
        return self.rows[self.starts[first] : self.starts[last]]

    def ordered(self, operator: str, value: Value) -> Integers:
        place = (bisect_left if operator in ("<", ">=") else bisect_right)(self.distinct, value)
        return self.rows[: self.starts[place]] if operator in ("<", "<=") else self.rows[self.starts[place] :]
