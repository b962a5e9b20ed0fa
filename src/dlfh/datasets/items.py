"""Items: raw texts, images and vectors, with ids, labels and metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh._validation import check_features
from dlfh.datasets.label_cells import parse_labels
from dlfh.datasets.problem import LABEL_WORDS, RESERVED_NAMES, Problem
from dlfh.errors import InputError


@dataclass(frozen=True)
class Items:
    """Items described by raw texts, image files or vectors.

    Attributes
    ----------
    ids : list of str
        Unique.
    modalities : dict of str to list or matrix
        For each modality, one text (str), image (Path) or matrix row per item; in lists, None where an item lacks it.
    labels : list of list of str, or None
        Labels of each item, an empty list if they are unknown; None if no item has labels.
    metadata : list of dict
        Values that an index stores for display: texts, image paths, labels and further columns.
    places : list of str
        Position of each item in the input, for messages.
    problems : list of Problem
        Input that was skipped.
    named : bool
        Whether the input contained ids; otherwise they are row numbers, which are not unique across inputs.
    max_skipped : float
        Maximum share of unreadable values in a modality when the items are encoded; if there are more, InputError is
        raised.
    """

    ids: list[str]
    modalities: dict[str, Any]
    labels: list[list[str]] | None
    metadata: list[dict[str, Any]]
    places: list[str]
    problems: list[Problem]
    named: bool = True
    max_skipped: float = 1.0

    @classmethod
    def of(
        cls,
        modalities: Mapping[str, Any],
        labels: Sequence[Sequence[str]] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Items:
        """Create items from values in memory.

        Parameters
        ----------
        modalities : dict of str to list or matrix
            For each modality, one text, image path or matrix row per item; in lists, None where an item lacks it.
        labels : sequence of lists of str, optional
            Labels of each item; an empty list if they are unknown.
        ids : sequence of str, optional
            By default the row numbers.

        Examples
        --------
        >>> items = Items.of({"english": ["a car", None], "german": ["ein Auto", "ein Hund"]}, [["car"], ["dog"]])
        >>> items.ids, items.present("english").tolist(), items.metadata[1]
        (['0', '1'], [True, False], {'german': 'ein Hund', 'labels': ['dog']})
        """
        columns = {
            name: list(values) if isinstance(values, (list, tuple)) else check_features(values, name)
            for name, values in modalities.items()
        }
        if not columns:
            raise InputError("items need at least one modality")
        check_modality_names(columns)
        label_lists = None if labels is None else [parse_labels(each, None) for each in labels]
        return drop_unusable(make_items(columns, label_lists, ids, "item"))

    def __len__(self) -> int:
        return len(self.ids)

    def present(self, modality: str) -> Mask:
        """Return a boolean mask of the items that have a modality."""
        values = self.modalities[modality]
        if isinstance(values, list):
            return np.array([value is not None for value in values], bool)
        return np.ones(len(self), bool)

    def labelled(self) -> Mask:
        """Return a boolean mask of the items that have labels."""
        return np.array([bool(labels) for labels in self.labels or [[]] * len(self)], bool)

    def complete(self) -> Mask:
        """Return a boolean mask of the items that have labels and every modality."""
        return np.logical_and.reduce([self.labelled(), *map(self.present, self.modalities)])

    def with_label_words(self) -> Items:
        """Add the labels as a text modality, ``label``, so that items with one modality have two.

        Examples
        --------
        >>> items = Items.of({"text": ["a red car", "a dog"]}, [["car", "red"], []]).with_label_words()
        >>> items.modalities["label"]
        ['car, red', None]
        """
        if LABEL_WORDS in self.modalities or self.labels is None:
            return self
        words = [", ".join(labels) or None for labels in self.labels]
        return replace(self, modalities={**self.modalities, LABEL_WORDS: words})

    def take(self, rows: Iterable[int]) -> Items:
        """Return the items in ``rows``; the result has no ``problems``."""
        chosen = np.fromiter(rows, np.int64)
        return replace(
            self,
            ids=_take(self.ids, chosen),
            modalities={name: _take(values, chosen) for name, values in self.modalities.items()},
            labels=None if self.labels is None else _take(self.labels, chosen),
            metadata=_take(self.metadata, chosen),
            places=_take(self.places, chosen),
            problems=[],
        )


def make_items(
    modalities: dict[str, Any], labels: list[list[str]] | None, ids: Sequence[str] | None, noun: str
) -> Items:
    """Create items from lists and matrices of equal length; messages call each item ``noun`` and its number."""
    counts = {
        f"modality {name!r}": len(values) if isinstance(values, list) else values.shape[0]
        for name, values in modalities.items()
    }
    counts |= {name: len(values) for name, values in (("labels", labels), ("ids", ids)) if values is not None}
    (first, n), *others = counts.items()
    for name, count in others:
        if count != n:
            raise InputError(f"{name} has {count} rows but {first} has {n}")
    names = [str(name) for name in (range(n) if ids is None else ids)]
    metadata, places = item_metadata(modalities, labels, n), [f"{noun} {row}" for row in range(n)]
    return Items(names, modalities, labels, metadata, places, [], named=ids is not None)


def item_metadata(modalities: dict[str, Any], labels: list[list[str]] | None, n: int) -> list[dict[str, Any]]:
    """Return the texts, image paths and labels of each item, for display."""
    metadata: list[dict[str, Any]] = []
    for row in range(n):
        values = {name: column[row] for name, column in modalities.items() if isinstance(column, list)}
        shown = {name: str(value) for name, value in values.items() if isinstance(value, (str, os.PathLike))}
        metadata.append(shown | ({"labels": labels[row]} if labels and labels[row] else {}))
    return metadata


def _take(values: Any, rows: Integers) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def check_modality_names(names: Iterable[str]) -> None:
    """Raise InputError for a name that is reserved in item metadata."""
    if reserved := sorted(RESERVED_NAMES & {*names}):
        raise InputError(f"a modality cannot be called {reserved[0]!r}: choose another name")


def drop_unusable(items: Items) -> Items:
    """Drop items with an empty, invalid or repeated id or without any modality, and record the reasons."""
    reasons_at: dict[str, list[str]] = {}
    for problem in items.problems:
        reasons_at.setdefault(problem.where, []).append(problem.reason)
    lists = [values for values in items.modalities.values() if isinstance(values, list)]
    only_lists = len(lists) == len(items.modalities)
    problems, keep, empty = list(items.problems), [], set()
    place_of_id: dict[str, str] = {}
    for row, (name, place) in enumerate(zip(items.ids, items.places, strict=True)):
        if not name:
            reason = "the id is empty"
        elif name != name.encode(errors="ignore").decode():  # the name of a file in another encoding
            reason, place = "the id is not valid Unicode", place.encode(errors="replace").decode()
        elif name in place_of_id:
            reason = f"duplicate id {name!r}, first used at {place_of_id[name]}"
        elif only_lists and all(values[row] is None for values in lists):
            reasons = dict.fromkeys(reasons_at.get(place, []))
            reason = "; ".join([*reasons, f"the item has no {'other ' if reasons else ''}content"])
            empty.add(place)
        else:
            keep.append(row)
            place_of_id[name] = place
            continue
        problems.append(Problem(place, "item", reason))
    # An item that lacks every modality is one problem, not one per modality.
    problems = [problem for problem in problems if problem.where not in empty or problem.skipped == "item"]
    if not keep:
        raise InputError("no usable items" + (f": {problems[0]}" if problems else ""))
    usable = items if len(keep) == len(items) else items.take(keep)
    return replace(usable, problems=problems)
