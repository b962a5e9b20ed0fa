"""Run functions over blocks of rows in threads, limit the threads of BLAS, and cancel long computations.

Kernels and BLAS never run at the same time, so their thread counts do not multiply. Each call creates its own pool, so
several Python threads may call the library concurrently, and a forked child inherits no pool.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import numpy as np

from dlfh._validation import Features, is_integer, shown
from dlfh.errors import InputError

Result = TypeVar("Result")
_thread = threading.local()
_MAX_THREADS = 1024
#: Size of a chunk of dense rows in bytes: a fraction of a processor's last-level cache.
_CHUNK_BYTES = 8 << 20
_MIN_BLOCK_COST = 1e6  #: Minimum work per block, in steps of at most one nanosecond; less is not worth a thread.


def row_chunks(features: Features, extra_columns: int = 0, chunk_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of chunks of rows that, as dense rows, take ``chunk_bytes``; by default they fit in a cache."""
    width = extra_columns + (features.shape[1] if isinstance(features, np.ndarray) else 0)
    row_bytes = width * np.result_type(features.dtype, np.float32).itemsize
    rows = max(64, (chunk_bytes or _CHUNK_BYTES) // row_bytes)
    for start in range(0, features.shape[0], rows):
        yield start, min(start + rows, features.shape[0])


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for a value of ``n_jobs``; None and -1 mean all cores."""
    if n_jobs is None:
        return available_cores()
    if not is_integer(n_jobs) or n_jobs == 0 or n_jobs < -1 or n_jobs > _MAX_THREADS:
        raise InputError(
            f"n_jobs must be an integer from 1 to {_MAX_THREADS}, or -1 or None for all cores, got {shown(n_jobs)}"
        )
    return available_cores() if n_jobs == -1 else int(n_jobs)


class Workers(AbstractContextManager["Workers"]):
    """Threads that run a function over blocks of rows."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = resolve_n_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def map_blocks(self, function: Callable[[int, int], Result], n_rows: int, block_rows: int) -> list[Result]:
        """Return ``function(start, stop)`` for consecutive blocks that cover ``range(n_rows)``."""
        bounds = _bounds(n_rows, block_rows)
        if self.n_jobs == 1 or len(bounds) == 1:
            return [function(start, stop) for start, stop in bounds]
        return list(self._threads().map(lambda bound: function(*bound), bounds))

    def each_block(self, function: Callable[[int, int], Result], n_rows: int, block_rows: int) -> Iterator[Result]:
        """Yield ``function(start, stop)`` for consecutive blocks, a few of which are computed ahead.

        The function may call BLAS, which has one thread in each of the threads, so that results do not depend on the
        number of threads. It must not use these workers itself.
        """
        bounds = _bounds(n_rows, block_rows)
        if self.n_jobs == 1 or len(bounds) == 1:
            yield from (function(start, stop) for start, stop in bounds)
            return
        pool, pending = self._threads(), deque[Future[Result]]()
        with blas_threads(1):
            for bound in bounds:
                pending.append(pool.submit(function, *bound))
                if len(pending) > self.n_jobs:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="dlfh")
        return self._pool

    def even_block(self, n_rows: int, row_cost: float) -> int:
        """Return a block size that gives each thread several blocks, but no block with less than the minimum work."""
        # ``row_cost`` is the work per row in steps, of which a core executes at least 1e9 per second.
        if self.n_jobs == 1:
            return max(n_rows, 1)
        smallest = int(_MIN_BLOCK_COST / max(row_cost, 1.0))
        return max(smallest, -(-n_rows // (4 * self.n_jobs)), 1)


def _bounds(n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    return [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]


class _BlasLimit:
    """Applies the smallest of the active limits, and restores the original setting when the last one ends.

    BLAS has one thread count per process, and overlapping calls in several Python threads could restore it in the wrong
    order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[int] = []
        self._original: Any = None

    @staticmethod
    @functools.cache
    def _controller() -> Any:
        import scipy.linalg  # noqa: F401  (loads SciPy's BLAS, so that the controller finds it; not needed to search)
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
                self._original = self._original or limiter
            self._active = active  # only after BLAS accepted the limit
            if not active:
                self._original.restore_original_limits()
                self._original = None
            self._release_control()

    def restore(self) -> None:
        if self._original is not None:
            self._release_control()
            self._original.restore_original_limits()

    def _release_control(self) -> None:
        # threadpoolctl lets only one thread set limits; the lock above makes it safe for all.
        for library in self._controller().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_blas_limit = _BlasLimit()


def _reset_blas_limit() -> None:
    """Discard, in a forked child, the limits set by calls that are running in the parent."""
    global _blas_limit
    inherited, _blas_limit = _blas_limit, _BlasLimit()
    inherited.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_blas_limit)


@contextmanager
def blas_threads(n_jobs: int | None) -> Iterator[None]:
    """Limit BLAS to ``n_jobs`` threads; None keeps the user's configuration."""
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


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Make every `checkpoint` in this thread call ``check``, which raises an exception to cancel the computation."""
    previous = getattr(_thread, "check", None)
    _thread.check = check
    try:
        yield
    finally:
        _thread.check = previous


def checkpoint() -> None:
    """Raise an exception if this thread's computation has been cancelled."""
    if (check := getattr(_thread, "check", None)) is not None:
        check()
