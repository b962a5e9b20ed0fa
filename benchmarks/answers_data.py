"""Data sets for the studies of answers: icons with keywords, photographs with names and tags, IAPR TC-12 with captions.

The photographs and IAPR TC-12 are files in the folder ``DLFH_DATA`` (an environment variable); missing files are
skipped.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dlfh import Encoder
from dlfh.datasets import Items, load_dataset, read_arrays, read_items

__all__ = ["Setting", "draws_of_settings", "settings", "without_labels"]


@dataclass(frozen=True)
class Setting:
    """A data set, split into queries, initial items and items added later.

    Attributes
    ----------
    name : str
    queries, first, later : Items
        Queries, the items that a collection is built from, and the items added later.
    draw : int
        Number of the tenth that is added later.
    """

    name: str
    queries: Items
    first: Items
    later: Items
    draw: int = 0

    @classmethod
    def of(cls, name: str, items: Items, draw: int = 0) -> Setting:
        """Split off a fifth as queries and a tenth of the rest to add later, which differs between draws."""
        order = np.random.default_rng(0).permutation(len(items))
        queries, others = np.split(order, [len(items) // 5])
        n_later = len(others) // 10
        later, first = np.split(np.roll(others, -draw * n_later), [n_later])
        parts = [items.take(np.sort(part)) for part in (queries, first, later)]
        return cls(name, parts[0], parts[1], parts[2], draw)

    def encoder(self) -> Encoder:
        """Return the encoder that `dlfh build` makes with default options."""
        return Encoder.for_items(self.first)


def without_labels(items: Items) -> Items:
    """Return the items without their labels."""
    bare = [{key: value for key, value in entry.items() if key != "labels"} for entry in items.metadata]
    return replace(items, labels=None, metadata=bare)


def settings(data: Path, work: Path) -> Iterator[Setting]:
    """Yield the available data sets; ``work`` is a folder for unpacked archives."""
    for draws in draws_of_settings(data, work):
        yield draws[0]


def draws_of_settings(data: Path, work: Path) -> Iterator[list[Setting]]:
    """Yield each available data set several times, with other items to add later; large ones have fewer draws."""
    yield _draws("icons", icons(work))
    if (data / "photos.tar.xz").exists():
        yield _draws("photographs", photographs(data, work))
    if (data / "iapr_tc12.npz").exists():
        yield _draws("IAPR TC-12", iapr(data))


def _draws(name: str, items: Items) -> list[Setting]:
    return [Setting.of(name, items, draw) for draw in range(3 if len(items) < 2000 else 2)]


def icons(work: Path) -> Items:
    """Write the icons with categories as files and a table, and return them."""
    table = work / "icons" / "items.csv"
    if not table.exists():
        load_dataset("icons").labelled().write(work / "icons")
    return read_items(table, id="name", image="file", text="words", labels="categories")


def photographs(data: Path, work: Path) -> Items:
    """Return product photographs with names and tags."""
    table = work / "photos" / "items.csv"
    if not table.exists():
        with tarfile.open(data / "photos.tar.xz") as archive:
            archive.extractall(work / "photos", filter="data")
    return read_items(work / "photos" / "photos", table=table, id="id", image="file", text="name", labels="tags")


def iapr(data: Path) -> Items:
    """Return every fourth photograph; captions consist of word numbers, repeated by their counts."""
    file = read_arrays(data / "iapr_tc12.npz")
    rows = np.arange(0, file["image"].shape[0], 4)
    captions, labels = file["english"].tocsr()[rows], file["labels"].tocsr()[rows]
    texts = [
        " ".join(
            f"w{word}" for word, count in zip(caption.indices, caption.data, strict=True) for _ in range(int(count))
        )
        for caption in (captions[[row]].tocsr() for row in range(len(rows)))
    ]
    names = [[f"l{label}" for label in labels[[row]].tocsr().indices] for row in range(len(rows))]
    keep = np.array([bool(text) and bool(item_labels) for text, item_labels in zip(texts, names, strict=True)])
    images = file["image"][rows].astype(np.float32)
    ids = [f"p{row}" for row in rows]
    return Items.of({"image": images, "text": texts}, names, ids).take(np.flatnonzero(keep))
