"""A collection copied elsewhere: its items, batch by batch, with the paths of their images from the new place."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from dlfh.collection.shortlist import arguments_of
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["copy_items"]

#: Items that are written in one step.
_BATCH = 5_000


def copy_items(source: Collection, target: Collection) -> None:
    """Put all items of a collection into another of the same model, in their order."""
    items = (item._replace(metadata=_moved(item, source, target)) for item in source.index.items())
    while batch := list(itertools.islice(items, _BATCH)):
        target.index.put(**arguments_of(batch, target.index.n_bits, target.index.modalities))


def _moved(item: Item, source: Collection, target: Collection) -> dict[str, Any] | None:
    """Return metadata whose paths of images, which are from a collection's folder, are from the other's."""
    metadata = item.metadata
    images = [name for name in source.encoder.image_modalities() if isinstance((metadata or {}).get(name), str)]
    if metadata is None or not images:
        return metadata
    here, there = source.path.resolve(), target.path.resolve()
    return metadata | {name: os.path.relpath(here / metadata[name], there) for name in images}
