"""Folders of images for sync tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dlfh import DLFH, Collection
from dlfh.collection.item_codes import hashed_codes
from dlfh.datasets import read_items
from tests.conftest import stripes

__all__ = ["assert_equal", "draw", "make_folder", "plain_model"]


def plain_model() -> DLFH:
    """Return a model whose stored hashed codes of training items equal those of `encode`.

    Ridge regressions store leave-one-out codes instead.
    """
    return DLFH(n_bits=16, hash_function="kernel", random_state=0)


def draw(path: Path, seed: int, level: bool) -> None:
    """Draw an image into a folder whose name is its label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stripes(int(level), seed).save(path)


def make_folder(folder: Path, n: int) -> None:
    """Create a folder of images of two kinds."""
    for number in range(n):
        kind = ("upright", "level")[number % 2]
        draw(folder / kind / f"{number}.png", number, kind == "level")


def assert_equal(shop: Path, photos: Path) -> None:
    """Assert that a collection has the texts, labels, codes and image paths of the items in a folder."""
    items = read_items(photos)
    with Collection.open(shop) as collection:
        collection.verify()
        assert {*items.ids} == {item.id for item in collection}
        for name in ("image", "text"):
            codes = collection.encoder.encode(name, items.modalities[name])
            for row, identifier in enumerate(items.ids):
                found = hashed_codes(collection.index.get(identifier), [name])[name]
                np.testing.assert_array_equal(found, codes[row])
        for row, identifier in enumerate(items.ids):
            metadata = collection.get(identifier).metadata or {}
            assert metadata["text"] == items.modalities["text"][row]
            assert metadata["labels"] == (items.labels or [])[row]
            path = collection.image_path(metadata)
            assert path is not None
            assert path.samefile(items.modalities["image"][row])
