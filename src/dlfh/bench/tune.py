"""Parameter search by MAP on a validation set: grid search or successive halving."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal, TypeAlias

import numpy as np

from dlfh._selection import HALVING_FACTOR, Trial, format_parameters, successive_halving
from dlfh.bench.cells import Cell
from dlfh.bench.plan import Plan
from dlfh.bench.runner import Runner
from dlfh.bench.tables import DASH, ReportTable, TableRow, csv_text, mark_best, summarize
from dlfh.bench.toml import to_toml
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS

Halving = Literal["max_iter", "size", "seeds"]
Parameters: TypeAlias = dict[str, Any]


def parse_grid(options: Sequence[str]) -> dict[str, list[Any]]:
    """Parse a grid of ``NAME=VALUE,VALUE,...``; values are TOML, other words are strings."""
    grid: dict[str, list[Any]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not equals or not name.strip() or not all(words):
            raise InputError(f"a grid must be NAME=VALUE,VALUE,..., such as scale=4,8, got {option!r}")
        if name.strip() in grid:
            raise InputError(f"the grid has {name.strip()!r} twice: name each parameter once")
        grid[name.strip()] = [_value(word) for word in words]
    return grid


def default_grid(method: str) -> dict[str, list[Any]]:
    """Return the default grid of a method; every method has the same number of candidates."""
    grids = tomllib.loads(resources.files("dlfh.bench").joinpath("grids.toml").read_text(encoding="utf-8"))
    if method not in grids:
        raise InputError(f"{method} has no default grid: pass --grid NAME=VALUE,VALUE,...")
    return dict(grids[method])


def _value(word: str) -> Any:
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


@dataclass(frozen=True)
class ParameterSearch:
    """A search for the parameters of one method; training points take the place of queries, which are never used."""

    plan: Plan
    method: str  # a row of the settings; its parameters apply unless the grid sets them
    grid: dict[str, list[Any]]
    bits: int = 32
    protocol: str = "unseen"  # candidates are compared by the MAP of this protocol, averaged over directions
    validation_share: float = 0.2
    halving: Halving | None = None  # budget of successive halving; by default, every candidate gets the full budget
    size: int | None = None  # maximum number of training points beside the validation points

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise InputError(f"validation_share must be between 0 and 1, got {self.validation_share}")
        if "seeds" in self.grid:
            raise InputError("seeds cannot be in the grid: every candidate runs with every seed")
        method = self.plan.settings.row(self.method).method
        if self.protocol == "unified" and "unified" not in METHODS[method].info.protocols:
            raise InputError(f"{method} does not support the unified protocol: choose another one")
        for parameters in self.candidates():
            own = self.plan.settings.parameters.get(self.method, {})
            self.plan.settings.changed(parameters={self.method: {**own, **parameters}})
            self.plan.check(self._cells(parameters, None))
        self._budgets(len(self.candidates()))

    def candidates(self) -> list[Parameters]:
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def run(self, runner: Runner) -> list[Trial[Parameters]]:
        """Return the trials, best first; candidates that were eliminated earlier, with smaller budgets, come later."""

        def evaluate(candidates: Sequence[Parameters], budget: int | None) -> list[Trial[Parameters]]:
            cells = [self._cells(parameters, budget) for parameters in candidates]
            results = runner.run(self.plan.source, list(itertools.chain.from_iterable(cells)))
            pairs = zip(candidates, cells, strict=True)
            return [self._trial(parameters, [results[cell] for cell in runs], budget) for parameters, runs in pairs]

        candidates = self.candidates()
        return successive_halving(candidates, evaluate, self._budgets(len(candidates)))

    def _trial(self, parameters: Parameters, runs: Sequence[Any], budget: int | None) -> Trial[Parameters]:
        found = [run.values.get("protocols", {}).get(self.protocol, {}).values() for run in runs]
        scores = [sum(each["map"] for each in ways) / len(ways) if ways else None for ways in found]
        measured = np.array([score for score in scores if score is not None])
        note = summarize(scores, [run.failure or "" for run in runs]).note
        return Trial(parameters, measured, self.method, format_parameters(parameters), note=note, budget=budget)

    def _budgets(self, n_candidates: int) -> list[int | None]:
        """Return the budget of each rung of successive halving; None means no limit."""
        if self.halving is None or n_candidates < HALVING_FACTOR:
            return [None]
        n_rungs, full = math.floor(math.log(n_candidates, HALVING_FACTOR) + 1e-9) + 1, self._full()
        return list(dict.fromkeys(max(1, full // HALVING_FACTOR ** (n_rungs - 1 - rung)) for rung in range(n_rungs)))

    def _full(self) -> int:
        row = self.plan.settings.row(self.method)
        if self.halving == "seeds":
            return self.plan.settings.seeds
        if self.halving == "size":
            return min(self.size or math.inf, round((1 - self.validation_share) * self.plan.n_train()))  # type: ignore[return-value]
        method: Any = METHODS[row.method]
        known = {**method().get_params(deep=False), **row.parameters}
        if "max_iter" not in known or "max_iter" in self.grid:
            reason = "it has no such parameter, or the grid sets it"
            raise InputError(f"{row.method} does not support halving by max_iter: {reason}")
        return int(known["max_iter"])

    def _cells(self, parameters: Parameters, budget: int | None) -> list[Cell]:
        row = self.plan.settings.row(self.method)
        changed = dict(parameters)
        train_points = changed.pop("train_points", row.train_points)
        n_seeds, size = self.plan.settings.seeds, self.size
        if budget is not None and self.halving == "max_iter":
            changed["max_iter"] = budget
        elif budget is not None and self.halving == "seeds":
            n_seeds = budget
        elif budget is not None:
            size = budget
        cells = []
        for seed in range(n_seeds):
            cell = self.plan.cell(row, self.bits, seed, changed=changed)
            # Every run uses the queries of seed 0, so that no query is ever a validation point.
            split = replace(cell.split, seed=0, size=size, validation_share=self.validation_share, validation_seed=seed)
            cells.append(replace(cell, split=split, train_points=train_points))
        return cells

    def table(self, trials: Sequence[Trial[Parameters]]) -> ReportTable:
        rows = []
        for trial in trials:
            note = f"eliminated at {self.halving} = {trial.budget}" if trial.budget != trials[0].budget else ""
            rows.append(TableRow(trial.option, (summarize(trial.scores.tolist(), [trial.note]),), note))
        title = f"MAP of {self.method} on validation points of {self.plan.source.name}, {self.protocol} database"
        columns = (("", f"{self.bits} bits"),)
        return ReportTable(f"tune-{self.method}", title, columns, mark_best(rows), head="parameters")


SearchResults: TypeAlias = Sequence[tuple[ParameterSearch, Sequence[Trial[Parameters]]]]  # trials best first


def tuned_toml(results: SearchResults) -> str:
    """Return the best parameters as settings for `dlfh bench --settings`, omitting methods that were not evaluated."""
    evaluated = [(search, trials[0].candidate) for search, trials in results if len(trials[0].scores)]
    if not evaluated:
        raise InputError(f"no candidate could be evaluated: {results[0][1][0].note}")
    settings = evaluated[0][0].plan.settings
    parameters: dict[str, Mapping[str, Any]] = {
        search.method: {**settings.parameters.get(search.method, {}), **best} for search, best in evaluated
    }
    tuned = {"methods": list(parameters), "bits": [evaluated[0][0].bits], "resplit": False}
    split = {"queries": settings.queries, "unseen_share": settings.unseen_share}
    return to_toml({**tuned, **split, "parameters": parameters})


def trials_csv(results: SearchResults) -> str:
    """Return the candidates of each search as CSV, best first."""
    lines: list[list[Any]] = [["method", "parameters", "mean", "std", "runs", "note"]]
    for search, trials in results:
        for trial in trials:
            summary = summarize(trial.scores.tolist(), [trial.note])
            numbers = (number.strip(DASH) for number in summary.numbers(4))
            lines.append([search.method, trial.option, *numbers, summary.runs, summary.note])
    return csv_text(lines)
