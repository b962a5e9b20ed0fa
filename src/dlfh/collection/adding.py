"""Add items to a collection, and copy the items of one collection to another."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh.codes import n_bytes
from dlfh.collection.columns import CONTENTS, hashed_codes, index_codes, labels_column
from dlfh.collection.item_vectors import ItemCodes, ItemVectors, Training
from dlfh.collection.shortlist import columnar
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

#: Number of items that are copied in one step.
_BATCH = 5_000


def put_items(
    collection: Collection,
    items: Items,
    vectors: ItemVectors,
    *,
    training: Training | None = None,
    update: bool = False,
) -> list[Problem]:
    """Add items to a collection in one step; return the problems of those that are left out."""
    index = collection.index
    problems = list(vectors.problems)
    if not vectors.matrices:
        raise InputError("the items have none of the modalities of this collection")
    # Words of labels serve queries only; they are not enough to encode an item.
    described = [vectors.present(name) for name in vectors.matrices if name != LABEL_WORDS]
    has_code = np.logical_or.reduce([np.zeros(len(items), bool), *described])
    clash = not items.named and index.contains(items.ids).any()
    ids = _unused_numbers(index, len(items)) if clash else items.ids
    exists = index.contains(ids)
    accepted = has_code if update else has_code & ~exists
    for row in np.flatnonzero(~accepted):
        reason = "nothing in it can be read" if not has_code[row] else f"id {ids[row]!r} is already in the collection"
        problems.append(Problem(items.places[row], "item", reason))
    rows = np.flatnonzero(accepted)
    if not len(rows):
        return problems
    labels = [list(given) for given in items.labels] if items.labels is not None else [[] for _ in ids]
    metadata = [metadata_of(collection, items, int(row), vectors.contents[row]) for row in rows]
    old = {int(row): index.get(ids[row]) for row in rows[exists[rows]]}
    for place, row in enumerate(rows):
        if int(row) in old:
            before = old[int(row)].metadata or {}
            contents = before.get(CONTENTS, {}) | metadata[place].get(CONTENTS, {})
            metadata[place] = before | metadata[place] | ({CONTENTS: contents} if contents else {})
            labels[row] = labels[row] or list(before.get("labels", []))
    coded = collection.encoder.encode_items(vectors, labels, training)
    if old:
        modalities = collection.encoder.modalities_
        kept = {(row, name): item for row, item in old.items() for name in modalities if name in item.codes}
        fill_in_codes(collection, coded, labels, kept)
    columns: dict[str, Any] = index_codes(collection.encoder, coded, rows)
    index.put([ids[row] for row in rows], metadata=metadata, **columns)
    return problems


def _unused_numbers(index: Index, n: int) -> list[str]:
    start = len(index)
    while True:
        numbers = [str(number) for number in range(start, start + n)]
        taken = np.flatnonzero(index.contains(numbers))
        if not len(taken):
            return numbers
        start += int(taken[-1]) + 1


def fill_in_codes(
    collection: Collection, coded: ItemCodes, labels: list[list[str]], known: Mapping[tuple[int, str], Item]
) -> None:
    """Take codes that are missing, by row and modality, from items of the collection.

    A learned code is taken if the row's labels have one, or if they equal that item's labels.
    """
    modalities = collection.encoder.modalities_
    shape = len(labels), n_bytes(collection.encoder.n_bits)
    for name in modalities:
        coded.hashed.setdefault(name, np.zeros(shape, np.uint8))
        coded.learned.setdefault(name, np.zeros(shape, np.uint8))
        coded.present.setdefault(name, np.zeros(len(labels), bool))
        coded.is_learned.setdefault(name, np.zeros(len(labels), bool))
    for name in collection.encoder.searchable_modalities() if collection.encoder.label_model else ():
        coded.suggested_labels.setdefault(name, np.zeros(shape, np.uint8))
    by_labels, has_code = collection.encoder.codes_of_labels(labels, len(labels))
    for (row, name), item in known.items():
        if coded.present[name][row]:
            continue
        coded.hashed[name][row], coded.present[name][row] = hashed_codes(item, [name])[name], True
        if name in coded.suggested_labels:
            coded.suggested_labels[name][row] = item.codes[labels_column(name)]
        same = (item.metadata or {}).get("labels", []) == labels[row]
        if has_code[row] or (same and item.states[name] == "learned"):
            coded.learned[name][row] = by_labels[name][row] if has_code[row] else item.codes[name]
            coded.is_learned[name][row] = True


def metadata_of(collection: Collection, items: Items, row: int, contents: dict[str, str]) -> dict[str, Any]:
    """Return the metadata that the index stores; image paths are relative to the collection, so that both can move."""
    metadata = dict(items.metadata[row])
    for name, values in items.modalities.items():
        if isinstance(values, list) and isinstance(values[row], Path):
            metadata[name] = os.path.relpath(values[row], collection.path.resolve())
    return metadata | ({CONTENTS: contents} if contents else {})


def copy_items(source: Collection, target: Collection) -> None:
    """Copy all items of a collection to another with the same model, in insertion order."""
    items = (item._replace(metadata=_moved(item, source, target)) for item in source.index.items())
    while batch := list(itertools.islice(items, _BATCH)):
        target.index.put(**columnar(batch, target.index.n_bits, target.index.modalities))


def _moved(item: Item, source: Collection, target: Collection) -> dict[str, Any] | None:
    """Return an item's metadata with image paths relative to the target."""
    metadata = item.metadata
    images = [name for name in source.encoder.image_modalities() if isinstance((metadata or {}).get(name), str)]
    if metadata is None or not images:
        return metadata
    here, there = source.path.resolve(), target.path.resolve()
    return metadata | {name: os.path.relpath(here / metadata[name], there) for name in images}
