"""Progress bars that cost nothing when they are off."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from dlfh._terminal import plain

Item = TypeVar("Item")


class Advance(Protocol):
    """Records that one or more steps are done."""

    def __call__(self, steps: int = 1) -> None: ...


class Bar:
    """A progress display; does nothing unless it is given a rich display."""

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


@contextmanager
def progress(show: bool) -> Iterator[Bar]:
    """Show a progress display on standard error while the block runs, if ``show`` is true."""
    if not show:
        yield Bar()
        return
    from rich.console import Console  # only where progress is shown: takes 50 ms to load
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:>16}", markup=False),  # descriptions contain user-defined modality names
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield Bar(display)
