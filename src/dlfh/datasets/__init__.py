"""Data: files of arrays, tables and folders of items, paired modalities with labels, and the data sets of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.datasets._arrays import read_array, read_arrays, write_arrays
    from dlfh.datasets._generated import make_paired
    from dlfh.datasets._icons import load_icons
    from dlfh.datasets._items import Items, read_items
    from dlfh.datasets._layout import read_paired, read_split, write_paired, write_split
    from dlfh.datasets._loaders import load_iapr, load_mirflickr, load_nuswide, load_own, load_wiki
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

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "_arrays": "read_array read_arrays write_arrays",
        "_generated": "make_paired",
        "_icons": "load_icons",
        "_items": "Items read_items",
        "_layout": "read_paired read_split write_paired write_split",
        "_loaders": "load_iapr load_mirflickr load_nuswide load_own load_wiki",
        "_paired": "Paired",
        "_shapes": "make_like",
        "_split": "Split",
    },
)
