"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from dlfh.collection._build import Built, build_collection, hashed_databases, hold_items_out, index_items
from dlfh.collection._collection import Collection, Found
from dlfh.collection._encoder import Encoder, choose_features, load
from dlfh.collection._evaluation import Database, Quality, measure
from dlfh.collection._pictures import contact_sheet, write_picture

__all__ = [
    "Built",
    "Collection",
    "Database",
    "Encoder",
    "Found",
    "Quality",
    "build_collection",
    "choose_features",
    "contact_sheet",
    "hashed_databases",
    "hold_items_out",
    "index_items",
    "load",
    "measure",
    "write_picture",
]
