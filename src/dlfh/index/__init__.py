"""The index: items found by their codes, in memory or on disk."""

from dlfh.index.approximate import ApproximateSearch
from dlfh.index.engines import create_index, open_index
from dlfh.index.hits import Hits
from dlfh.index.index import Index

__all__ = ["ApproximateSearch", "Hits", "Index", "create_index", "open_index"]
