"""TOML of any keys and values is read back."""

from __future__ import annotations

import tomllib

from dlfh.bench.toml import to_toml


def test_toml_of_odd_keys_and_empty_tables_is_read_back() -> None:
    values = {"a": [1, 2.5, 'x"y'], "b": True, "parameters": {"DLFH paper": {"init": "random"}, "CRH": {}}}
    assert tomllib.loads(to_toml(values)) == values
