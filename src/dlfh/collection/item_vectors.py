"""Vectors and codes of items, by modality; items may lack modalities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Codes, Integers, Mask, Singles
from dlfh._validation import Features
from dlfh.collection.contents import content_hashes
from dlfh.datasets.problem import Problem, check_skipped
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.datasets.items import Items
    from dlfh.features.base import Featurizer


@dataclass(frozen=True)
class ItemVectors:
    """Feature vectors of items.

    matrices: By modality, a row for each item that has it in a readable form.
    positions: By modality, the items of these rows, ascending.
    problems: Values that could not be read.
    contents: By item, hashes of its images and vectors.
    """

    n_items: int
    matrices: dict[str, Features]
    positions: dict[str, Integers]
    problems: list[Problem]
    contents: list[dict[str, str]]

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
        """Return which items have a vector in a modality."""
        mask = np.zeros(self.n_items, bool)
        mask[self.positions[modality]] = True
        return mask

    def take(self, modality: str, items: Integers) -> Features:
        """Return the vectors of some items, all of which have the modality."""
        return self.matrices[modality][np.searchsorted(self.positions[modality], items)]

    def take_padded(self, modality: str, items: Integers) -> Features:
        """Return the vectors of some items, in ascending order; zeros for those that lack the modality."""
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
        raise InputError(f"unknown modality {unknown[0]!r}: this model knows {', '.join(map(repr, featurizers))}")
    missing = sorted({*featurizers} - {*items.modalities})
    if fit and missing:
        raise InputError(f"the items do not have the modality {missing[0]!r}")


@dataclass(frozen=True)
class ItemCodes:
    """Codes of items, by modality.

    hashed (items, bytes): Codes by hash functions; zeros for items that lack the modality.
    present (items,): Whether an item has the modality.
    learned (items, bytes): Codes learned in training, or the codes of the items' label sets; zeros elsewhere.
    is_learned (items,): Whether an item has a learned code.
    suggested_labels (items, bytes): Label probabilities that the modality suggests, as `quantize_probabilities` returns
        them; empty if the method has none.
    labels (items, bytes), has_labels (items,): The labels that items have, in the same form, and which items have any.
    """

    hashed: dict[str, Codes]
    present: dict[str, Mask]
    learned: dict[str, Codes]
    is_learned: dict[str, Mask]
    suggested_labels: dict[str, Codes]
    labels: Codes
    has_labels: Mask


@dataclass(frozen=True)
class Training:
    """Result of fitting an encoder to items.

    vectors: Vectors of all items.
    items: Training items, ascending; row i of the model's ``codes_`` is the code of the i-th.
    learned (items,): By modality, which of all items have a learned code.
    n_incomplete: Number of training items that lack a modality or, for supervised methods, labels.
    leave_one_out (learned, n_bits): By modality, leave-one-out projections of the items with learned codes, if the
        method computes them.
    suggested_labels (learned, bytes): By modality, leave-one-out label probabilities of these items.
    """

    vectors: ItemVectors
    items: Integers
    learned: dict[str, Mask]
    n_incomplete: int
    leave_one_out: dict[str, Singles]
    suggested_labels: dict[str, Codes]

    def __len__(self) -> int:
        return len(self.items)
