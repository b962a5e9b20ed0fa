"""The index: items found by their codes, in memory or on disk."""

from dlfh.index.approximate import ApproximateSearch
from dlfh.index.hits import Hit, Hits
from dlfh.index.index import Index
from dlfh.index.items import Item

__all__ = ["ApproximateSearch", "Hit", "Hits", "Index", "Item"]
