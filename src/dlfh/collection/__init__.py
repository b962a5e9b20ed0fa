"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.collection._candidates import featurizers_for, recommended_model
    from dlfh.collection._choosing import Trial
    from dlfh.collection._collection import Built, Collection
    from dlfh.collection._encoder import Encoder, load
    from dlfh.collection._evaluated import Evaluated
    from dlfh.collection._evaluation import HeldOut, Quality, fit_and_evaluate, hold_out
    from dlfh.collection._found import Found, FoundItem
    from dlfh.collection._pictures import contact_sheet
    from dlfh.collection._syncing import Synced
    from dlfh.collection._trust import Trust

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
        "_candidates": "featurizers_for recommended_model",
        "_choosing": "Trial",
        "_collection": "Built Collection",
        "_encoder": "Encoder load",
        "_evaluated": "Evaluated",
        "_evaluation": "HeldOut Quality fit_and_evaluate hold_out",
        "_found": "Found FoundItem",
        "_pictures": "contact_sheet",
        "_syncing": "Synced",
        "_trust": "Trust",
    },
)
