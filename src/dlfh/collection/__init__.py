"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection
    from dlfh.collection.encoder import Encoder, load
    from dlfh.collection.pictures import contact_sheet
    from dlfh.collection.result import ResultItem, SearchResult
    from dlfh.collection.syncing import SyncResult

__all__ = [
    "Collection",
    "Encoder",
    "ResultItem",
    "SearchResult",
    "SyncResult",
    "contact_sheet",
    "load",
]

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "collection": "Collection",
        "encoder": "Encoder load",
        "result": "ResultItem SearchResult",
        "pictures": "contact_sheet",
        "syncing": "SyncResult",
    },
)
