"""Data: files of arrays, tables and folders of items, paired modalities with labels, and the data sets of the field."""

from dlfh.datasets._arrays import read_array, read_arrays, write_arrays
from dlfh.datasets._descriptions import DATA_SETS, Description, describe
from dlfh.datasets._generated import make_paired
from dlfh.datasets._icons import Icons, load_icons
from dlfh.datasets._items import Items, read_items
from dlfh.datasets._layout import read_paired, read_split, write_paired, write_split
from dlfh.datasets._leakage import shared_points
from dlfh.datasets._loaders import (
    OwnData,
    load_dataset,
    load_iapr,
    load_mirflickr,
    load_nuswide,
    load_own,
    load_wiki,
)
from dlfh.datasets._paired import Paired
from dlfh.datasets._shapes import make_like
from dlfh.datasets._split import Split
from dlfh.datasets._tables import Problem, Table, read_table

__all__ = [
    "DATA_SETS",
    "Description",
    "Icons",
    "Items",
    "OwnData",
    "Paired",
    "Problem",
    "Split",
    "Table",
    "describe",
    "load_dataset",
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
    "read_table",
    "shared_points",
    "write_arrays",
    "write_paired",
    "write_split",
]
