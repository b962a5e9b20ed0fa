"""Data: files of arrays, tables and folders of items, paired modalities with labels, and the data sets of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.datasets.arrays import read_array, read_arrays, write_arrays
    from dlfh.datasets.generated import make_paired
    from dlfh.datasets.icons import load_icons
    from dlfh.datasets.items import Items, read_items
    from dlfh.datasets.layout import read_paired, read_split, write_paired, write_split
    from dlfh.datasets.loaders import load_iapr, load_mirflickr, load_nuswide, load_own, load_wiki
    from dlfh.datasets.paired import Paired
    from dlfh.datasets.shapes import make_like
    from dlfh.datasets.split import Split

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
        "arrays": "read_array read_arrays write_arrays",
        "generated": "make_paired",
        "icons": "load_icons",
        "items": "Items read_items",
        "layout": "read_paired read_split write_paired write_split",
        "loaders": "load_iapr load_mirflickr load_nuswide load_own load_wiki",
        "paired": "Paired",
        "shapes": "make_like",
        "split": "Split",
    },
)
