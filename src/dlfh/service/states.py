"""The collection as it is now: one state at a time, whole, and the next one made ready beside it.

A reader of an index may be moved to a newer state, and a search that is under way would see two. So every state has a
reader of its own here. A request takes the current state once and is answered from it; when another process has
changed the collection, the new state is opened and warmed up beside the old one, which goes on answering, and then
takes its place. What nobody uses any more is let go of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dlfh.codes import n_bytes
from dlfh.collection import Collection
from dlfh.collection.folder import open_items, read_card
from dlfh.collection.shortlist import searcher_of
from dlfh.collection.words import WordsOfItems
from dlfh.service.facets import Facets

__all__ = ["State", "States"]


class State:
    """One state of a collection, which nothing changes.

    Parameters
    ----------
    collection : Collection
        Open for reading, and refreshed by nobody.
    card : dict
        What its folder said of itself.

    Attributes
    ----------
    collection : Collection
    searcher : Searcher
    facets : Facets
    name : str
        What tells it from all other states.
    """

    def __init__(self, collection: Collection, card: dict[str, Any]) -> None:
        self.collection = collection
        self.card = card
        self.encoder = collection.encoder
        self.index = collection.index
        self.name = collection.index.state or ""
        self._words = WordsOfItems(self.index, self.encoder.text_modalities(), collection.path)
        self.searcher = searcher_of(self.encoder, self.index, self._words)
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._made: dict[str, Any] = {}

    @cached_property
    def facets(self) -> Facets:
        return Facets(item.metadata for item in self.index.items())

    @cached_property
    def text_modality(self) -> str | None:
        """The modality that a text asks in: the one called text, or the first that takes texts."""
        texts = [name for name, own in self.encoder.featurizers_.items() if own.takes == "texts"]
        return "text" if "text" in texts else next(iter(texts), None)

    @cached_property
    def image_modality(self) -> str | None:
        """The modality that an image asks in."""
        images = self.encoder.image_modalities()
        return "image" if "image" in images else next(iter(images), None)

    def warm_up(self) -> None:
        """Do once what the first questions would wait for."""
        _ = self.facets
        if self.encoder.text_modalities():
            self._words.now()
        nothing = np.zeros((1, n_bytes(self.index.n_bits)), np.uint8)
        for name in self.encoder.searchable():
            self.index.search(name, nothing, 1, n_jobs=1)

    def warm_up_changes(self) -> None:
        """Do once what the first change would wait for: learning a code for labels that are new together compiles."""
        labels = [str(value) for value, _ in self.facets.values().get("labels", ())]
        self.encoder.codes_of_labels([labels], 1)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` gives, made once for this state; who asks for something else does not wait for it."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]


class States:
    """The states of the collection in a folder, one after the other.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._refreshing = threading.Lock()
        self.current = _open(folder)
        self._mark = self._look()
        self.current.warm_up()

    def _look(self) -> tuple[Any, ...]:
        """Return what changes whenever another state is there: which files name it."""
        marks = tuple(_mark_of(self.folder / name) for name in ("collection.json", "items.json", "index/manifest.json"))
        index = self.current.index
        return (*marks, None if index.address is None else index.state)

    def refresh(self) -> bool:
        """Take the newest state, if the folder has another; return whether it did.

        A folder that is not whole, such as one that is being replaced, leaves the old state where it is, and raises.
        """
        with self._refreshing:
            mark = self._look()
            if mark == self._mark:
                return False
            state = _open(self.folder, self.current)
            changed = state.name != self.current.name or state.card != self.current.card
            if changed:
                state.warm_up()
                self.current = state
            self._mark = mark
            return changed


def _mark_of(path: Path) -> tuple[int, ...] | None:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def _open(folder: Path, last: State | None = None) -> State:
    """Open a collection, with the encoder of its last state if it is the same."""
    card = read_card(folder)
    if last is not None and last.card == card:
        index = open_items(folder)
        if index.identity == card.get("index"):
            return State(Collection(last.encoder, index, last.collection.path), card)
        index.close()
    collection = Collection.open(folder)
    for featurizer in collection.encoder.featurizers_.values():
        featurizer.verbose = False
    return State(collection, card)
