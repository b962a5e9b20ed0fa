"""Load data sets by the names that the command line accepts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dlfh.bench.data import Source
from dlfh.datasets import Paired, load_dataset
from dlfh.datasets.descriptions import DATA_SETS, GENERATED, canonical_name, describe
from dlfh.datasets.leakage import shared_points
from dlfh.datasets.loaders import load_file
from dlfh.errors import InputError


def load_source(name: str, file: Path | None = None, *, n_points: int | None = None) -> Source:
    """Load a data set by name.

    name: "icons"; a key of `dlfh.datasets.descriptions.DATA_SETS`, with its ``file``; "generated:" and the name of a
        data set to imitate; or the path of an array file.
    n_points: Number of points to generate.
    """
    name = canonical_name(name)
    is_generated = name.startswith(GENERATED)
    if is_generated and file is not None:
        key = name.removeprefix(GENERATED)
        raise InputError(f"{name} is generated, not read: omit --file, or load the file as {key}")
    if n_points is not None and not is_generated:
        raise InputError(f"--points applies only to generated data, such as {GENERATED}wiki")
    if name == "icons":
        return _icons(file)
    if is_generated:
        split = load_dataset(name, n_points=n_points)
        parts = {"train": split.train, "queries": split.queries}
        return Source.of(split.name, parts, split.notes, like=name.removeprefix(GENERATED))
    if file is not None:
        description = describe(name)
        loaded = load_file(file, description)
        return Source.of(
            loaded.name,
            _with_unseen(loaded.parts),
            loaded.notes,
            like=description.key,
            as_published=loaded.as_published,
        )
    if name in DATA_SETS:
        raise InputError(f"{name} does not come with dlfh: name its file with --file, or try {GENERATED}{name}")
    if not Path(name).exists():
        known = ", ".join(("icons", *DATA_SETS, f"{GENERATED}wiki"))
        raise InputError(f"no data set or file {name!r}: data sets are {known}, or an array file")
    loaded = load_file(Path(name))
    return Source.of(loaded.name, _with_unseen(loaded.parts), loaded.notes)


def _with_unseen(parts: dict[str, Paired]) -> dict[str, Paired]:
    """Replace the database by its points that are not in the training set, if any."""
    if "database" not in parts:
        return parts
    # Training sets are usually drawn from the database; the points they share are not unseen.
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
        "Font Awesome's free icons (CC BY 4.0 by Fonticons, Inc.): GIST features of the pictures, TF-IDF of the words "
        "that occur in at least three icons.",
    )
    return Source.of("icons", {"all": Paired(modalities, list(map(list, icons.labels)))}, notes)
