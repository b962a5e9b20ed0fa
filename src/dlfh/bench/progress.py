"""Progress of a run on standard error: cells done, and an estimate of the time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from dlfh.bench.cells import Cell

#: Seconds between two lines if standard error is not a terminal.
_LINE_INTERVAL = 30.0

#: Approximate cost of a cell relative to DLFH.
_WEIGHTS = {
    "CRH": 40.0,
    "MLBE": 40.0,
    "SePH": 20.0,
    "CMSSH": 6.0,
    "SCRATCH": 6.0,
    "KDLFH": 5.0,
    "CMFH": 4.0,
    "SMFH": 4.0,
    "PDH": 4.0,
    "LFH": 2.0,
}


def relative_cost(cell: Cell, n_train: int) -> float:
    """Estimate the cost of a cell, in arbitrary units, from its method, code length and number of training points."""
    return _WEIGHTS.get(cell.method, 1.0) * cell.bits * n_train


def format_duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """Shows a bar in a terminal, and prints a line from time to time elsewhere.

    ``costs`` are the relative costs of the cells to compute.
    """

    def __init__(self, costs: dict[Cell, float], show: bool) -> None:
        self._left, self._n_cells, self._total = dict(costs), len(costs), sum(costs.values())
        self._show = show
        self._bar: Any = None
        self._task: Any = None
        self._started = self._printed = time.monotonic()

    def __enter__(self) -> Progress:
        if self._show and sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
            description = progress.TextColumn("{task.description}")
            self._bar = progress.Progress(*columns, description, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self._n_cells)
        elif self._show:
            print(f"{self._n_cells} cells to compute", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finish(self, cell: Cell) -> None:
        """Count a cell that was computed or given up."""
        del self._left[cell]
        n_done = self._n_cells - len(self._left)
        if self._bar is not None:
            self._bar.update(self._task, completed=n_done, description=self._estimate())
        elif self._show and time.monotonic() - self._printed > _LINE_INTERVAL:
            self._printed = time.monotonic()
            print(f"{n_done} of {self._n_cells} cells, {self._estimate()}", file=sys.stderr, flush=True)

    def _estimate(self) -> str:
        left = sum(self._left.values())
        seconds = (time.monotonic() - self._started) * left / (self._total - left)
        return f"about {format_duration(seconds)} left"
