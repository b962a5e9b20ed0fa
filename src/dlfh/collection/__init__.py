"""Collections: encode raw items, store their codes, search and evaluate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection
    from dlfh.collection.encoder import Encoder, load
    from dlfh.collection.query import SearchOptions

__all__ = ["Collection", "Encoder", "SearchOptions", "load"]

__getattr__, __dir__ = import_on_demand(
    __name__, {"collection": "Collection", "encoder": "Encoder load", "query": "SearchOptions"}
)
