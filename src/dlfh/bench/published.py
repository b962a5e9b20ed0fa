"""The figures published in the DLFH paper, to compare measurements with."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from dlfh.bench.data import Source
from dlfh.bench.settings import DEFAULT_PARAMETERS

_METHODS = {"CCAITQ": "CCA-ITQ"}
_DIRECTIONS = {"image → text": "I→T", "text → image": "T→I"}


class MapCell(NamedTuple):
    """An entry of Table 1: mean average precision, in the protocol that agrees with it."""

    method: str
    data_set: str
    direction: str
    n_bits: int
    mean: float
    std: float
    protocol: str


class TimeCell(NamedTuple):
    """An entry of Table 2; None if the method ran out of memory."""

    method: str
    data_set: str
    n_points: int
    seconds: float | None


@dataclass(frozen=True)
class Published:
    """Both tables of the paper, the machine of the times, and the number of runs averaged."""

    machine: str
    runs: int
    map: tuple[MapCell, ...]
    time: tuple[TimeCell, ...]


@cache
def published() -> Published:
    """Return the tables of the paper, with its method names and the keys of `dlfh.datasets.descriptions.DATA_SETS`."""
    tables = tomllib.loads(resources.files("dlfh.bench").joinpath("published.toml").read_text(encoding="utf-8"))
    accuracy, time = tables["map"], tables["time"]
    map_cells = (
        MapCell(method, data_set, direction, n_bits, mean, std, accuracy["protocols"].get(method, "learned"))
        for method, rows in accuracy["methods"].items()
        for data_set in accuracy["data_sets"]
        for direction in accuracy["directions"]
        for n_bits, (mean, std) in zip(accuracy["bits"], rows[f"{data_set} {direction}"], strict=True)
    )
    time_cells = (
        TimeCell(method, time["data_set"], n_points, None if math.isnan(seconds) else seconds)
        for method, row in time["methods"].items()
        for n_points, seconds in zip(time["sizes"], row, strict=True)
    )
    return Published(tables["paper"]["machine"], tables["paper"]["runs"], tuple(map_cells), tuple(time_cells))


def published_map(source: Source, label: str, protocol: str, direction: str, bits: int) -> tuple[float, float] | None:
    """Return the published MAP of a row and its standard deviation, or None if there is none for this protocol."""
    if not source.as_published:
        return None
    key = (_published_name(label), source.like, _DIRECTIONS.get(direction), bits)
    found = (cell for cell in published().map if cell[:4] == key and cell.protocol == protocol)
    return next(((cell.mean, cell.std) for cell in found), None)


def published_seconds(source: Source, label: str, size: int) -> float | None:
    """Return the published training time of a row, or None if there is none.

    Generated data of the same shape takes as long. The last published size is the whole training set, whose exact size
    depends on the file.
    """
    key = (_published_name(label), source.like)
    times = {cell.n_points: cell.seconds for cell in published().time if cell[:2] == key}
    return next((times[n_points] for n_points in times if abs(n_points - size) <= n_points / 100), None)


def _published_name(label: str) -> str | None:
    """Return the paper's name of a row, which must have the paper's setting: its own row if the defaults differ."""
    name, _, words = label.partition(" ")
    return _METHODS.get(name, name) if words == ("paper" if f"{name} paper" in DEFAULT_PARAMETERS else "") else None
