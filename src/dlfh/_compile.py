"""Compile kernels on first use, cache them on disk, and log a message when compilation takes long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
import numba.core.event
import numpy as np

logger = logging.getLogger("dlfh")
ANNOUNCE_AFTER = 1.0  #: Seconds of compilation after which a message is logged.
_announced = threading.Event()
_seconds_spent = 0.0


def _announce() -> None:
    if not _announced.is_set():
        _announced.set()
        logger.warning("compiling the kernels for this machine: a few seconds, cached on disk if possible")


class _Watch(numba.core.event.Listener):
    """Logs a message when compiling kernels takes long; loading them from the disk cache does not count."""

    def __init__(self) -> None:
        self.watched: set[Any] = set()
        self._timer: threading.Timer | None = None
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] in self.watched:  # Numba compiles one at a time
            self._timer = threading.Timer(max(0.0, ANNOUNCE_AFTER - _seconds_spent), _announce)
            self._timer.daemon = True
            self._timer.start()
            self._began = time.perf_counter()

    def on_end(self, event: Any) -> None:
        global _seconds_spent
        if event.data["dispatcher"] in self.watched and self._timer is not None:
            self._timer.cancel()
            _seconds_spent += time.perf_counter() - self._began


_watch = _Watch()
numba.core.event.register("numba:compile", _watch)


def _layout(argument: Any) -> Any:
    # Determines the argument's Numba type at a fraction of the cost of numba.typeof.
    if isinstance(argument, np.ndarray):
        return argument.dtype.num, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return type(argument), tuple(map(_layout, argument))
    return type(argument)


class Kernel:
    """A function that Numba compiles on the first call with each combination of argument types.

    Functions that only other kernels call are plain ``numba.njit`` functions.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        # No parallel=True: Numba's thread layers abort on concurrent use (workqueue) or after a fork (OpenMP). Kernels
        # release the GIL instead, and Python threads run them on blocks of rows.
        try:
            self._dispatcher = numba.njit(function, nogil=True, cache=True)
        except RuntimeError:  # neither the package nor the user's cache folder is writable
            self._dispatcher = numba.njit(function, nogil=True)
        _watch.watched.add(self._dispatcher)
        self._compiled: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        layout = tuple(map(_layout, arguments))
        if layout not in self._compiled:
            self._dispatcher.compile(tuple(map(numba.typeof, arguments)))
            self._compiled.add(layout)
        return self._dispatcher(*arguments)
