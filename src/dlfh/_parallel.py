"""Threads over blocks of rows, and a BLAS that keeps to the same number of threads.

Kernels and BLAS take turns, so their threads never multiply. Every pool belongs to one call, so
several Python threads may call into the library at once, and a forked child starts clean.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from types import TracebackType
from typing import Any, TypeVar

from dlfh._validation import shown
from dlfh.errors import InputError

Result = TypeVar("Result")

#: More threads than any machine runs at once; a system starts some tens of thousands at the most.
_MOST_THREADS = 1024

#: Elementary steps (about a nanosecond or less each) below which a block is not worth a hand-over.
_BLOCK_COST = 1e6


def available_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for (None and -1: every core)."""
    if n_jobs is None:
        return available_cores()
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if not whole or n_jobs == 0 or n_jobs < -1 or n_jobs > _MOST_THREADS:
        raise InputError(
            f"n_jobs must be a whole number from 1 to {_MOST_THREADS}, -1 or None for all cores, got {shown(n_jobs)}"
        )
    return available_cores() if n_jobs == -1 else int(n_jobs)


class Workers:
    """A few threads that run one function over blocks of rows.

    Examples
    --------
    >>> with Workers(n_jobs=2) as workers:
    ...     workers.map_blocks(lambda start, stop: stop - start, 10, 4)
    [4, 4, 2]
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = resolve_n_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def map_blocks(self, function: Callable[[int, int], Result], n_rows: int, block_rows: int) -> list[Result]:
        """Return ``function(start, stop)`` for consecutive blocks that cover ``range(n_rows)``."""
        bounds = [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]
        if self.n_jobs == 1 or len(bounds) == 1:
            return [function(start, stop) for start, stop in bounds]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="dlfh")
        return list(self._pool.map(lambda bound: function(*bound), bounds))

    def even_block(self, n_rows: int, row_cost: float) -> int:
        """Return a block size: a few blocks a thread, each worth the hand-over to it.

        ``row_cost`` is the work on one row in elementary steps, of which a core does about 1e9 or more
        a second.
        """
        if self.n_jobs == 1:
            return max(n_rows, 1)
        smallest = int(_BLOCK_COST / max(row_cost, 1.0))
        return max(smallest, -(-n_rows // (4 * self.n_jobs)), 1)


class _BlasLimit:
    """The smallest of the limits that are in force; what was before is restored when the last one ends.

    BLAS keeps one number of threads per process, so calls that overlap in several Python threads must
    not restore it in the wrong order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[int] = []
        self._before: Any = None

    @staticmethod
    @functools.cache
    def _controller() -> Any:
        import scipy.linalg  # noqa: F401  (loads SciPy's BLAS, so that the controller finds it)
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()

    def change(self, *, add: int | None = None, remove: int | None = None) -> None:
        with self._lock:
            active = [*self._active, *([] if add is None else [add])]
            if remove is not None:
                active.remove(remove)
            self._release_control()
            if active:
                limiter = self._controller().limit(limits=min(active), user_api="blas")
                self._before = self._before or limiter
            self._active = active  # not before: a limit that BLAS refuses is none
            if not active:
                self._before.restore_original_limits()
                self._before = None
            self._release_control()

    def restore(self) -> None:
        if self._before is not None:
            self._release_control()
            self._before.restore_original_limits()

    def _release_control(self) -> None:
        # threadpoolctl lets one thread set limits and ignores the others; the lock here does better.
        for library in self._controller().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_blas_limit = _BlasLimit()


def _reset_blas_limit() -> None:
    """Forget, in a forked child, the limits of calls that the child does not run."""
    global _blas_limit
    inherited, _blas_limit = _blas_limit, _BlasLimit()
    inherited.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_blas_limit)


@contextmanager
def blas_threads(n_jobs: int | None) -> Iterator[None]:
    """Keep BLAS to ``n_jobs`` threads; None leaves it as the user configured it."""
    if n_jobs is None:
        yield
        return
    limit = resolve_n_jobs(n_jobs)
    blas_limit = _blas_limit
    blas_limit.change(add=limit)
    try:
        yield
    finally:
        blas_limit.change(remove=limit)
