"""The figures published in the DLFH paper, to compare measurements with."""

from __future__ import annotations

import math
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from dlfh.bench.data import Source
from dlfh.bench.settings import DEFAULT_PARAMETERS

_METHODS = {"CCAITQ": "CCA-ITQ"}
_DIRECTIONS = {"image → text": "I→T", "text → image": "T→I"}


@cache
def published() -> dict[str, Any]:
    """Return the tables of the paper, with its method names and the keys of `dlfh.datasets.descriptions.DATA_SETS`."""
    return tomllib.loads(resources.files("dlfh.bench").joinpath("published.toml").read_text(encoding="utf-8"))


def published_map(source: Source, label: str, protocol: str, direction: str, bits: int) -> tuple[float, float] | None:
    """Return the published MAP of a row and its standard deviation, or None if there is none for this protocol."""
    table, method = published()["map"], _published_name(label)
    row = table["methods"].get(method, {}).get(f"{source.like} {_DIRECTIONS.get(direction)}")
    is_same = source.as_published and table["protocols"].get(method, "learned") == protocol and bits in table["bits"]
    return tuple(row[table["bits"].index(bits)]) if row and is_same else None


def published_seconds(source: Source, label: str, size: int) -> float | None:
    """Return the published training time of a row, or None if there is none.

    Generated data of the same shape takes as long. The last published size is the whole training set, whose exact size
    depends on the file.
    """
    table = published()["time"]
    row = table["methods"].get(_published_name(label), ()) if source.like == table["data_set"] else ()
    times = zip(table["sizes"], row, strict=False)
    found = next((seconds for n_points, seconds in times if abs(n_points - size) <= n_points / 100), math.nan)
    return None if math.isnan(found) else found  # the method ran out of memory, or was not measured


def _published_name(label: str) -> str | None:
    """Return the paper's name of a row, which must have the paper's setting: its own row if the defaults differ."""
    name, _, words = label.partition(" ")
    return _METHODS.get(name, name) if words == ("paper" if f"{name} paper" in DEFAULT_PARAMETERS else "") else None
