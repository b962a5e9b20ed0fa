"""From items to a collection in one go: learn, measure with items held out, encode, index."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dlfh._validation import check_integer
from dlfh.collection._collection import Collection, check_free
from dlfh.collection._encoder import Described, Encoder
from dlfh.collection._evaluation import Database, Quality, measure
from dlfh.datasets._items import Items
from dlfh.datasets._tables import Problem
from dlfh.errors import InputError
from dlfh.persistence._files import exclusive, try_lock

__all__ = ["Built", "build_collection", "hashed_databases", "hold_items_out", "index_items"]

#: Held while a collection is built; and for how many seconds its file may be without a holder and still be in use.
_LOCK, _YOUNG = ".building", 60.0


@dataclass(frozen=True)
class Built:
    """What `build_collection` made.

    Attributes
    ----------
    collection : Collection
        Open for reading.
    n_trained : int
        Items that codes were learned for.
    problems : list of Problem
        What of the items is left out, and why.
    qualities : list of Quality
        How well held-out items find the others, if some were held out.
    """

    collection: Collection
    n_trained: int
    problems: list[Problem]
    qualities: list[Quality]


def build_collection(
    folder: str | os.PathLike[str],
    items: Items,
    encoder: Encoder,
    *,
    hold_out: int = 0,
    learned: bool = True,
    random_state: int = 0,
) -> Built:
    """Fit an encoder to items, and make a collection of them; the folder appears when it is complete.

    Parameters
    ----------
    folder : path
        Where nothing is yet.
    items : Items
    encoder : Encoder
        It is fitted here.
    hold_out : int
        How many complete, labelled items, drawn at random, are kept out of training to measure with. They are in the
        collection in the end, like all others.
    learned : bool
        Whether the training items have their learned codes in the collection; if not, all items are hashed.
    random_state : int
        The seed of the draw.

    Returns
    -------
    Built
    """
    check_free(folder)
    held, rest = hold_items_out(items, hold_out, random_state)
    described, trained = encoder.fit_items(rest)
    asking = None if held is None else encoder.describe(held)
    qualities = []
    if held is not None:
        qualities = measure(encoder, held, hashed_databases(encoder, rest, described), described=asking)
    with _made_whole(folder, encoder) as collection:
        problems = collection.add(rest, described=described, trained=trained if learned else None)
        if held is not None:
            problems += collection.add(held, described=asking)
    return Built(Collection.open(folder), len(trained), [*items.problems, *problems], qualities)


def index_items(folder: str | os.PathLike[str], items: Items, encoder: Encoder) -> tuple[Collection, list[Problem]]:
    """Make a collection of items that a fitted encoder encodes; the folder appears when it is complete.

    Returns
    -------
    collection : Collection
        Open for reading.
    problems : list of Problem
        What of the items is left out, and why.
    """
    with _made_whole(folder, encoder) as collection:
        problems = collection.add(items)
    return Collection.open(folder), [*items.problems, *problems]


@contextmanager
def _made_whole(folder: str | os.PathLike[str], encoder: Encoder) -> Iterator[Collection]:
    """Give an empty collection to fill; it is in its place when the block ends, or nothing is there."""
    path = Path(folder)
    check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with exclusive(building / _LOCK), Collection.create(building / "whole", encoder, place=path) as collection:
            yield collection
        os.rename(building / "whole", path)  # takes the place of an empty folder too
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _sweep(path: Path) -> None:
    """Remove what builds of the same collection left when they were killed: folders whose lock nobody holds.

    A folder without the lock's file is somebody else's, whatever its name.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        mark = left / _LOCK
        if not mark.is_file() or time.time() - mark.stat().st_mtime < _YOUNG:
            continue  # a lock so young may be about to be taken
        lock = try_lock(mark)
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()


def hold_items_out(items: Items, hold_out: int, random_state: int) -> tuple[Items | None, Items]:
    """Return some labelled items that have every modality, if any are asked for, and the others."""
    check_integer(hold_out, "hold_out", 0)
    if not hold_out:
        return None, items
    complete = np.logical_and.reduce([items.present(name) for name in items.modalities]) & items.labelled()
    candidates = np.flatnonzero(complete)
    if hold_out > len(candidates) // 2:
        raise InputError(
            f"cannot hold out {hold_out} of {len(candidates)} complete, labelled items: half of them at most"
        )
    held = np.sort(np.random.default_rng(random_state).permutation(candidates)[:hold_out])
    return items.take(held), items.take(np.setdiff1d(np.arange(len(items)), held))


def hashed_databases(encoder: Encoder, items: Items, described: Described) -> dict[str, Database]:
    """Return the labelled items of each modality, with the codes that the hash functions give them."""
    coded = encoder.code(described)
    databases = {}
    for name in coded.codes:
        rows = np.flatnonzero(coded.present[name] & items.labelled())
        labels = items.take(rows).labels or []
        databases[name] = Database(coded.codes[name][rows], labels, np.zeros(len(rows), bool))
    return databases
