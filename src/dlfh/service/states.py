"""The states of a served collection: each request is answered from one state, while the next is prepared.

Refreshing an open index could show two states to one search, so every state has its own reader. When another process
changes the collection, the new state is opened and warmed up while the old one keeps answering, and then replaces it.
States without requests are released.
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
from dlfh.collection.titles import Titles, check_title
from dlfh.service.facets import Facets


class State:
    """An immutable state of a collection, identified by its ``name``; ``title`` is the column that titles come from."""

    def __init__(
        self, collection: Collection, card: dict[str, Any], title: str | None = None, last: State | None = None
    ) -> None:
        self.collection, self.card, self._last = collection, card, last
        self.titles = Titles(collection.encoder.text_modalities(), title) if title else collection.titles
        self.encoder, self.index, self.searcher = collection.encoder, collection.index, collection.searcher
        self.name = collection.index.state or ""
        self._lock = threading.Lock()
        self._computing: dict[str, threading.Lock] = {}
        self._computed: dict[str, Any] = {}

    @cached_property
    def facets(self) -> Facets:
        return Facets(self.index, self.titles, None if self._last is None else self._last.facets)

    def warm_up(self) -> None:
        """Load everything that the first search needs."""
        _ = self.facets
        self._last = None
        if self.encoder.text_modalities():
            self.searcher.words.current()
        zeros = np.zeros((1, n_bytes(self.index.n_bits)), np.uint8)
        for name in self.encoder.searchable_modalities():
            self.index.search(name, zeros, 1, n_jobs=1)
        for name in self.encoder.text_modalities()[:1]:
            words = getattr(self.encoder.featurizers_[name], "vocabulary_", ["a"])
            for _ in range(2):  # the first search of a process does not use compiled functions
                self.collection.search(name, words[len(words) // 2], 1)

    def warm_up_changes(self) -> None:
        """Compile the functions that learn label-set codes, so that the first change is fast."""
        labels = [str(value) for value, _ in self.facets.values().get("labels", ())]
        self.encoder.codes_of_labels([labels], 1)

    def once(self, name: str, compute: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``compute(self, *arguments)``, computed once per state and name; other names do not wait."""
        with self._lock:
            computing = self._computing.setdefault(name, threading.Lock())
        with computing:
            if name not in self._computed:
                self._computed[name] = compute(self, *arguments)
            return self._computed[name]


class States:
    """The current state of the collection in a folder."""

    def __init__(self, folder: Path, title: str | None = None) -> None:
        self.folder, self.title = folder, title
        self._refreshing = threading.Lock()
        self.current = self._open()
        check_title(title, (item.metadata for item in self.current.index.items()))
        self._signature = self._read_signature()
        self.current.warm_up()

    def _read_signature(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the collection does: attributes of files, or a database's state."""
        index = self.current.index
        files = [self.folder / name for name in ("collection.json", "items.json")]
        files += [] if index.folder is None else [index.folder / "manifest.json"]
        state = None if index.address is None else index.state
        return (*map(_file_signature, files), state)

    def refresh(self) -> bool:
        """Load the newest state if the collection has changed; return whether it did. Errors keep the old state."""
        with self._refreshing:
            signature = self._read_signature()
            if signature == self._signature:
                return False
            state = self._open(self.current)
            changed = state.name != self.current.name or state.card != self.current.card
            if changed:
                state.warm_up()
                self.current = state
            self._signature = signature
            return changed

    def _open(self, last: State | None = None) -> State:
        """Open the collection; reuse the encoder of the last state if it is the same."""
        card = read_card(self.folder)
        if last is not None and last.card == card:
            index = last.index.newer() or open_items(self.folder)
            if index.identity == card.get("index"):
                return State(Collection(last.encoder, index, last.collection.path), card, self.title, last)
            index.close()
        return State(Collection.open(self.folder), card, self.title)


def _file_signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
