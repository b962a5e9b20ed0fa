"""TOML with any keys and values is read back."""

from __future__ import annotations

import tomllib

from dlfh.bench.toml import to_toml
from tests.test_terminal import has_controls


def test_unusual_keys_and_empty_tables_are_read_back() -> None:
    values = {"a": [1, 2.5, 'x"y'], "b": True, "parameters": {"DLFH paper": {"init": "random"}, "CRH": {}}}
    assert tomllib.loads(to_toml(values)) == values


def test_control_characters_are_escaped_and_read_back() -> None:
    values = {"a\x7f": "\x1b[31m\x9b\u202e", "letters": "ü 😀"}
    assert not has_controls(to_toml(values))
    assert "ü 😀" in to_toml(values)
    assert tomllib.loads(to_toml(values)) == values
