"""The index: items found by their codes, in memory or on disk."""

from dlfh.index._approximate import ApproximateSearch
from dlfh.index._engines import create_index, open_index
from dlfh.index._hits import Hits
from dlfh.index._index import Index

__all__ = ["ApproximateSearch", "Hits", "Index", "create_index", "open_index"]
