"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from dlfh.collection._collection import Built, Collection
from dlfh.collection._encoder import Encoder, choose_featurizers, load
from dlfh.collection._evaluation import HeldOut, Quality, fit_and_evaluate, hold_out
from dlfh.collection._found import Found, FoundItem
from dlfh.collection._pictures import contact_sheet

__all__ = [
    "Built",
    "Collection",
    "Encoder",
    "Found",
    "FoundItem",
    "HeldOut",
    "Quality",
    "choose_featurizers",
    "contact_sheet",
    "fit_and_evaluate",
    "hold_out",
    "load",
]
