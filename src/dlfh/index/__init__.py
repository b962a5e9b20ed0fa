"""The index: items found by their codes, in memory or on disk."""

from dlfh.index._approximate import ApproximateSearch
from dlfh.index._hits import Hit, Hits
from dlfh.index._index import Index
from dlfh.index._items import Item

__all__ = ["ApproximateSearch", "Hit", "Hits", "Index", "Item"]
