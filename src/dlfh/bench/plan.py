"""Plans: a data set with settings, from which experiments derive their cells."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dlfh._version import __version__
from dlfh.bench.cells import Cell, Result, SplitSpec
from dlfh.bench.data import Source
from dlfh.bench.figures import Figure
from dlfh.bench.measure import build
from dlfh.bench.settings import Row, Settings
from dlfh.bench.tables import ReportTable, Summary, summarize
from dlfh.datasets.code_files import code_place
from dlfh.datasets.descriptions import DATA_SETS
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS, MODULES

Results = Mapping[Cell, Result]


@dataclass(frozen=True)
class Plan:
    """A data set and settings."""

    source: Source
    settings: Settings

    def __post_init__(self) -> None:
        if self.source.has_queries and self.settings.queries is not None:
            raise InputError(f"{self.source.name} defines its own queries: omit the queries setting")
        for row in self.settings.rows():
            if row.codes is not None and not any(self.cells(row, bits) for bits in self.settings.bits):
                lengths = ", ".join(map(str, self.settings.bits))
                raise InputError(f"{row.codes} has no codes of {lengths} bits: name files BITS-SEED, such as 16-0.npz")

    @property
    def directions(self) -> list[str]:
        return [f"{query} → {database}" for query, database in itertools.permutations(self.source.modalities, 2)]

    def n_train(self) -> int:
        return self.source.n_train(self.split(0))

    def split(self, seed: int) -> SplitSpec:
        """Return the split for a seed; a data set that defines its queries has one split."""
        is_random = self.settings.resplit and (not self.source.has_queries or self.settings.unseen_share > 0)
        queries = None if self.source.has_queries else self.settings.queries
        if queries is None and not self.source.has_queries and self.source.as_published:
            queries = DATA_SETS[self.source.like].n_queries
        return SplitSpec(seed if is_random else 0, queries, self.settings.unseen_share)

    def seeds(self, row: Row) -> range:
        """Return the seeds of a row: a single one if neither the split nor the method is random."""
        if row.codes is not None:
            return range(self.settings.seeds)
        is_fixed = METHODS[row.method].info.is_deterministic and self.split(1).seed == 0
        return range(1 if is_fixed else min(row.seeds or self.settings.seeds, self.settings.seeds))

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise InputError if a split leaves too few points, or a method rejects its parameters."""
        for split in {cell.split: None for cell in cells}:
            self.source.check(split)
        fitted = [cell for cell in cells if cell.kind != "codes"]
        for cell in {(cell.method, str(cell.parameters), cell.bits): cell for cell in fitted}.values():
            try:
                build(cell, 1).check_parameters()
            except InputError as error:
                raise InputError(f"{cell.method}: {error}") from None

    def cells(self, row: Row, bits: int) -> list[Cell]:
        """Return the cells of a row, one for each seed; a folder of codes may lack some seeds."""
        if row.codes is None:
            return [self.cell(row, bits, seed) for seed in self.seeds(row)]
        places = {seed: code_place(row.codes, bits, seed) for seed in self.seeds(row)}
        return [self._code_cell(row, bits, seed, place) for seed, place in places.items() if place is not None]

    def _code_cell(self, row: Row, bits: int, seed: int, place: Path) -> Cell:
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        parameters = {"file": str(place.absolute()), "checksum": _checksum(files)}
        data = self.source.name, self.source.fingerprint
        return Cell(*data, row.label, parameters, bits, seed, self.split(seed), "codes", self.settings.k)

    def cell(self, row: Row, bits: int, seed: int, size: int | None = None, changed: Mapping[str, Any] = {}) -> Cell:
        split = self.split(seed)
        if size is not None and size < self.n_train():
            split = replace(split, size=size)
        method: Any = METHODS[row.method]
        defaults = method().get_params(deep=False)
        # Parameters equal to the defaults are omitted, so that equal computations are the same cell.
        given = {name: value for name, value in row.at(bits, changed).items() if not _same(value, defaults[name])}
        points = row.train_points if (row.train_points or 0) < self.source.n_train(split) else None
        version = __version__ if row.method in MODULES else f"{__version__}, {_sources(method)}"
        data, seed = (self.source.name, self.source.fingerprint), 0 if method.info.is_deterministic else seed
        others: dict[str, Any] = {"k": self.settings.k, "train_points": points, "version": version}
        return Cell(*data, row.method, given, bits, seed, split, **others)


@dataclass(frozen=True)
class Study(Plan):
    """A plan with the results of its cells."""

    results: Results

    def runs(
        self, row: Row, bits: int, protocol: str, way: str | None = None, measure: str = "map"
    ) -> list[float | None]:
        """Return a measure, in one direction or averaged over all, for each run of a row; None for failed runs."""
        ways = self.directions if way is None else [way]
        results = [self.results[cell] for cell in self.cells(row, bits)]
        values: list[Any] = [[(each.scores(protocol, way) or {}).get(measure) for way in ways] for each in results]
        return [None if None in run else sum(run) / len(run) for run in values]

    def summary(self, row: Row, bits: int, protocol: str, way: str | None = None, measure: str = "map") -> Summary:
        failures = (self.results[cell].failure or "" for cell in self.cells(row, bits))
        return summarize(self.runs(row, bits, protocol, way, measure), failures)


@cache
def _sources(method: type) -> str:
    """Return a hash of the source of a method's module or package, so that changes to it invalidate cached cells."""
    module = sys.modules[method.__module__.partition(".")[0]]
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))] or [Path(str(module.__file__))]
    return _checksum(files)


def _checksum(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _same(value: Any, other: Any) -> bool:
    """Return whether two parameter values are equal; 1 and True are not."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class Section:
    """A section of a report: paragraphs, tables and figures under a title."""

    key: str
    title: str
    paragraphs: tuple[str, ...]
    blocks: tuple[ReportTable | Figure, ...]
    varies: bool = False  # whether it contains times or memory, which differ from run to run
    files: Mapping[str, str] = field(default_factory=dict)  # further files by name, not shown in the report

    def is_folded(self, block: ReportTable | Figure) -> bool:
        """Return whether a block is collapsed until it is clicked: all tables but the first are."""
        return any(block is each for each in [each for each in self.blocks if isinstance(each, ReportTable)][1:])


@dataclass(frozen=True)
class Experiment:
    """An experiment: the cells it needs, a function that reports their results, and whether it draws figures."""

    name: str
    title: str
    cells: Callable[[Plan], list[Cell]]
    report: Callable[[Study], list[Section]]
    draws: bool = True

    def sections(self, plan: Plan, results: Results) -> list[Section]:
        return self.report(Study(plan.source, plan.settings, results))
