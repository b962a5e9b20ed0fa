"""Data sets by name, as the command line names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dlfh.bench.data import Source
from dlfh.datasets import (
    DATA_SETS,
    Paired,
    Split,
    load_dataset,
    load_icons,
    make_like,
    read_paired,
    read_split,
    shared_points,
)
from dlfh.datasets.descriptions import describe
from dlfh.errors import InputError

__all__ = ["load_source"]

_GENERATED = "generated:"


def load_source(name: str, file: Path | None = None, *, n_points: int | None = None) -> Source:
    """Return a data set by name.

    Parameters
    ----------
    name : str
        "icons"; a data set of `dlfh.datasets.DATA_SETS`, with its ``file``; "generated:" and the name of one that
        is to be imitated; or the path of a file that `dlfh.datasets.write_paired` or `write_split` wrote.
    file : path, optional
    n_points : int, optional
        How many points to generate.

    Examples
    --------
    >>> load_source("generated:wiki", n_points=100).name
    'Wiki-shaped (generated)'
    """
    if n_points is not None and not name.startswith(_GENERATED):
        raise InputError(f"only generated data can have any number of points: {_GENERATED}wiki, for example")
    if name.startswith(_GENERATED):
        description = describe(name.removeprefix(_GENERATED))
        return _of_split(make_like(description.key, n_points), like=description.key, is_generated=True)
    if file is not None:
        description = describe(name)
        return _of_split(load_dataset(description.key, file), like=description.key)
    if name == "icons":
        return _icons()
    if name in DATA_SETS:
        raise InputError(f"{name} does not come with dlfh: name its file with --data, or try {_GENERATED}{name}")
    return _own(Path(name))


def _own(path: Path) -> Source:
    if not path.exists():
        known = ", ".join(("icons", *DATA_SETS, f"{_GENERATED}wiki"))
        raise InputError(f"there is no data set and no file {str(path)!r}: data is {known}, or a file")
    try:
        return _of_split(read_split(path))
    except InputError:
        return Source.of(path.stem, {"all": read_paired(path)})


def _of_split(split: Split, like: str = "", is_generated: bool = False) -> Source:
    parts = {"train": split.train, "queries": split.queries}
    if split.database is not split.train:
        # A training set is usually drawn from the database: what it shares with it is not unseen.
        seen, _ = shared_points(split.database.modalities, split.train.modalities)
        rows = np.setdiff1d(np.arange(len(split.database)), seen)
        if len(rows):
            parts["unseen"] = split.database.take(rows)
    return Source.of(split.name, parts, split.notes, like=like, is_generated=is_generated)


def _icons() -> Source:
    from dlfh.features import BagOfWords, Gist

    icons = load_icons().labelled()
    words = BagOfWords(min_df=3)
    modalities = {
        "image": Gist().fit(icons.images).transform(icons.images),
        "text": words.fit(icons.texts).transform(icons.texts),
    }
    notes = (
        "Font Awesome's free icons (CC BY 4.0 by Fonticons, Inc.): GIST descriptors of the pictures, TF-IDF of the "
        "words that at least three icons have.",
    )
    return Source.of("icons", {"all": Paired(modalities, list(map(list, icons.labels)))}, notes)
