"""Data: files of arrays, and paired modalities with labels."""

from dlfh.datasets.arrays import read_array, read_arrays, write_arrays
from dlfh.datasets.generated import make_paired
from dlfh.datasets.paired import Paired

__all__ = ["Paired", "make_paired", "read_array", "read_arrays", "write_arrays"]
