"""One file per method, over a small base."""

from dlfh.methods.base import CrossModalHasher, load
from dlfh.methods.dlfh import DLFH
from dlfh.methods.kdlfh import KDLFH

__all__ = ["DLFH", "KDLFH", "METHODS", "CrossModalHasher", "load"]

#: The methods by name, as saved models name them.
METHODS: dict[str, type[CrossModalHasher]] = {method.__name__: method for method in (DLFH, KDLFH)}
