"""The columns that a collection's index stores codes in.

A modality's column has an item's learned code, if its labels or training provide one, and otherwise its hashed code.
Items with a learned code have their hashed code in a second column: a learned code only represents the labels, and the
hashed code distinguishes items with the same labels.

Where the model has label probabilities, a column has those of each item, in as many bytes as a code: 0 and 1 for the
labels that an item has, or else what all its modalities suggest. Another column per modality has what that one suggests
alone, so that an item can change in one modality.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Floats, Integers
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_vectors import ItemCodes
from dlfh.index import Index
from dlfh.index.items import Item

_HASHED, _LABELS = ":hashed", ":labels"
#: The column of label probabilities, which no modality may be called.
LABELS = "labels"
#: The key of the metadata that holds content hashes (`dlfh.collection.contents`).
CONTENTS = "contents"


def hashed_column(modality: str) -> str:
    """Return the column of the hashed codes of items that have learned ones."""
    return modality + _HASHED


def labels_column(modality: str) -> str:
    """Return the column of the label probabilities that a modality suggests."""
    return modality + _LABELS


def column_names(encoder: Encoder) -> tuple[str, ...]:
    """Return the columns of an index: one per modality, the second ones, and those of label probabilities."""
    names = encoder.modalities_
    labels = (LABELS, *map(labels_column, encoder.searchable_modalities())) if encoder.label_model else ()
    return (*names, *map(hashed_column, names), *labels)


def index_codes(encoder: Encoder, codes: ItemCodes, rows: Integers) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """Return the codes of some items as arguments of `Index.put`."""
    columns: dict[str, npt.NDArray[np.generic]] = {}
    learned: dict[str, npt.NDArray[np.generic]] = {}
    present: dict[str, npt.NDArray[np.generic]] = {}
    for name, hashed in codes.hashed.items():
        is_learned = codes.is_learned[name][rows]
        columns[name] = np.where(is_learned[:, None], codes.learned[name][rows], hashed[rows])
        learned[name], present[name] = is_learned, codes.present[name][rows]
        second = hashed_column(name)
        columns[second], present[second] = hashed[rows], is_learned & codes.present[name][rows]
    if encoder.label_model is not None:
        suggested = {name: values[rows] for name, values in codes.suggested_labels.items()}
        masks = {name: codes.present[name][rows] for name in suggested}
        known = codes.has_labels[rows]
        combined = encoder.combine_labels(suggested, masks)
        columns[LABELS] = np.where(known[:, None], codes.labels[rows], combined)
        learned[LABELS], present[LABELS] = known, known | np.logical_or.reduce([*masks.values()])
        for name, values in suggested.items():
            columns[labels_column(name)], present[labels_column(name)] = values, masks[name]
    return {"codes": columns, "learned": learned, "present": present}


def hashed_codes(item: Item, modalities: Sequence[str]) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the hashed codes of an item, in the modalities that it has."""
    return {name: item.codes.get(hashed_column(name), item.codes[name]) for name in modalities if name in item.codes}


def hashed_distances(
    index: Index, query: npt.NDArray[np.generic], modality: str, positions: Integers | None = None
) -> Floats:
    """Return the distances of the items' hashed codes from a query; infinity for items without the modality."""
    (second,) = index.distances(hashed_column(modality), query[None], positions)
    if np.isfinite(second).all():
        return second
    (first,) = index.distances(modality, query[None], positions)
    return np.where(np.isfinite(second), second, first)


def public_item(item: Item, modalities: Sequence[str]) -> Item:
    """Return an item as users see it: one code per modality, and metadata without content hashes."""
    return Item(
        item.id,
        without_contents(item.metadata),
        {name: item.codes[name] for name in modalities if name in item.codes},
        {name: item.states[name] for name in modalities},
    )


def without_contents(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata without content hashes."""
    if metadata is None or CONTENTS not in metadata:
        return metadata
    return {name: value for name, value in metadata.items() if name != CONTENTS}
