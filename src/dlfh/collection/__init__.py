"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.collection.candidates import featurizers_for, recommended_model
    from dlfh.collection.choosing import Trial
    from dlfh.collection.collection import Built, Collection
    from dlfh.collection.encoder import Encoder, load
    from dlfh.collection.evaluated import Evaluated
    from dlfh.collection.evaluation import HeldOut, Quality, fit_and_evaluate, hold_out
    from dlfh.collection.found import Found, FoundItem
    from dlfh.collection.pictures import contact_sheet
    from dlfh.collection.syncing import Synced
    from dlfh.collection.trust import Trust

__all__ = [
    "Built",
    "Collection",
    "Encoder",
    "Evaluated",
    "Found",
    "FoundItem",
    "HeldOut",
    "Quality",
    "Synced",
    "Trial",
    "Trust",
    "contact_sheet",
    "featurizers_for",
    "fit_and_evaluate",
    "hold_out",
    "load",
    "recommended_model",
]

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "candidates": "featurizers_for recommended_model",
        "choosing": "Trial",
        "collection": "Built Collection",
        "encoder": "Encoder load",
        "evaluated": "Evaluated",
        "evaluation": "HeldOut Quality fit_and_evaluate hold_out",
        "found": "Found FoundItem",
        "pictures": "contact_sheet",
        "syncing": "Synced",
        "trust": "Trust",
    },
)
