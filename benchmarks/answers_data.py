"""Three collections to ask: icons and their words, photographs with names and tags, IAPR TC-12 with its captions.

The photographs and IAPR TC-12 are files of the folder that the environment variable ``DLFH_DATA`` names; what is not
there is left out.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dlfh import Encoder
from dlfh.collection import featurizers_for, recommended_model
from dlfh.datasets import Items, load_icons, read_arrays, read_items

__all__ = ["Setting", "settings", "without_labels"]


@dataclass(frozen=True)
class Setting:
    """A data set, and who comes when.

    Attributes
    ----------
    name : str
    queries, first, later : Items
        Those that ask, those that a collection is built of, and those that are added.
    """

    name: str
    queries: Items
    first: Items
    later: Items

    @classmethod
    def of(cls, name: str, items: Items) -> Setting:
        """Draw who asks, a fifth, and who comes later, a tenth of the others."""
        order = np.random.default_rng(0).permutation(len(items))
        n_queries, n_later = len(items) // 5, (len(items) - len(items) // 5) // 10
        parts = np.split(order, [n_queries, n_queries + n_later])
        queries, later, first = (items.take(np.sort(part)) for part in parts)
        return cls(name, queries, first, later)

    def encoder(self) -> Encoder:
        """Return what `dlfh build` makes with no option but the columns."""
        return Encoder(dict(featurizers_for(self.first)), recommended_model(random_state=0))


def without_labels(items: Items) -> Items:
    """Return items that nobody has labelled."""
    bare = [{key: value for key, value in own.items() if key != "labels"} for own in items.metadata]
    return replace(items, labels=None, metadata=bare)


def settings(data: Path, work: Path) -> Iterator[Setting]:
    """Yield the data sets that are there; ``work`` is a folder for what has to be unpacked."""
    yield Setting.of("icons", icons(work))
    if (data / "photos.tar.xz").exists():
        yield Setting.of("photographs", photographs(data, work))
    if (data / "iapr_tc12.npz").exists():
        yield Setting.of("IAPR TC-12", iapr(data))


def icons(work: Path) -> Items:
    """Return the icons that have categories, as files and a table."""
    table = work / "icons" / "items.csv"
    if not table.exists():
        load_icons().labelled().write(work / "icons")
    return read_items(table, id="name", image="file", text="words", labels="categories")


def photographs(data: Path, work: Path) -> Items:
    """Return photographs of products, with names and tags."""
    table = work / "photos" / "items.csv"
    if not table.exists():
        with tarfile.open(data / "photos.tar.xz") as archive:
            archive.extractall(work / "photos", filter="data")
    return read_items(work / "photos" / "photos", table=table, id="id", image="file", text="name", labels="tags")


def iapr(data: Path) -> Items:
    """Return every fourth photograph; a caption is the numbers of its words, as often as it has them."""
    file = read_arrays(data / "iapr_tc12.npz")
    rows = np.arange(0, file["image"].shape[0], 4)
    captions, labels = file["english"].tocsr()[rows], file["labels"].tocsr()[rows]
    texts = [
        " ".join(f"w{word}" for word, count in zip(own.indices, own.data, strict=True) for _ in range(int(count)))
        for own in (captions[[row]].tocsr() for row in range(len(rows)))
    ]
    names = [[f"l{label}" for label in labels[[row]].tocsr().indices] for row in range(len(rows))]
    keep = np.array([bool(text) and bool(own) for text, own in zip(texts, names, strict=True)])
    images = file["image"][rows].astype(np.float32)
    ids = [f"p{row}" for row in rows]
    return Items.of({"image": images, "text": texts}, names, ids).take(np.flatnonzero(keep))
