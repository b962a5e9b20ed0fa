"""Filters as Milvus expressions, and the fields of an item that they compare.

Ids and texts are written in hexadecimal, which keeps their order and needs no quotes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dlfh.index.engines.engine import Row
from dlfh.index.where import Condition, Group, Not, Value, Where


def to_hex(text: str) -> str:
    """Encode a string as hexadecimal UTF-8."""
    return text.encode().hex()


def from_hex(key: str) -> str:
    """Decode the result of `to_hex`."""
    return bytes.fromhex(key).decode()


def one_of(field: str, values: Sequence[Any]) -> str:
    """Return an expression that is true where a field has one of the values."""
    return f"{field} in {json.dumps(list(values))}"


def fields_of(row: Row) -> dict[str, Any]:
    """Return the fields of an item that filters compare.

    The embedded engine cannot negate conditions, but "!=" is true for missing fields. Every condition that
    may be negated therefore tests a field that is true or missing: one per value, one for having any value, and one for
    having ordered values, whose minimum and maximum are stored as well.
    """
    fields: dict[str, Any] = {}
    for name, values in row.fields().items():
        fields[_field("some", name)] = True
        fields |= {_field("is", name, value): True for value in values}
        for kind in ("amount", "words"):
            comparable = [_comparable(value) for value in values if _kind(value) == kind]
            if comparable:
                field = _field(kind, name)
                fields |= {field: True, f"{field}_least": min(comparable), f"{field}_most": max(comparable)}
    return fields


def _field(kind: str, name: str, value: Value = "") -> str:
    """Return a short field name, of letters and digits only, for a kind, a name and a value."""
    text = repr(value + 0.0) if type(value) is float else repr(value)  # 0.0 equals -0.0
    return kind[0] + hashlib.blake2b(repr((kind, name, text)).encode(), digest_size=12).hexdigest()


def _kind(value: Value) -> str:
    return {str: "words", bool: "truth"}.get(type(value), "amount")


def _comparable(value: Value) -> Any:
    return to_hex(value) if isinstance(value, str) else value


def as_expression(where: Where, holds: bool = True) -> str | bool:
    """Return a filter, or its negation, as an expression; True or False if it matches all items or none."""
    match where:
        case Not(part):
            return as_expression(part, not holds)
        case Group(parts, every):
            return _joined([as_expression(part, holds) for part in parts], every == holds)
        case Condition(name, "none"):
            return _exists(_field("some", name), not holds)
        case Condition(name, "in", values):
            return _joined([_exists(_field("is", name, value), holds) for value in values], not holds)
        case Condition(name, operator, (value, *_)):
            field = _field(_kind(value), name)
            # Some value is below a bound if the minimum is.
            end = f'fields["{field}_{"least" if operator in ("<", "<=") else "most"}"]'
            if holds:
                return f"{end} {operator} {json.dumps(_comparable(value))}"
            opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
            return _joined([f"{end} {opposite} {json.dumps(_comparable(value))}", _exists(field, False)], False)
    raise AssertionError(f"unknown filter {where!r}")


def _exists(field: str, exists: bool) -> str:
    return f'fields["{field}"] {"==" if exists else "!="} true'


def _joined(parts: Sequence[str | bool], conjunction: bool) -> str | bool:
    """Return the conjunction or disjunction of expressions, simplified where parts are constant."""
    if (not conjunction) in parts:
        return not conjunction
    expressions = [f"({part})" for part in parts if isinstance(part, str)]
    return (" and " if conjunction else " or ").join(expressions) if expressions else conjunction
