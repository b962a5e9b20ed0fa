"""Reading data: items, arrays, paired modalities with labels, and the standard data sets of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand

if TYPE_CHECKING:
    from dlfh.datasets.arrays import read_arrays, write_arrays
    from dlfh.datasets.generated import make_paired
    from dlfh.datasets.items import Items
    from dlfh.datasets.loaders import load_dataset
    from dlfh.datasets.paired import Paired, Split
    from dlfh.datasets.reading import read_items

__all__ = ["Items", "Paired", "Split", "load_dataset", "make_paired", "read_arrays", "read_items", "write_arrays"]

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "arrays": "read_arrays write_arrays",
        "generated": "make_paired",
        "items": "Items",
        "loaders": "load_dataset",
        "paired": "Paired Split",
        "reading": "read_items",
    },
)
