"""The index: items that are searched by their codes, in memory, in a folder or in a database."""

from dlfh.index.approximate import ApproximateSearch
from dlfh.index.index import Index

__all__ = ["ApproximateSearch", "Index"]
