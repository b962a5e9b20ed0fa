"""What a run is about: a data set and settings, from which experiments make their cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dlfh.bench.cells import Cell, Deal
from dlfh.bench.data import Source
from dlfh.bench.figures import Figure
from dlfh.bench.measure import directions
from dlfh.bench.runner import Results
from dlfh.bench.settings import Row, Settings
from dlfh.bench.tables import ReportTable
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS

__all__ = ["Experiment", "Plan", "Section"]


@dataclass(frozen=True)
class Plan:
    """A data set and settings."""

    source: Source
    settings: Settings

    def __post_init__(self) -> None:
        if self.source.is_split and self.settings.queries is not None:
            raise InputError(f"{self.source.name} comes with queries of its own: leave out queries")

    @property
    def directions(self) -> list[str]:
        return directions(self.source.modalities)

    def n_train(self) -> int:
        """Return how many points there are to learn from."""
        return self.source.n_train(self.deal(0))

    def deal(self, seed: int) -> Deal:
        """Return how points are dealt out for a seed: data that comes split is the same for all."""
        drawn = self.settings.resplit and (not self.source.is_split or self.settings.unseen_share > 0)
        queries = None if self.source.is_split else self.settings.queries
        return Deal(seed if drawn else 0, queries, self.settings.unseen_share)

    def seeds(self, row: Row) -> range:
        """Return the seeds of a row: one where neither the split nor the method has anything random."""
        is_fixed = METHODS[row.method].info.is_deterministic and self.deal(1).seed == 0
        return range(1 if is_fixed else min(row.seeds or self.settings.seeds, self.settings.seeds))

    def cell(
        self,
        row: Row,
        bits: int,
        seed: int,
        *,
        kind: Literal["retrieval", "time"] = "retrieval",
        size: int | None = None,
        changed: Mapping[str, Any] | None = None,
    ) -> Cell:
        """Return the cell of a row of a table, with changed parameters."""
        deal = self.deal(seed)
        if size is not None and size < self.n_train():
            deal = replace(deal, size=size)
        method: Any = METHODS[row.method]
        usual = method().get_params(deep=False)
        points = None if kind == "time" else row.train_points
        return Cell.make(
            self.source.name,
            self.source.fingerprint,
            row.method,
            # What is as it is by default anyway makes no other cell.
            {name: value for name, value in row.at(bits, **(changed or {})).items() if not _same(value, usual[name])},
            bits=bits,
            seed=0 if METHODS[row.method].info.is_deterministic else seed,
            deal=deal,
            kind=kind,
            k=Cell.k if kind == "time" else self.settings.k,
            train_points=None if points is None or points >= self.source.n_train(deal) else points,
        )


def _same(value: Any, other: Any) -> bool:
    """Return whether two parameters are the same; 1 and true are not."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, tables and figures under a title.

    What ``varies`` from run to run (times and memory) is kept apart from what the settings decide. ``files`` are
    written beside the report, and not shown in it: their content by their names.
    """

    key: str
    title: str
    paragraphs: tuple[str, ...]
    blocks: tuple[ReportTable | Figure, ...]
    varies: bool = False
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Which cells an experiment needs, what it makes of their results, and whether it draws figures."""

    name: str
    title: str
    cells: Callable[[Plan], list[Cell]]
    sections: Callable[[Plan, Results], list[Section]]
    draws: bool = True
