"""Filters: which items may be found, by what their metadata say. One small language, with one meaning everywhere.

An item has *values* under a name: what its metadata have there or, if they have nothing of that name, what its table
had (``metadata["columns"]``). A value is a text, a number, true or false; a list has several, and null, an empty list
and a name that is not there are no value. Conditions ask whether some value is as they say, so that each holds of an
item or does not, and "not" is what it is in logic:

==========================  ================================================================
``{"brand": "x"}``          some value is "x"
``{"brand": ["x", "y"]}``   some value is one of these
``{"price": {"<": 20}}``    some value is less; also ``<=``, ``>``, ``>=``, ``=``, ``in``
``{"brand": {"!=": "x"}}``  no value is "x"; also ``not in``
``{"brand": None}``         there is no value; ``{"!=": None}``: there is one
``{"a": 1, "b": 2}``        both; so too several operators of one name
``{"or": [..., ...]}``      one of these filters holds; also ``and``, and ``{"not": ...}``
==========================  ================================================================

Types differ: 3 is 3.0, and is not "3"; 1 is not true. Numbers are compared as 64-bit floats, texts by their code
points, and a text is neither less nor more than a number. What is nested deeper, a text of more than 1,000 characters
or with a NUL in it, and a number beyond all floats are no values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dlfh._validation import shown
from dlfh.errors import InputError

__all__ = [
    "MOST_CHARACTERS",
    "And",
    "Condition",
    "Not",
    "Or",
    "Value",
    "Where",
    "all_values",
    "names_of",
    "parse_where",
    "values_of",
]

Value = str | float | bool
Operator = Literal["in", "<", "<=", ">", ">=", "none"]

#: Longer texts are to be read, not to filter by.
MOST_CHARACTERS = 1_000
#: How deep and how large a filter may be: those of people are not.
_MOST_LEVELS, _MOST_VALUES = 16, 10_000
#: Where metadata keep what a table had of an item.
_COLUMNS = "columns"


@dataclass(frozen=True)
class Condition:
    """Some value under a name is one of several ("in"), or in an order with one; or there is no value ("none").

    Examples
    --------
    >>> parse_where({"price": {"<": 20}})
    Condition(name='price', operator='<', values=(20.0,))
    """

    name: str
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Not:
    """A filter does not hold."""

    part: Where


@dataclass(frozen=True)
class And:
    """All of some filters hold."""

    parts: tuple[Where, ...]


@dataclass(frozen=True)
class Or:
    """One of some filters holds."""

    parts: tuple[Where, ...]


Where = Condition | Not | And | Or


def parse_where(where: Any) -> Where:
    """Return a filter, checked, in as few kinds of parts as can be.

    Examples
    --------
    >>> parse_where({"brand": {"!=": "x"}})
    Not(part=Condition(name='brand', operator='in', values=('x',)))
    """
    return _parsed(where, 0)


def names_of(where: Where) -> frozenset[str]:
    """Return the names that a filter asks for.

    Examples
    --------
    >>> sorted(names_of(parse_where({"or": [{"a": 1}, {"not": {"b": 2}}]})))
    ['a', 'b']
    """
    if isinstance(where, Condition):
        return frozenset([where.name])
    parts = (where.part,) if isinstance(where, Not) else where.parts
    return frozenset().union(*map(names_of, parts))


def values_of(metadata: Mapping[str, Any] | None, name: str) -> list[Value]:
    """Return the values that an item has under a name.

    Examples
    --------
    >>> values_of({"labels": ["a", None], "columns": {"price": 3}}, "labels")
    ['a']
    >>> values_of({"labels": ["a", None], "columns": {"price": 3}}, "price")
    [3.0]
    """
    if not metadata:
        return []
    if name in metadata:
        own = metadata[name]
    else:
        columns = metadata.get(_COLUMNS)
        own = columns.get(name) if isinstance(columns, Mapping) else None
    several = own if isinstance(own, list) else (own,)
    return [value for value in map(_as_value, several) if value is not None]


def all_values(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, list[Value]]]:
    """Yield the names under which an item has values, and these.

    Examples
    --------
    >>> dict(all_values({"labels": ["a"], "columns": {"price": 3, "size": None}}))
    {'labels': ['a'], 'price': [3.0]}
    """
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
        return value if len(value) <= MOST_CHARACTERS and "\0" not in value else None
    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


def _parsed(where: Any, level: int) -> Where:
    if not isinstance(where, Mapping) or level > _MOST_LEVELS:
        deep = f"at most {_MOST_LEVELS} deep " if level > _MOST_LEVELS else ""
        raise InputError(f'a filter must be a dict {deep}such as {{"price": {{"<": 20}}}}, got {shown(where)}')
    parts: list[Where] = []
    for name, wanted in where.items():
        if not isinstance(name, str):
            raise InputError(f"a filter has names of values, got {shown(name)}")
        if name == "not":
            parts.append(Not(_parsed(wanted, level + 1)))
        elif name in ("and", "or"):
            if not isinstance(wanted, (list, tuple)):
                raise InputError(f"{name!r} in a filter takes a list of filters, got {shown(wanted)}")
            kind = And if name == "and" else Or
            parts.append(kind(tuple(_parsed(part, level + 1) for part in wanted)))
        elif isinstance(wanted, Mapping):
            parts += [_condition(name, operator, own) for operator, own in wanted.items()]
        else:
            parts.append(_one_of(name, wanted if isinstance(wanted, (list, tuple)) else (wanted,)))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _condition(name: str, operator: Any, wanted: Any) -> Where:
    if operator not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise InputError(f"a filter of {name!r} has one of the operators {known}, got {shown(operator)}")
    several = isinstance(wanted, (list, tuple))
    if several != (operator in ("in", "not in")):
        what = "one value" if several else "a list of values"
        raise InputError(f"{operator!r} in the filter of {name!r} takes {what}, got {shown(wanted)}")
    return _OPERATORS[operator](name, wanted if several else (wanted,))


def _one_of(name: str, wanted: Any) -> Where:
    if len(wanted) > _MOST_VALUES:
        raise InputError(f"a filter of {name!r} names at most {_MOST_VALUES:,} values, got {len(wanted):,}")
    values = tuple(_checked(name, value) for value in wanted if value is not None)
    some = Condition(name, "in", values)
    if not any(value is None for value in wanted):
        return some
    none = Condition(name, "none")
    return Or((none, some)) if values else none


def _no_one_of(name: str, wanted: Any) -> Where:
    return Not(_one_of(name, wanted))


def _ordered(operator: Operator) -> Callable[[str, Any], Where]:
    def condition(name: str, wanted: Any) -> Where:
        value = _checked(name, wanted[0])
        if isinstance(value, bool):
            raise InputError(f"{operator!r} in the filter of {name!r} takes a number or a text, got {value}")
        return Condition(name, operator, (value,))

    return condition


def _checked(name: str, value: Any) -> Value:
    own = _as_value(value)
    if own is None or (isinstance(own, str) and _has_half_characters(own)):
        raise InputError(
            f"a filter of {name!r} takes texts (of at most {MOST_CHARACTERS:,} characters, none of them NUL), "
            f"finite numbers, true, false and null, got {shown(value)}"
        )
    return own


def _has_half_characters(text: str) -> bool:
    """Return whether a text has halves of surrogate pairs, which no stored text has."""
    return any("\ud800" <= character <= "\udfff" for character in text)


_OPERATORS: dict[str, Callable[[str, Any], Where]] = {
    "=": _one_of,
    "!=": _no_one_of,
    "<": _ordered("<"),
    "<=": _ordered("<="),
    ">": _ordered(">"),
    ">=": _ordered(">="),
    "in": _one_of,
    "not in": _no_one_of,
}
