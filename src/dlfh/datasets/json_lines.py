"""Tables of JSON: an object a line, whose names are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dlfh._limits import DEEPEST, Budget, limit_of
from dlfh.errors import InputError

__all__ = ["parse_lines"]

#: About how much memory an object of Python takes, beside what is in it.
_OBJECT_BYTES = 64


def parse_lines(lines: Iterable[str], budget: Budget) -> tuple[list[tuple[int, dict[str, Any]]], dict[int, str]]:
    r"""Return the objects of lines, by the number of their line, and what is wrong with other lines.

    Examples
    --------
    >>> from pathlib import Path
    >>> objects, wrong = parse_lines(['{"id": 7}\n', '\n', '{"id": \n', '[1]'], Budget.of_file(Path("pyproject.toml")))
    >>> objects, wrong
    ([(1, {'id': 7})], {3: 'it is no JSON: Expecting value', 4: 'it is no object of JSON, such as {"text": "a cat"}'})
    """
    objects: list[tuple[int, dict[str, Any]]] = []
    wrong: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > limit_of("DLFH_MAX_CHARACTERS"):
            raise InputError(
                f"line {number} is longer than {limit_of('DLFH_MAX_CHARACTERS'):,} characters, the most that is read: "
                "set DLFH_MAX_CHARACTERS to allow more"
            )
        try:
            value = json.loads(line, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            wrong[number] = f"it is no JSON: {error.msg}"
            continue
        except (RecursionError, ValueError) as error:  # lists in lists in lists, numbers of thousands of digits
            deep = isinstance(error, RecursionError)
            wrong[number] = "it is no JSON that can be read: " + ("it is too deep" if deep else str(error))
            continue
        if not isinstance(value, dict):
            wrong[number] = 'it is no object of JSON, such as {"text": "a cat"}'
            continue
        budget.take_bytes(_size(value))
        objects.append((number, value))
    return objects, wrong


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _size(value: Any, depth: int = 0) -> int:
    """Return about how much memory a value takes."""
    if isinstance(value, str):
        return _OBJECT_BYTES + len(value)
    if isinstance(value, (dict, list)):
        if depth > DEEPEST:
            raise InputError(f"it has lists in lists, or objects in objects, more than {DEEPEST} deep")
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return _OBJECT_BYTES + sum(8 + _size(part, depth + 1) for part in inside)
    return _OBJECT_BYTES // 2
