"""Reference filters, one item at a time, written from the documentation."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

NAMES = ("price", "tags", "labels", "é \" ' \\ $.[0] %s", "columns", "")


def matches(where: dict[str, Any], metadata: dict[str, Any] | None) -> bool:
    """Return whether an item matches a filter."""
    return all(_matches(name, condition, metadata) for name, condition in where.items())


def _matches(name: str, condition: Any, metadata: dict[str, Any] | None) -> bool:
    if name == "not":
        return not matches(condition, metadata)
    if name == "and":
        return all(matches(part, metadata) for part in condition)
    if name == "or":
        return any(matches(part, metadata) for part in condition)
    values = [value for value in _values(metadata or {}, name) if _is_value(value)]
    if not isinstance(condition, dict):
        return _is_one_of(values, condition if isinstance(condition, list) else [condition])
    return all(_compare(values, operator, value) for operator, value in condition.items())


def _values(metadata: dict[str, Any], name: str) -> list[Any]:
    columns = metadata.get("columns")
    value = metadata[name] if name in metadata else columns.get(name) if isinstance(columns, dict) else None
    return value if isinstance(value, list) else [value]


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 1000 and "\0" not in value
    if isinstance(value, (int, float)):
        return abs(value) < 1.7976931348623157e308 and math.isfinite(value)
    return False


def _compare(values: list[Any], operator: str, value: Any) -> bool:
    if operator in ("in", "="):
        return _is_one_of(values, value if operator == "in" else [value])
    if operator == "all":
        return all(_is_one_of(values, [one]) for one in value)
    if operator in ("not in", "!="):
        return not _is_one_of(values, value if operator == "not in" else [value])
    comparable = [one for one in values if isinstance(one, str) == isinstance(value, str) and not isinstance(one, bool)]
    pairs: list[tuple[Any, Any]] = [
        (one, value) if isinstance(value, str) else (float(one), float(value)) for one in comparable
    ]
    return any({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator] for a, b in pairs)


def _is_one_of(values: list[Any], condition: list[Any]) -> bool:
    return any(not values if value is None else any(_same(one, value) for one in values) for value in condition)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other) and one == other
    return float(one) == float(other)


# Few distinct values, so that filters often match; some are awkward.
TEXTS = st.sampled_from(
    ["", "a", "b", "B", "é", "z\U0001f600", "\ue000", "'; DROP TABLE x; --", '"', "%s", "3", "true", "\\", "\n"]
)
NUMBERS = st.sampled_from([0, -0.0, 1, 1.0, 3, 3.0, 2.5, -1, 1e300, 5e-324, 2**53, 2**53 + 1, 10**23, 1e23, 0.1])
VALUES = st.one_of(TEXTS, NUMBERS, st.booleans())
_STORED = st.one_of(VALUES, st.none(), st.sampled_from(["a\0", "a" * 1001, 10**400, {"a": 1}, [3]]))
_FIELDS = st.dictionaries(st.sampled_from(NAMES), _STORED | st.lists(_STORED, max_size=3), max_size=4)

METADATA = st.none() | st.builds(
    lambda values, columns: values if columns is None else values | {"columns": columns}, _FIELDS, st.none() | _FIELDS
)

_SEVERAL = st.lists(st.none() | VALUES, max_size=3)
_CONDITIONS = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(
        st.none() | VALUES,
        _SEVERAL,
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(("=", "!="), st.none() | VALUES),
                **dict.fromkeys(("<", "<=", ">", ">="), TEXTS | NUMBERS),
                **dict.fromkeys(("in", "not in", "all"), _SEVERAL),
            },
        ),
    ),
    max_size=3,
)
FILTERS = st.recursive(
    _CONDITIONS,
    lambda parts: st.one_of(
        st.builds(lambda part: {"not": part}, parts),
        st.builds(lambda name, several: {name: several}, st.sampled_from(["and", "or"]), st.lists(parts, max_size=3)),
    ),
    max_leaves=4,
)
