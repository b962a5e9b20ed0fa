"""The index: items found by their codes, in memory or on disk."""

from dlfh.index.hits import Hit, Hits, Item
from dlfh.index.index import Index

__all__ = ["Hit", "Hits", "Index", "Item"]
