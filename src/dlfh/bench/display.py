"""How far a run is, on standard error: cells done, what is at work, an estimate of the time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from dlfh._terminal import plain
from dlfh.bench.cells import Cell
from dlfh.bench.cost import Costs

__all__ = ["Display", "in_words"]

#: Seconds between lines where there is no terminal to draw on.
_LINE_EVERY = 30.0


def in_words(seconds: float) -> str:
    """Return a duration as people say it.

    Examples
    --------
    >>> in_words(8), in_words(200), in_words(9000)
    ('8 s', '3 min', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Display:
    """Shows a run's progress: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self, show: bool, cells: list[Cell], costs: Costs, n_workers: int) -> None:
        self._show, self._costs, self._n_workers = show, costs, n_workers
        self._n_cells = len(cells)
        self._left = dict.fromkeys(cells)
        self._bar: Any = None
        self._task: Any = None
        self._running: list[Cell] = []
        self._said = time.monotonic()

    def __enter__(self) -> Display:
        if self._show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
            )
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

    def start(self, cell: Cell) -> None:
        """Say that a cell is at work."""
        self._running.append(cell)

    def drop(self, cell: Cell) -> None:
        """Say that a cell is at work no more, but not done."""
        self._running.remove(cell)

    def skip(self, cell: Cell) -> None:
        """Say that a cell will not be computed."""
        del self._left[cell]

    def finish(self, cell: Cell) -> None:
        """Say that a cell is done, and what is left."""
        self._running.remove(cell)
        del self._left[cell]
        n_done = self._n_cells - len(self._left)
        now = plain(", ".join(f"{each.method} {each.bits} bits" for each in self._running))
        if self._bar is not None:
            self._bar.update(self._task, completed=n_done, description=f"{self._estimate()}  {now}")
        elif self._show and time.monotonic() - self._said > _LINE_EVERY:
            self._said = time.monotonic()
            print(f"{n_done} of {self._n_cells} cells, {self._estimate()}", file=sys.stderr, flush=True)

    def _estimate(self) -> str:
        # Of a cell that is at work half is taken to be done; cells that measure time follow one by one.
        seconds = 0.0
        for cell in self._left:
            share = 0.5 if cell in self._running else 1.0
            seconds += share * self._costs.expected(cell) / (1 if cell.kind == "time" else self._n_workers)
        return f"about {in_words(seconds)} left"
