"""Hash functions: how a point that training never saw gets its code."""

from dlfh.hashing.linear import LinearHash
from dlfh.hashing.moments import Targets

__all__ = ["LinearHash", "Targets"]
