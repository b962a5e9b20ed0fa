"""Filters as expressions of Milvus: what of an item is kept to be compared, and what is asked of it.

Ids and texts to compare with are written in hexadecimal, which keeps their order and needs no quotes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dlfh.index.engines.engine import Row
from dlfh.index.where import And, Condition, Not, Or, Value, Where

__all__ = ["as_expression", "fields_of", "from_hex", "one_of", "to_hex"]


def to_hex(text: str) -> str:
    """Encode a string as hexadecimal UTF-8."""
    return text.encode().hex()


def from_hex(key: str) -> str:
    """Decode what `to_hex` wrote."""
    return bytes.fromhex(key).decode()


def fields_of(row: Row) -> dict[str, Any]:
    """Return what an item can be filtered by.

    The embedded engine has no "not" but in "!=", which holds where there is nothing. So what may be denied is a name
    that is there or not: one for each value, and for what has values, or values that are in an order, of which the
    least and the greatest are kept.
    """
    fields: dict[str, Any] = {}
    for name, values in row.fields().items():
        fields[_mark("some", name)] = True
        fields |= {_mark("is", name, value): True for value in values}
        for kind in ("amount", "words"):
            own = [_comparable(value) for value in values if _kind(value) == kind]
            if own:
                fields[_mark(kind, name)] = True
                fields |= {_mark(kind, name) + "_least": min(own), _mark(kind, name) + "_most": max(own)}
    return fields


def _mark(what: str, name: str, value: Value = "") -> str:
    """Return the name of what is kept of a name, or of a value: short, of letters and digits, and of nothing else."""
    shown = repr(value + 0.0) if type(value) is float else repr(value)  # 0.0 and -0.0 are one number
    return what[0] + hashlib.blake2b(repr((what, name, shown)).encode(), digest_size=12).hexdigest()


def _kind(value: Value) -> str:
    return {str: "words", bool: "truth"}.get(type(value), "amount")


def _comparable(value: Value) -> Any:
    return to_hex(value) if isinstance(value, str) else value


def one_of(field: str, values: list[Any]) -> str:
    """Return an expression that is true where a field has one of the values."""
    return f"{field} in {json.dumps(values)}"


def as_expression(where: Where, holds: bool = True) -> str | bool:
    """Return a filter, or that it does not hold, as Milvus takes it; or whether it is so of every item, or of none."""
    match where:
        case Not(part):
            return as_expression(part, not holds)
        case And(parts) | Or(parts):
            return _joined([as_expression(part, holds) for part in parts], isinstance(where, And) == holds)
        case Condition(name, "none"):
            return _is_there(_mark("some", name), not holds)
        case Condition(name, "in", wanted):
            return _joined([_is_there(_mark("is", name, value), holds) for value in wanted], not holds)
        case Condition(name, operator, wanted):
            mark = _mark(_kind(wanted[0]), name)
            # That some value is less is that the least one is.
            end = f'fields["{mark}_{"least" if operator in ("<", "<=") else "most"}"]'
            if holds:
                return f"{end} {operator} {json.dumps(_comparable(wanted[0]))}"
            opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
            return _joined([f"{end} {opposite} {json.dumps(_comparable(wanted[0]))}", _is_there(mark, False)], False)


def _is_there(mark: str, there: bool) -> str:
    return f'fields["{mark}"] {"==" if there else "!="} true'


def _joined(parts: Sequence[str | bool], all_of_them: bool) -> str | bool:
    """Return that all of some expressions hold, or one; without those that always do, or never."""
    if (not all_of_them) in parts:
        return not all_of_them
    left = [f"({part})" for part in parts if isinstance(part, str)]
    return (" and " if all_of_them else " or ").join(left) if left else all_of_them
