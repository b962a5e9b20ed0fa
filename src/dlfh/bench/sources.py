"""Data sets by name, as the command line names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dlfh.bench.data import Source
from dlfh.datasets import Paired, Split, load_dataset
from dlfh.datasets.descriptions import DATA_SETS, GENERATED, canonical_name, describe
from dlfh.datasets.leakage import shared_points
from dlfh.datasets.loaders import load_file
from dlfh.errors import InputError

__all__ = ["load_source"]


def load_source(name: str, file: Path | None = None, *, n_points: int | None = None) -> Source:
    """Return a data set by name.

    Parameters
    ----------
    name : str
        "icons"; a data set of `dlfh.datasets.DATA_SETS`, with its ``file``; "generated:" and the name of one that
        is to be imitated; or the path of a file that `dlfh.datasets.load_dataset` reads.
    file : path, optional
    n_points : int, optional
        How many points to generate.

    Examples
    --------
    >>> load_source("generated:wiki", n_points=100).name
    'Wiki-shaped (generated)'
    """
    name = canonical_name(name)
    if name.startswith(GENERATED):
        return _generated(name.removeprefix(GENERATED), file, n_points)
    if n_points is not None:
        raise InputError(f"only generated data can have any number of points: {GENERATED}wiki, for example")
    if name == "icons":
        return _icons(file)
    if file is not None:
        return _of_split(load_dataset(name, file), like=describe(name).key)
    if name in DATA_SETS:
        raise InputError(f"{name} does not come with dlfh: name its file with --file, or try {GENERATED}{name}")
    return _own(Path(name))


def _generated(key: str, file: Path | None, n_points: int | None) -> Source:
    if file is not None:
        raise InputError(f"{GENERATED}{key} is generated, not read: omit --file, or load the file as {key}")
    return _of_split(load_dataset(GENERATED + key, n_points=n_points), like=key)


def _own(path: Path) -> Source:
    if not path.exists():
        known = ", ".join(("icons", *DATA_SETS, f"{GENERATED}wiki"))
        raise InputError(f"there is no data set and no file {str(path)!r}: data is {known}, or a file")
    loaded = load_file(path)
    return Source.of(loaded.name, _with_unseen(loaded.parts), loaded.notes)


def _of_split(split: Split, like: str) -> Source:
    parts = {"train": split.train, "queries": split.queries}
    if split.database is not split.train:
        parts["database"] = split.database
    return Source.of(
        split.name,
        _with_unseen(parts),
        split.notes,
        like=like,
        as_published=split.as_published,
    )


def _with_unseen(parts: dict[str, Paired]) -> dict[str, Paired]:
    """Return the parts with what training never saw of the database, if there is any, in the database's place."""
    if "database" not in parts:
        return parts
    # A training set is usually drawn from the database: what it shares with it is not unseen.
    seen, _ = shared_points(parts["database"].modalities, parts["train"].modalities)
    rows = np.setdiff1d(np.arange(len(parts["database"])), seen)
    unseen = {"unseen": parts["database"].take(rows)} if len(rows) else {}
    return {"train": parts["train"], "queries": parts["queries"], **unseen}


def _icons(file: Path | None) -> Source:
    from dlfh.features import BagOfWords, Gist

    if file is not None:
        raise InputError('the icons come with the extra "icons", not from a file: omit --file')
    icons = load_dataset("icons").labelled()
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
