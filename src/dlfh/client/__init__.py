"""A client for a served collection (needs ``dlfh[client]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand

if TYPE_CHECKING:
    from dlfh.client.client import Client

__all__ = ["Client"]

__getattr__, __dir__ = import_on_demand(__name__, {"client": "Client"})
