"""The states of a served collection: each request is answered from one state, while the next is prepared.

Refreshing an open index could show two states to one search, so every state has its own reader. When another process
changes the collection, the new state is opened and warmed up while the old one keeps answering, and then replaces it.
States without requests are released.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dlfh.codes import n_bytes
from dlfh.collection import Collection
from dlfh.collection.folder import open_items, read_card
from dlfh.errors import InputError
from dlfh.index.where import Value, names_of, parse_where, values_of

#: Columns with more than ``_MAX_VALUES`` values are not listed; others list the ``_MAX_LISTED`` most frequent.
_MAX_VALUES, _MAX_LISTED = 10_000, 200
#: The name of labels in filters, and the key of an item's metadata that holds the columns of its table.
_LABELS, _COLUMNS = "labels", "columns"


class State:
    """An immutable state of a collection, identified by its ``name``."""

    def __init__(self, collection: Collection, card: dict[str, Any]) -> None:
        self.collection, self.card = collection, card
        self.encoder, self.index, self.searcher = collection.encoder, collection.index, collection.searcher
        self.name = collection.index.state or ""
        self._lock = threading.Lock()
        self._computing: dict[str, threading.Lock] = {}
        self._computed: dict[str, Any] = {}

    @cached_property
    def facets(self) -> Facets:
        return Facets(item.metadata for item in self.index.items())

    def warm_up(self) -> None:
        """Load everything that the first search needs."""
        _ = self.facets
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._refreshing = threading.Lock()
        self.current = _open(folder)
        self._signature = self._read_signature()
        self.current.warm_up()

    def _read_signature(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the collection does: attributes of files, or a database's state."""
        names = ("collection.json", "items.json", "index/manifest.json")
        index = self.current.index
        state = None if index.address is None else index.state
        return (*(_file_signature(self.folder / name) for name in names), state)

    def refresh(self) -> bool:
        """Load the newest state if the collection has changed; return whether it did. Errors keep the old state."""
        with self._refreshing:
            signature = self._read_signature()
            if signature == self._signature:
                return False
            state = _open(self.folder, self.current)
            changed = state.name != self.current.name or state.card != self.current.card
            if changed:
                state.warm_up()
                self.current = state
            self._signature = signature
            return changed


def _file_signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _open(folder: Path, last: State | None = None) -> State:
    """Open a collection; reuse the encoder of the last state if it is the same."""
    card = read_card(folder)
    if last is not None and last.card == card:
        index = open_items(folder)
        if index.identity == card.get("index"):
            return State(Collection(last.encoder, index, last.collection.path), card)
        index.close()
    return State(Collection.open(folder), card)


class Facets:
    """The values that items can be filtered by, and their frequencies, from the metadata of all items."""

    def __init__(self, all_metadata: Iterable[Mapping[str, Any] | None]) -> None:
        self._counts: dict[str, Counter[tuple[type, Value]]] = {}
        self._names: set[str] = set()
        unlisted: set[str] = set()
        for metadata in all_metadata:
            columns = (metadata or {}).get(_COLUMNS)
            labels = [_LABELS] if _LABELS in (metadata or {}) else []
            for name in dict.fromkeys([*labels, *(columns if isinstance(columns, Mapping) else ())]):  # not texts
                values = values_of(metadata, name)
                self._names.update([name] if values else ())
                if name in unlisted or not values:
                    continue
                counts = self._counts.setdefault(name, Counter())
                counts.update({(type(value), value) for value in values})
                if len(counts) > _MAX_VALUES:
                    del self._counts[name]
                    unlisted.add(name)

    def check(self, where: Mapping[str, Any] | None) -> None:
        """Raise InputError if a filter names a label or column that no item has."""
        unknown = [] if where is None else sorted(names_of(parse_where(where)) - self._names)
        if unknown:
            known = ", ".join(map(repr, sorted(self._names))) or "no labels or columns"
            raise InputError(f"unknown name {unknown[0]!r} in where: items have {known}")

    @property
    def n_labels(self) -> int:
        return len(self._counts.get(_LABELS, ()))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return, by name, the most frequent values and the number of items that have each."""
        listed = {}
        for name, counts in self._counts.items():
            pairs = [(_shown(value), count) for (_, value), count in counts.items()]
            listed[name] = sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))[:_MAX_LISTED]
        return listed


def _shown(value: Value) -> Value:
    """Return a whole number as int: 3 for 3.0."""
    whole = not isinstance(value, (str, bool)) and value.is_integer() and abs(value) < 1 << 53
    return int(value) if whole else value
