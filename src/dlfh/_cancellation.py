"""Cancellation of long computations, which call `checkpoint` between steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Let every `checkpoint` of this thread call ``check``, which raises an exception to cancel the computation."""
    previous = getattr(_thread, "check", None)
    _thread.check = check
    try:
        yield
    finally:
        _thread.check = previous


def checkpoint() -> None:
    """Raise an exception if the computation that this thread runs has been cancelled."""
    check = getattr(_thread, "check", None)
    if check is not None:
        check()
