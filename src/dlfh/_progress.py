"""Progress as bars in a terminal and as lines in a log file; no cost when it is off."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dlfh._terminal import plain

Item = TypeVar("Item")
Advance = Callable[..., None]  #: Records that one step is done, or the given number of steps.
_LINE_INTERVAL = 10.0  #: Seconds between two lines in a log file.


class _Lines:
    """Progress as lines on standard error, for log files."""

    _printed = -_LINE_INTERVAL  # time of the last line, of any task: a build consists of many short ones

    def __init__(self) -> None:
        self._tasks: list[list[Any]] = []

    def add_task(self, description: str, total: int) -> int:
        self._tasks.append([description, 0, total])
        self.advance(len(self._tasks) - 1, 0)
        return len(self._tasks) - 1

    def advance(self, task: int, steps: int) -> None:
        self._tasks[task][1] += steps
        if time.monotonic() - _Lines._printed >= _LINE_INTERVAL:
            _Lines._printed = time.monotonic()
            print("{}: {:,} of {:,}".format(*self._tasks[task]), file=sys.stderr, flush=True)


class Bar:
    """Reports progress to a display of bars or lines; does nothing without a display."""

    def __init__(self, display: Any = None) -> None:
        self._display = display

    def counter(self, description: str, total: int) -> Advance:
        """Return a function to call after each of ``total`` steps, or with the number of steps done."""
        if self._display is None:
            return lambda steps=1: None
        task = self._display.add_task(plain(description), total=total)
        return lambda steps=1: self._display.advance(task, steps)

    def track(self, items: Collection[Item], description: str) -> Iterator[Item]:
        """Yield the items and count them."""
        advance = self.counter(description, len(items))
        for item in items:
            yield item
            advance()


def track(items: Collection[Item], description: str) -> Iterator[Item]:
    """Yield the items and show progress."""
    with progress(True) as bar:
        yield from bar.track(items, description)


@contextmanager
def progress(show: bool) -> Iterator[Bar]:
    """Show progress on standard error, if ``show``: bars in terminals and notebooks, lines every 10 seconds in logs."""
    if not show:
        yield Bar()
        return
    from rich.console import Console  # not needed unless progress is shown
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal and not console.is_jupyter:
        yield Bar(_Lines())
        return
    columns = (
        TextColumn("{task.description:>16}", markup=False),  # descriptions contain user-defined modality names
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as display:
        yield Bar(display)
