"""Where work on parts is done: in this process, or on a Dask cluster that is there, or that is started here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dlfh._optional import require
from dlfh.blocks.dask import DaskHeld
from dlfh.blocks.held import Held
from dlfh.errors import InputError

__all__ = ["LOCAL", "held_on"]

#: What is asked for a cluster of processes on this machine.
LOCAL = "local"

#: Seconds to wait for a cluster's answer.
_PATIENCE = 20


@contextmanager
def held_on(cluster: str | None) -> Iterator[Callable[[Sequence[Any]], Held]]:
    """Yield a function that has values held where work is to be done: here (None), or on a cluster by its address.

    Examples
    --------
    >>> with held_on(None) as held:
    ...     held([1, 2]).map(lambda value: 10 * value).results()
    [10, 20]
    """
    if cluster is None:
        yield Held
        return
    distributed = require("distributed", "a cluster", "distributed")
    if cluster == LOCAL:
        options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
        with distributed.LocalCluster(**options) as local, distributed.Client(local):
            yield DaskHeld.of
        return
    try:
        client = distributed.Client(cluster, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {cluster!r}: {error!s:.200}") from None
    with client:
        yield DaskHeld.of
