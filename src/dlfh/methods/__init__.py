"""One file per method, over a small base."""

from dlfh.methods.base import CrossModalHasher, load
from dlfh.methods.dlfh import DLFH

__all__ = ["DLFH", "CrossModalHasher", "load"]
