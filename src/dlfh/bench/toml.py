"""Read TOML settings, and write them, which the standard library cannot."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlfh._persistence.files import read_regular
from dlfh._terminal import CONTROL_CHARACTERS
from dlfh.errors import InputError

_MAX_BYTES = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file."""
    try:
        return tomllib.loads(read_regular(path, _MAX_BYTES).decode())
    except FileNotFoundError:
        raise InputError(f"settings file {path} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path} as TOML settings: {str(error).splitlines()[0]}") from None


def to_toml(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return nested mappings of numbers, strings and lists as TOML; None values are omitted."""
    scalars = {name: value for name, value in values.items() if not isinstance(value, Mapping) and value is not None}
    text = "".join(f"{_key(name)} = {_value(value)}\n" for name, value in scalars.items())
    for name, value in values.items():
        if isinstance(value, Mapping):
            table = (*path, _key(name))
            has_values = not value or any(not isinstance(each, Mapping) for each in value.values())
            text += (f"\n[{'.'.join(table)}]\n" if has_values else "") + to_toml(value, table)
    return text


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _string(text: str) -> str:
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"cannot write {type(value).__name__} as TOML")
