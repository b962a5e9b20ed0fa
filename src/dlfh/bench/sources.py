"""Data sets by name, as the command line names them."""

from __future__ import annotations

from pathlib import Path

from dlfh.bench.data import Source
from dlfh.errors import InputError

__all__ = ["load_source"]

GENERATED = "generated:"


def load_source(name: str, file: Path | None = None, *, n_points: int | None = None) -> Source:
    """Return a data set by name.

    Parameters
    ----------
    name : str
        "icons"; a data set of `dlfh.datasets`, with its ``file``; "generated:" and the name of one that is to be
        imitated; or the path of a file.
    file : path, optional
    n_points : int, optional
        How many points to generate.
    """
    if name == "icons":
        return _icons()
    if name.startswith(GENERATED):
        return _generated(name.removeprefix(GENERATED), n_points)
    raise InputError(f"unknown data {name!r}")


def _icons() -> Source:
    from dlfh.datasets import Paired, load_icons
    from dlfh.features import BagOfWords, Gist

    icons = load_icons().labelled()
    words = BagOfWords(min_df=3)
    modalities = {
        "image": Gist().fit(icons.images).transform(icons.images),
        "text": words.fit(icons.texts).transform(icons.texts),
    }
    notes = (
        "Font Awesome's free icons (CC BY 4.0 by Fonticons, Inc.): GIST descriptors of the pictures, TF-IDF of the words "
        "that at least three icons have.",
    )
    return Source.of("icons", {"all": Paired(modalities, list(map(list, icons.labels)))}, notes)


def _generated(name: str, n_points: int | None) -> Source:
    from dlfh.datasets import make_paired

    return Source.of("generated", {"all": make_paired(n_points or 1000, random_state=0)})
