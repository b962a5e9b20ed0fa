"""Data to try things on: paired modalities with labels."""

from dlfh.datasets.generated import make_paired
from dlfh.datasets.paired import Paired

__all__ = ["Paired", "make_paired"]
