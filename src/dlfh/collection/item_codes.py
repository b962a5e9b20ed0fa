"""Vectors and codes of items, which may lack modalities, and the index columns that store codes.

A modality's column has an item's learned code if its labels or training provide one, and otherwise its hashed code.
Items with a learned code store their hashed code in a second column: a learned code represents only the labels, while
the hashed code distinguishes items with the same labels.

If the model has label probabilities, one more column stores them, in as many bytes as a code: 0 and 1 for known labels,
otherwise a prediction from all modalities of the item. Two more columns per modality store the prediction from that
modality alone, so that one modality of an item can change: the probabilities in the same form, and a record of the
most distinctive labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Codes, Integers, Mask, Singles
from dlfh._validation import Features
from dlfh.codes import n_bytes
from dlfh.collection.contents import content_hashes
from dlfh.datasets.problem import Problem, check_skipped
from dlfh.errors import InputError
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.encoder import Encoder
    from dlfh.datasets.items import Items
    from dlfh.features.base import Featurizer

#: The column of label probabilities; a reserved name for modalities.
LABELS = "labels"
#: The metadata key of content hashes (`dlfh.collection.contents`).
CONTENTS = "contents"


@dataclass(frozen=True)
class ItemVectors:
    """Feature vectors of items."""

    n_items: int
    matrices: dict[str, Features]  # by modality, a row for each item with a readable value
    positions: dict[str, Integers]  # by modality, the item of each row, ascending
    problems: list[Problem]  # values that could not be read
    contents: list[dict[str, str]]  # by item, hashes of its images and vectors

    @classmethod
    def from_items(cls, featurizers: Mapping[str, Featurizer], items: Items, *, fit: bool = False) -> ItemVectors:
        """Apply featurisers to items, after fitting them if ``fit``."""
        check_modalities(featurizers, items, fit=fit)
        matrices, positions, problems = {}, {}, []
        files: dict[tuple[int, str], str] = {}  # hashes of the bytes that were decoded
        for name, values in items.modalities.items():
            rows = np.flatnonzero(items.present(name))
            given = [values[row] for row in rows] if isinstance(values, list) else values
            if fit and not len(rows):
                example = f": {items.problems[0]}" if items.problems else ""
                raise InputError(f"no item has the modality {name!r}{example}")
            featurizer = featurizers[name]
            readable = featurizer.fit_transform_readable(given) if fit else featurizer.transform_readable(given)
            matrices[name], positions[name] = readable.features, rows[readable.rows]
            failed = [Problem(items.places[rows[row]], name, why) for row, why in sorted(readable.problems.items())]
            if failed:
                check_skipped(len(failed), len(rows), items.max_skipped, f"values of {name!r}", failed[0])
            problems += failed
            files |= {(int(rows[row]), name): content for row, content in readable.contents.items()}
        contents = content_hashes(featurizers, items, lambda path, row, name: files.get((row, name), ""))
        return cls(len(items), matrices, positions, problems, contents)

    def present(self, modality: str) -> Mask:
        mask = np.zeros(self.n_items, bool)
        mask[self.positions.get(modality, [])] = True
        return mask

    def take(self, modality: str, items: Integers) -> Features:
        """Return the vectors of some items, all of which have the modality."""
        return self.matrices[modality][np.searchsorted(self.positions[modality], items)]

    def subset(self, items: Integers) -> ItemVectors:
        """Return the vectors of some items, given in ascending order."""
        kept = {name: np.isin(rows, items) for name, rows in self.positions.items()}
        matrices = {name: matrix[kept[name]] for name, matrix in self.matrices.items()}
        positions = {name: np.searchsorted(items, rows[kept[name]]) for name, rows in self.positions.items()}
        return ItemVectors(len(items), matrices, positions, [], [self.contents[row] for row in items.tolist()])

    def take_padded(self, modality: str, items: Integers) -> Features:
        """Return the vectors of items, given in ascending order; zeros for items that lack the modality."""
        present = self.present(modality)[items]
        matrix = self.take(modality, items[present])
        if present.all():
            return matrix
        if sp.issparse(matrix):
            lengths = np.zeros(len(items), matrix.indptr.dtype)
            lengths[present] = np.diff(matrix.indptr)
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(matrix.indptr.dtype)
            return sp.csr_array((matrix.data, matrix.indices, starts), shape=(len(items), matrix.shape[1]))
        padded = np.zeros((len(items), matrix.shape[1]), matrix.dtype)
        padded[present] = matrix
        return padded


def check_modalities(featurizers: Mapping[str, Any], items: Items, *, fit: bool) -> None:
    """Raise InputError if items have an unknown modality or, to fit, lack one."""
    unknown = sorted({*items.modalities} - {*featurizers})
    if unknown:
        raise InputError(f"unknown modality {unknown[0]!r}: this model has {', '.join(map(repr, featurizers))}")
    missing = sorted({*featurizers} - {*items.modalities})
    if fit and missing:
        raise InputError(f"the items do not have the modality {missing[0]!r}")


@dataclass(frozen=True)
class ItemCodes:
    """Codes (items, bytes) and masks (items,) of items, by modality."""

    hashed: dict[str, Codes]  # by hash functions; zeros for items that lack the modality
    present: dict[str, Mask]
    learned: dict[str, Codes]  # learned in training, or label-set codes; zeros elsewhere
    is_learned: dict[str, Mask]
    suggested_labels: dict[str, Codes]  # by `LabelModel.encode_suggested`; empty if the method has no probabilities
    labels: Codes  # known labels of the items, in the same form
    has_labels: Mask


@dataclass(frozen=True)
class Training:
    """Result of fitting an encoder to items."""

    vectors: ItemVectors  # of all items
    items: Integers  # training items, ascending; row i of the model's ``codes_`` is the code of the i-th
    learned: dict[str, Mask]  # by modality, which of all items have a learned code
    used: dict[str, Mask]  # by modality, which of all items functions were fitted to: also items with guessed labels
    n_incomplete: int  # training items that lack a modality or, for supervised methods, labels
    leave_one_out: dict[str, Singles]  # by modality, projections (used, n_bits), if the method computes them
    suggested_labels: dict[str, Codes]  # by modality, leave-one-out label probabilities (used, 2 x bytes)

    def __len__(self) -> int:
        return len(self.items)


def hashed_column(modality: str) -> str:
    """Return the column of the hashed codes of items that have learned ones."""
    return f"{modality}:hashed"


def labels_columns(modality: str) -> tuple[str, str]:
    """Return the columns of the label probabilities predicted from a modality: bytes, and records."""
    return f"{modality}:labels", f"{modality}:records"


def suggested_labels(item: Item, modality: str) -> Codes | None:
    """Return the label probabilities predicted from one modality of an item, in the form of `ItemCodes`."""
    columns = [item.codes[name] for name in labels_columns(modality) if name in item.codes]
    return np.concatenate(columns) if columns else None


def column_names(encoder: Encoder) -> tuple[str, ...]:
    """Return the columns of an index: codes, hashed codes and label probabilities."""
    names = encoder.modalities_
    suggested = [column for name in encoder.searchable_modalities() for column in labels_columns(name)]
    return (*names, *map(hashed_column, names), *((LABELS, *suggested) if encoder.label_model else ()))


def index_codes(encoder: Encoder, codes: ItemCodes, rows: Integers) -> dict[str, Any]:
    """Return the codes of some items as arguments of `Index.put`."""
    columns, learned, present = dict[str, Codes](), dict[str, Mask](), dict[str, Mask]()
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
        labels = codes.labels[rows].copy()
        some = {name: values[~known] for name, values in suggested.items()}
        labels[~known] = encoder.combine_labels(some, {name: mask[~known] for name, mask in masks.items()})
        columns[LABELS] = labels
        learned[LABELS], present[LABELS] = known, known | np.logical_or.reduce([*masks.values()])
        for name, values in suggested.items():
            for column, part in zip(labels_columns(name), np.split(values, 2, axis=1), strict=True):
                columns[column], present[column] = part, masks[name]
    return {"codes": columns, "learned": learned, "present": present}


def hashed_codes(item: Item, modalities: Sequence[str]) -> dict[str, Codes]:
    """Return the hashed codes of an item, by modality."""
    return {name: item.codes.get(hashed_column(name), item.codes[name]) for name in modalities if name in item.codes}


def public_item(item: Item, modalities: Sequence[str]) -> Item:
    """Return an item as users see it: one code per modality, and metadata without content hashes."""
    codes = {name: item.codes[name] for name in modalities if name in item.codes}
    return Item(item.id, without_contents(item.metadata), codes, {name: item.states[name] for name in modalities})


def without_contents(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata without content hashes."""
    return metadata and {name: value for name, value in metadata.items() if name != CONTENTS}


def columnar(items: Sequence[Item], n_bits: int, modalities: Sequence[str]) -> dict[str, Any]:
    """Return items as the arguments of `Index.add` and `Index.put`."""
    no_code = np.zeros(n_bytes(n_bits), np.uint8)
    codes, learned, present = {}, {}, {}
    for name in modalities:
        codes[name] = np.array([item.codes.get(name, no_code) for item in items], np.uint8).reshape(-1, len(no_code))
        learned[name] = np.array([item.states[name] == "learned" for item in items], bool)
        present[name] = np.array([name in item.codes for item in items], bool)
    ids, metadata = [item.id for item in items], [item.metadata for item in items]
    return {"ids": ids, "codes": codes, "learned": learned, "present": present, "metadata": metadata}
