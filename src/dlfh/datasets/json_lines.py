"""JSON Lines tables: one object per line, whose keys are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dlfh._limits import MAX_DEPTH, Budget, limit_of
from dlfh.errors import InputError

__all__ = ["parse_lines"]

#: Approximate memory of a Python object in bytes, without its contents.
_OBJECT_BYTES = 64


def parse_lines(lines: Iterable[str], budget: Budget) -> tuple[list[tuple[int, dict[str, Any]]], dict[int, str]]:
    r"""Return the objects with their line numbers, and the error in each invalid line.

    Examples
    --------
    >>> from pathlib import Path
    >>> objects, errors = parse_lines(['{"id": 7}\n', '\n', '{"id": \n', '[1]'], Budget.of_file(Path("pyproject.toml")))
    >>> objects, errors
    ([(1, {'id': 7})], {3: 'invalid JSON: Expecting value', 4: 'not a JSON object such as {"text": "a cat"}'})
    """
    objects: list[tuple[int, dict[str, Any]]] = []
    errors: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > limit_of("DLFH_MAX_CHARACTERS"):
            raise InputError(
                f"line {number} is longer than the limit of {limit_of('DLFH_MAX_CHARACTERS'):,} characters: "
                "set DLFH_MAX_CHARACTERS to raise it"
            )
        try:
            value = json.loads(line, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            errors[number] = f"invalid JSON: {error.msg}"
            continue
        except (RecursionError, ValueError) as error:  # deeply nested lists, numbers of thousands of digits
            errors[number] = f"invalid JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}"
            continue
        if not isinstance(value, dict):
            errors[number] = 'not a JSON object such as {"text": "a cat"}'
            continue
        budget.take_bytes(_size(value))
        objects.append((number, value))
    return objects, errors


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _size(value: Any, depth: int = 0) -> int:
    """Return the approximate memory of a value in bytes."""
    if isinstance(value, str):
        return _OBJECT_BYTES + len(value)
    if isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise InputError(f"lists or objects are nested more than {MAX_DEPTH} levels deep")
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return _OBJECT_BYTES + sum(8 + _size(part, depth + 1) for part in inside)
    return _OBJECT_BYTES // 2
