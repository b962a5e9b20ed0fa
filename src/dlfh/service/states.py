"""The states of a served collection: each request is answered from one state, while the next is prepared.

Refreshing an open index could show two states to one search, so every state has its own reader. When another process
changes the collection, the new state is opened and warmed up while the old one keeps answering, and then replaces it.
States without requests are released.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dlfh.codes import n_bytes
from dlfh.collection import Collection
from dlfh.collection.folder import open_items, read_card
from dlfh.collection.titles import Titles, check_title
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.index.where import Condition, Group, Not, Value, Where, names_of, parse_where, values_of
from dlfh.service.completing import Completer, fold

#: Columns with more than ``_MAX_VALUES`` values are not listed; others list the ``_MAX_LISTED`` most frequent.
_MAX_VALUES, _MAX_LISTED = 10_000, 200
#: The name of labels in filters, and the key of an item's metadata that holds the columns of its table.
_LABELS, _COLUMNS = "labels", "columns"

Key = tuple[type, Value]  # a value and its type, since 1 equals True


class State:
    """An immutable state of a collection, identified by its ``name``; ``title`` is the column that titles come from."""

    def __init__(self, collection: Collection, card: dict[str, Any], title: str | None = None) -> None:
        self.collection, self.card = collection, card
        self.titles = Titles(collection.encoder.text_modalities(), title) if title else collection.titles
        self.encoder, self.index, self.searcher = collection.encoder, collection.index, collection.searcher
        self.name = collection.index.state or ""
        self._lock = threading.Lock()
        self._computing: dict[str, threading.Lock] = {}
        self._computed: dict[str, Any] = {}

    @cached_property
    def facets(self) -> Facets:
        return Facets(self.index.items(), self.titles)

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
            index = open_items(self.folder)
            if index.identity == card.get("index"):
                return State(Collection(last.encoder, index, last.collection.path), card, self.title)
            index.close()
        return State(Collection.open(self.folder), card, self.title)


def _file_signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class Facets:
    """The values that items can be filtered by, with their frequencies, and completions of labels and titles."""

    def __init__(self, items: Iterable[Item], title: Callable[[str, Mapping[str, Any] | None], str]) -> None:
        self._counts: dict[str, Counter[Key]] = {}
        self._names: set[str] = set()
        titles, unlisted = list[str](), set[str]()
        for item in items:
            titles.append(fold(title(item.id, item.metadata)))
            for name, values in filter_values(item.metadata):
                self._names.add(name)
                if name not in unlisted:
                    counts = self._counts.setdefault(name, Counter())
                    counts.update({(type(value), value) for value in values})
                    if len(counts) > _MAX_VALUES:
                        del self._counts[name]
                        unlisted.add(name)
        self._spellings: dict[str, dict[str, list[Value]]] = {}
        labels = most_frequent(self._counts.get(_LABELS, Counter()), _MAX_VALUES)
        self.completer = Completer([(str(shown(key)), count) for key, count in labels], titles)

    def resolve(self, where: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return a filter with names and values as the items spell them; raise InputError if no item has a name."""
        if where is None:
            return None
        parsed = parse_where(where)
        unknown = sorted(name for name in names_of(parsed) if self._name(name) not in self._names)
        if unknown:
            known = ", ".join(map(repr, sorted(self._names))) or "no labels or columns"
            raise InputError(f"unknown name {unknown[0]!r} in where: items have {known}")
        spelled = self._spelled(parsed)
        with suppress(InputError):  # nested too deeply in this form
            parse_where(spelled)
            return spelled
        return dict(where)

    def _spelled(self, where: Where) -> dict[str, Any]:
        match where:
            case Not(part):
                return {"not": self._spelled(part)}
            case Group(parts, every):
                return {"and" if every else "or": [self._spelled(part) for part in parts]}
            case Condition(name, "none"):
                return {self._name(name): None}
            case Condition(name, "in", values):
                name = self._name(name)
                return {name: [spelling for value in values for spelling in self._spellings_of(name, value)]}
            case Condition(name, operator, (value,)):
                return {self._name(name): {operator: value}}
        raise AssertionError(f"unknown filter {where!r}")

    def _name(self, name: str) -> str:
        if name in self._names:
            return name
        return next((known for known in sorted(self._names) if fold(known) == fold(name)), name)

    def _spellings_of(self, name: str, value: Value) -> list[Value]:
        """Return a value if an item has it or it is not a string, and otherwise its other spellings."""
        counts = self._counts.get(name, Counter())
        if not isinstance(value, str) or (str, value) in counts:
            return [value]
        if name not in self._spellings:
            spellings = self._spellings.setdefault(name, {})
            for kind, known in counts:
                if kind is str:
                    spellings.setdefault(fold(str(known)), []).append(known)
        return self._spellings[name].get(fold(value), [value])

    @property
    def n_labels(self) -> int:
        return len(self._counts.get(_LABELS, ()))

    def values(self) -> dict[str, list[tuple[Value, int]]]:
        """Return, by name, the most frequent values and the number of items that have each."""
        return {
            name: [(shown(key), count) for key, count in most_frequent(counts)] for name, counts in self._counts.items()
        }


def filter_values(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, list[Value]]]:
    """Yield the names that an item can be filtered by, its labels and columns but not its texts, and their values."""
    columns = (metadata or {}).get(_COLUMNS)
    labels = [_LABELS] if _LABELS in (metadata or {}) else []
    for name in dict.fromkeys([*labels, *(columns if isinstance(columns, Mapping) else ())]):
        if values := values_of(metadata, name):
            yield name, values


def most_frequent(counts: Counter[Key], n: int = _MAX_LISTED) -> list[tuple[Key, int]]:
    """Return the ``n`` most frequent values, with their types, and their counts."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], str(shown(pair[0]))))[:n]


def shown(key: Key) -> Value:
    """Return a value as JSON shows it, whole numbers as int: 3 for 3.0."""
    _, value = key
    whole = not isinstance(value, (str, bool)) and value.is_integer() and abs(value) < 1 << 53
    return int(value) if whole else value
