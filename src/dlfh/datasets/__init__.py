"""Data to try things on: paired modalities with labels."""

from dlfh.datasets.generated import make_paired
from dlfh.datasets.icons import Icons, load_icons
from dlfh.datasets.paired import Paired

__all__ = ["Icons", "Paired", "load_icons", "make_paired"]
