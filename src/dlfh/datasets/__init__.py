"""Data: files of arrays, tables and folders of items, paired modalities with labels, and the data sets of the field."""

from dlfh.datasets._arrays import read_array, read_arrays, write_arrays
from dlfh.datasets._generated import make_paired
from dlfh.datasets._icons import load_icons
from dlfh.datasets._items import Items, read_items
from dlfh.datasets._layout import read_paired, read_split, write_paired, write_split
from dlfh.datasets._loaders import (
    load_iapr,
    load_mirflickr,
    load_nuswide,
    load_own,
    load_wiki,
)
from dlfh.datasets._paired import Paired
from dlfh.datasets._shapes import make_like
from dlfh.datasets._split import Split

__all__ = [
    "Items",
    "Paired",
    "Split",
    "load_iapr",
    "load_icons",
    "load_mirflickr",
    "load_nuswide",
    "load_own",
    "load_wiki",
    "make_like",
    "make_paired",
    "read_array",
    "read_arrays",
    "read_items",
    "read_paired",
    "read_split",
    "write_arrays",
    "write_paired",
    "write_split",
]
