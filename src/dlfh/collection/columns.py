"""Where the index of a collection keeps the codes of items.

A modality's own column has an item's learned code, if its labels or training gave it one, and else its hashed code.
Items with a learned code keep their hashed one as well, in a second column: a learned code says nothing but the labels,
and the hashed one tells items of the same labels apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dlfh.collection.contents import without_contents
from dlfh.collection.item_vectors import ItemCodes
from dlfh.index import Index
from dlfh.index.items import Item

__all__ = ["column_names", "hashed_codes", "hashed_column", "hashed_distances", "index_codes", "without_columns"]

_SUFFIX = ":hashed"


def hashed_column(modality: str) -> str:
    """Return the column of hashed codes of items that have learned ones.

    Examples
    --------
    >>> hashed_column("image")
    'image:hashed'
    """
    return modality + _SUFFIX


def column_names(modalities: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of an index: the modalities, and a second one of each."""
    names = tuple(modalities)
    return (*names, *map(hashed_column, names))


def index_codes(codes: ItemCodes, rows: npt.NDArray[np.int64]) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """Return the codes of some items as `Index.put` takes them: codes, and which are learned and present."""
    columns: dict[str, npt.NDArray[np.generic]] = {}
    learned: dict[str, npt.NDArray[np.generic]] = {}
    present: dict[str, npt.NDArray[np.generic]] = {}
    for name, hashed in codes.hashed.items():
        own, is_learned = hashed[rows], codes.is_learned[name][rows]
        columns[name] = np.where(is_learned[:, None], codes.learned[name][rows], own)
        learned[name], present[name] = is_learned, codes.present[name][rows]
        columns[hashed_column(name)], present[hashed_column(name)] = own, is_learned & codes.present[name][rows]
    return {"codes": columns, "learned": learned, "present": present}


def hashed_codes(item: Item, modalities: Sequence[str]) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the hashed codes of an item, in the modalities that it has."""
    return {name: item.codes.get(hashed_column(name), item.codes[name]) for name in modalities if name in item.codes}


def hashed_distances(
    index: Index, query: npt.NDArray[np.generic], modality: str, positions: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float64]:
    """Return how far the hashed codes of items are from a query; infinity for items without the modality."""
    (second,) = index.distances(hashed_column(modality), query[None], positions)
    if np.isfinite(second).all():
        return second
    (first,) = index.distances(modality, query[None], positions)
    return np.where(np.isfinite(second), second, first)


def without_columns(item: Item, modalities: Sequence[str]) -> Item:
    """Return an item as users see it: one code for each modality."""
    return Item(
        item.id,
        without_contents(item.metadata),
        {name: item.codes[name] for name in modalities if name in item.codes},
        {name: item.states[name] for name in modalities},
    )
