"""Reference filters, one item at a time, written from the documentation."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

NAMES = ("price", "tags", "labels", "é \" ' \\ $.[0] %s", "columns", "")


def holds(where: dict[str, Any], metadata: dict[str, Any] | None) -> bool:
    """Return whether an item matches a filter."""
    return all(_holds(name, wanted, metadata) for name, wanted in where.items())


def _holds(name: str, wanted: Any, metadata: dict[str, Any] | None) -> bool:
    if name == "not":
        return not holds(wanted, metadata)
    if name == "and":
        return all(holds(part, metadata) for part in wanted)
    if name == "or":
        return any(holds(part, metadata) for part in wanted)
    own = [value for value in _values(metadata or {}, name) if _is_value(value)]
    if not isinstance(wanted, dict):
        return _is_one_of(own, wanted if isinstance(wanted, list) else [wanted])
    return all(_compare(own, operator, value) for operator, value in wanted.items())


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


def _compare(own: list[Any], operator: str, value: Any) -> bool:
    if operator in ("in", "="):
        return _is_one_of(own, value if operator == "in" else [value])
    if operator in ("not in", "!="):
        return not _is_one_of(own, value if operator == "not in" else [value])
    alike = [one for one in own if isinstance(one, str) == isinstance(value, str) and not isinstance(one, bool)]
    pairs: list[tuple[Any, Any]] = [
        (one, value) if isinstance(value, str) else (float(one), float(value)) for one in alike
    ]
    return any({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator] for a, b in pairs)


def _is_one_of(own: list[Any], wanted: list[Any]) -> bool:
    return any(not own if value is None else any(_same(one, value) for one in own) for value in wanted)


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
    lambda own, columns: own if columns is None else own | {"columns": columns}, _FIELDS, st.none() | _FIELDS
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
                **dict.fromkeys(("in", "not in"), _SEVERAL),
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
