"""Choosing parameters by MAP on a part of the training set: a grid, or successive halving of it."""

from __future__ import annotations

import csv
import io
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from dlfh.bench.cells import Cell
from dlfh.bench.plan import Plan
from dlfh.bench.run import check_cells
from dlfh.bench.runner import Runner
from dlfh.bench.tables import DASH, Entry, ReportTable, TableRow, mark_best, summarize
from dlfh.bench.toml import to_toml
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS

__all__ = ["Chosen", "Search", "Trial", "parse_grid", "trials_csv", "tuned_toml", "usual_grid"]

Halving = Literal["max_iter", "size", "seeds"]

#: Each rung keeps one candidate in so many, and gives it so many times more.
_KEEP_ONE_IN = 3


@dataclass(frozen=True)
class Trial:
    """A candidate: its parameters, its MAP on the validation points, and how much it was given to show it."""

    parameters: dict[str, Any]
    score: Entry
    resource: int | None = None

    @property
    def label(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.parameters.items()) or "defaults"


def parse_grid(options: Sequence[str]) -> dict[str, list[Any]]:
    """Read a grid from ``NAME=VALUE,VALUE,...``; values as TOML has them, other words are strings.

    Examples
    --------
    >>> parse_grid(["scale=1,2.5", "solver=full,stochastic", "fit_intercept=true,false"])
    {'scale': [1, 2.5], 'solver': ['full', 'stochastic'], 'fit_intercept': [True, False]}
    """
    grid: dict[str, list[Any]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not equals or not name.strip() or not all(words):
            raise InputError(f"a grid is NAME=VALUE,VALUE,..., such as scale=4,8, got {option!r}")
        if name.strip() in grid:
            raise InputError(f"the grid has {name.strip()} twice")
        grid[name.strip()] = [_value(word) for word in words]
    return grid


def usual_grid(method: str) -> dict[str, list[Any]]:
    """Return what is tried of a method unless other values are given: as many candidates for each method.

    Examples
    --------
    >>> usual_grid("KDLFH")
    {'penalty': [0.0001, 0.001, 0.01, 0.1], 'n_bases': [500, 2000]}
    """
    return {name: list(values) for name, values in _usual_grids()[method].items()}


@cache
def _usual_grids() -> dict[str, dict[str, list[Any]]]:
    text = resources.files("dlfh.bench").joinpath("grids.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _value(word: str) -> Any:
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


@dataclass(frozen=True)
class Search:
    """A search for the parameters of one method.

    Queries of the data are never looked at: a share of the training points takes their place, another one for
    each seed.

    Attributes
    ----------
    plan : Plan
    method : str
        A row of the settings, whose parameters hold where the grid says nothing.
    grid : dict of str to list
    bits : int
    protocol : str
        By whose MAP, mean over directions, candidates are compared.
    validation : float
        Share of the training points.
    halving : {"max_iter", "size", "seeds"}, optional
        What candidates get little of at first: all are tried with a part of it, the best third with three times as
        much, and so on. By default every candidate gets everything.
    size : int, optional
        How many of the training points that are left candidates learn from; all by default.
    """

    plan: Plan
    method: str
    grid: dict[str, list[Any]]
    bits: int = 32
    protocol: str = "unseen"
    validation: float = 0.2
    halving: Halving | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.validation < 1:
            raise InputError(f"validation must be a share between 0 and 1, got {self.validation}")
        if "seeds" in self.grid:
            raise InputError("seeds are no parameter to choose: they are runs of each candidate")
        method = self.plan.settings.row(self.method).method
        if self.protocol == "unified" and "unified" not in METHODS[method].info.protocols:
            raise InputError(f"{method} has no rule for one code from several modalities: choose by another protocol")
        for parameters in self.candidates():
            self.plan.settings.with_parameters(self.method, parameters)
            check_cells(self.plan.source, self._cells(parameters, None))
        self._resources(len(self.candidates()))

    def candidates(self) -> list[dict[str, Any]]:
        """Return all combinations of the grid's values."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def run(self, runner: Runner) -> list[Trial]:
        """Return the trials, best first; those that went on longer before those that were left behind."""
        left = self.candidates()
        behind: list[Trial] = []
        rungs = self._resources(len(left))
        for i, resource in enumerate(rungs):
            cells = {j: self._cells(parameters, resource) for j, parameters in enumerate(left)}
            results = runner.run(self.plan.source, [cell for each in cells.values() for cell in each])
            trials = []
            for j, parameters in enumerate(left):
                found = [results[cell] for cell in cells[j]]
                scores = [self._score(each.values) for each in found]
                trials.append(Trial(parameters, summarize(scores, [each.failure or "" for each in found]), resource))
            trials.sort(key=lambda trial: (trial.score.mean is None, -(trial.score.mean or 0.0)))
            if i == len(rungs) - 1:
                return [*trials, *behind]
            n_kept = -(-len(trials) // _KEEP_ONE_IN)
            behind = [*trials[n_kept:], *behind]
            left = [trial.parameters for trial in trials[:n_kept]]
        return behind

    def _resources(self, n_candidates: int) -> list[int | None]:
        """Return how much candidates get, rung by rung."""
        if self.halving is None or n_candidates < _KEEP_ONE_IN:
            return [None]
        n_rungs = math.floor(math.log(n_candidates, _KEEP_ONE_IN) + 1e-9) + 1
        full = self._full()
        parts = [max(1, full // _KEEP_ONE_IN ** (n_rungs - 1 - i)) for i in range(n_rungs)]
        return list(dict.fromkeys(parts))

    def _full(self) -> int:
        row = self.plan.settings.row(self.method)
        if self.halving == "seeds":
            return self.plan.settings.seeds
        if self.halving == "size":
            return min(self.size or math.inf, round((1 - self.validation) * self.plan.n_train()))  # type: ignore[return-value]
        method: Any = METHODS[row.method]
        known = {**method().get_params(deep=False), **row.parameters}
        if "max_iter" not in known or "max_iter" in self.grid:
            raise InputError(f"{row.method} cannot be halved by max_iter: it has none, or the grid sets it")
        return int(known["max_iter"])

    def _cells(self, parameters: dict[str, Any], resource: int | None) -> list[Cell]:
        row = self.plan.settings.row(self.method)
        changed = dict(parameters)
        train_points = changed.pop("train_points", row.train_points)
        n_seeds, size = self.plan.settings.seeds, self.size
        if resource is not None and self.halving == "max_iter":
            changed["max_iter"] = resource
        elif resource is not None and self.halving == "seeds":
            n_seeds = resource
        elif resource is not None:
            size = resource
        cells = []
        for seed in range(n_seeds):
            cell = self.plan.cell(row, self.bits, seed, changed=changed)
            # The queries are those of seed 0 throughout, so that none of them is ever among the validation points.
            deal = replace(cell.deal, seed=0, size=size, validation=self.validation, validation_seed=seed)
            cells.append(replace(cell, deal=deal, train_points=train_points))
        return cells

    def _score(self, values: dict[str, Any]) -> float | None:
        found = values.get("protocols", {}).get(self.protocol)
        return sum(each["map"] for each in found.values()) / len(found) if found else None

    def table(self, trials: list[Trial]) -> ReportTable:
        """Return the trials as a table."""
        rows = mark_best(
            [
                TableRow(
                    trial.label,
                    (trial.score,),
                    f"left behind at {self.halving} = {trial.resource}" if trial.resource != trials[0].resource else "",
                )
                for trial in trials
            ]
        )
        title = f"MAP of {self.method} on validation points of {self.plan.source.name}, {self.protocol} database"
        return ReportTable(f"tune-{self.method}", title, (("", f"{self.bits} bits"),), rows, head="parameters")


#: What a search chose: its trials, the best first.
Chosen = Sequence[tuple[Search, Sequence[Trial]]]


def tuned_toml(chosen: Chosen) -> str:
    """Return the best parameters of each search of one data set as settings that a bench takes.

    What could not be measured with any parameters is left out.
    """
    measured = [(search, trials[0]) for search, trials in chosen if trials[0].score.mean is not None]
    if not measured:
        raise InputError(f"no candidate could be measured: {chosen[0][1][0].score.note}")
    settings = measured[0][0].plan.settings
    parameters: dict[str, Mapping[str, Any]] = {
        search.method: {**settings.parameters.get(search.method, {}), **best.parameters} for search, best in measured
    }
    return to_toml(
        {
            "methods": list(parameters),
            "bits": [measured[0][0].bits],
            "resplit": False,
            "queries": settings.queries,
            "unseen_share": settings.unseen_share,
            "parameters": parameters,
        }
    )


def trials_csv(chosen: Chosen) -> str:
    """Return one line per candidate of each search, the best first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "parameters", "mean", "std", "runs", "note"])
    for search, trials in chosen:
        for trial in trials:
            mean, std = (number.strip(DASH) for number in trial.score.numbers(4))
            writer.writerow([search.method, trial.label, mean, std, trial.score.runs, trial.score.note])
    return out.getvalue()
