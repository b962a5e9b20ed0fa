"""Where values are processed: in this process, on an existing Dask cluster, or on one started on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dlfh._optional import require
from dlfh.blocks.dask import DaskValues
from dlfh.blocks.values import BlockValues
from dlfh.errors import InputError

#: The address that starts a cluster of processes on this machine.
LOCAL = "local"

#: Timeout for connecting to a cluster, in seconds.
_TIMEOUT = 20


@contextmanager
def connect(cluster: str | None) -> Iterator[Callable[[Sequence[Any]], BlockValues]]:
    """Yield a function that distributes values: in this process (None), or on the cluster at an address."""
    if cluster is None:
        yield BlockValues
        return
    distributed = require("distributed", "a cluster", "distributed")
    if cluster == LOCAL:
        options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
        with distributed.LocalCluster(**options) as local, distributed.Client(local):
            yield DaskValues.of
        return
    from distributed.comm.addressing import resolve_address

    try:
        resolve_address(cluster)  # or else a client of an invalid address would stay the default one, and block others
        client = distributed.Client(cluster, timeout=_TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {cluster!r}: {error!s:.200}") from None
    with client:
        yield DaskValues.of
