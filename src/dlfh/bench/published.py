"""The values that the paper published, to stand beside those that are measured."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["MapCell", "Published", "TimeCell", "published"]


class MapCell(NamedTuple):
    """One cell of the paper's first table: the mean average precision of the learned protocol."""

    method: str
    data_set: str
    direction: str
    n_bits: int
    mean: float
    std: float


class TimeCell(NamedTuple):
    """One cell of the paper's second table; no seconds where the machine had too little memory."""

    method: str
    data_set: str
    n_points: int
    seconds: float | None


@dataclass(frozen=True)
class Published:
    """Both tables of the paper, and how they were made.

    Attributes
    ----------
    title : str
        Of the paper.
    machine : str
        On which the times were taken.
    runs : int
        Over how many runs values were averaged.
    map : tuple of MapCell
    time : tuple of TimeCell
    trained_on : dict of str to int
        On how many points the methods of the first table were trained that could not be trained on all.
    """

    title: str
    machine: str
    runs: int
    map: tuple[MapCell, ...]
    time: tuple[TimeCell, ...]
    trained_on: dict[str, int]


@cache
def published() -> Published:
    """Return the values of the paper's two tables.

    Data sets are named as in `dlfh.datasets.DATA_SETS`, methods as in the paper.

    Examples
    --------
    >>> [cell.mean for cell in published().map if cell[:3] == ("DLFH", "nus-wide", "T→I")]
    [0.769, 0.801, 0.818]
    """
    text = resources.files("dlfh.bench").joinpath("published.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    paper = tables["paper"]
    return Published(
        paper["title"],
        paper["machine"],
        paper["runs"],
        _map_cells(tables["map"]),
        _time_cells(tables["time"]),
        tables["map"]["trained_on"],
    )


def _map_cells(table: dict[str, Any]) -> tuple[MapCell, ...]:
    return tuple(
        MapCell(method, data_set, direction, n_bits, *values)
        for method, rows in table["methods"].items()
        for data_set in table["data_sets"]
        for direction in table["directions"]
        for n_bits, values in zip(table["bits"], rows[f"{data_set} {direction}"], strict=True)
    )


def _time_cells(table: dict[str, Any]) -> tuple[TimeCell, ...]:
    return tuple(
        TimeCell(method, table["data_set"], n_points, None if math.isnan(seconds) else seconds)
        for method, row in table["methods"].items()
        for n_points, seconds in zip(table["sizes"], row, strict=True)
    )
