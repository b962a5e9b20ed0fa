"""How items get into a collection: their codes, learned ones by their labels, and what of them stays in an update."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh.codes import n_bytes
from dlfh.collection.columns import hashed_codes, index_codes
from dlfh.collection.contents import CONTENTS
from dlfh.collection.item_vectors import ItemCodes, ItemVectors, Training
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["fill_in_codes", "metadata_of", "put_items"]

Rows = npt.NDArray[np.int64]


def put_items(
    collection: Collection,
    items: Items,
    vectors: ItemVectors,
    *,
    training: Training | None = None,
    update: bool = False,
) -> list[Problem]:
    """Add items to a collection, in one step; return what was left out, and why."""
    index = collection.index
    problems = list(vectors.problems)
    if not vectors.matrices:
        raise InputError("the items have none of the modalities of this collection")
    # Labels alone describe no item: they are there to ask with.
    described = [vectors.present(name) for name in vectors.matrices if name != LABEL_WORDS]
    has_code = np.logical_or.reduce([np.zeros(len(items), bool), *described])
    clash = not items.named and index.contains(items.ids).any()
    ids = _free_numbers(index, len(items)) if clash else items.ids
    known = index.contains(ids)
    keep = has_code if update else has_code & ~known
    for row in np.flatnonzero(~keep):
        reason = "nothing of it can be read" if not has_code[row] else f"{ids[row]!r} is in the collection already"
        problems.append(Problem(items.places[row], "item", reason))
    rows = np.flatnonzero(keep)
    if not len(rows):
        return problems
    labels = [list(own) for own in items.labels] if items.labels is not None else [[] for _ in ids]
    metadata = [metadata_of(collection, items, int(row), vectors.contents[row]) for row in rows]
    replaced = [row for row, was_there in zip(rows, known[rows], strict=True) if was_there]
    old = {int(row): index.get(ids[row]) for row in replaced}
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
    index.put([ids[row] for row in rows], metadata=metadata, **index_codes(coded, rows))  # type: ignore[arg-type]
    return problems


def _free_numbers(index: Index, n: int) -> list[str]:
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
    """Fill in codes, by row and modality, that items of the collection have already.

    What was described anew stays. A learned code goes with labels: those of the row, or the same as that item's.
    """
    modalities = collection.encoder.modalities_
    shape = len(labels), n_bytes(collection.encoder.n_bits)
    for name in modalities:
        coded.hashed.setdefault(name, np.zeros(shape, np.uint8))
        coded.learned.setdefault(name, np.zeros(shape, np.uint8))
        coded.present.setdefault(name, np.zeros(len(labels), bool))
        coded.is_learned.setdefault(name, np.zeros(len(labels), bool))
    by_labels, has_code = collection.encoder.codes_of_labels(labels, len(labels))
    for (row, name), item in known.items():
        if coded.present[name][row]:
            continue
        coded.hashed[name][row], coded.present[name][row] = hashed_codes(item, [name])[name], True
        same = (item.metadata or {}).get("labels", []) == labels[row]
        if has_code[row] or (same and item.states[name] == "learned"):
            coded.learned[name][row] = by_labels[name][row] if has_code[row] else item.codes[name]
            coded.is_learned[name][row] = True


def metadata_of(collection: Collection, items: Items, row: int, contents: dict[str, str]) -> dict[str, Any]:
    """Return what the index keeps of an item: paths of images are from the collection, so that both can be moved."""
    metadata = dict(items.metadata[row])
    for name, values in items.modalities.items():
        if isinstance(values, list) and isinstance(values[row], Path):
            metadata[name] = os.path.relpath(values[row], collection.path.resolve())
    return metadata | ({CONTENTS: contents} if contents else {})
