"""Marks: results that people found right or wrong, kept beside a collection and learned from by `Collection.relearn`.

A mark is an observed similarity of a query and an item. Queries are kept as texts, or as the vectors that the
featuriser returned for an image or a vector, which stay valid because learning again keeps features.

To learn from a query, its row of U is updated with the items fixed, as in section 3.1 of the paper, where only
observed similarities count. Codes represent label sets, so the row is the label set with the highest posterior: its
prior is the prediction from the query, and its likelihood the probability of each mark.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Singles
from dlfh._persistence.files import read_regular, replace_file
from dlfh._validation import Features
from dlfh.collection.item_codes import ItemVectors
from dlfh.collection.query import SearchOptions, is_single, labels_of
from dlfh.collection.suggesting import fused
from dlfh.errors import InputError, StorageError

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

#: The file in a collection's folder, and its maximum size: the oldest queries are dropped.
MARKS, _MAX_BYTES = "marks.json", 1 << 24


#: Minimum posterior of the label set of a query that is learned from.
_CERTAIN = 0.95
#: Bounds of label probabilities, and the share of marks that are mistakes.
_SMALLEST, _MISTAKES = 1e-3, 0.02


@dataclass(frozen=True)
class MarkedQuery:
    """A query, by its text or its vector, and the items that are right and wrong results of it.

    vector: Base64 of float32 numbers, after as many int32 positions if it is a sparse row; empty for a text.
    """

    modality: str
    text: str
    vector: str
    is_sparse: bool
    relevant: tuple[str, ...]
    irrelevant: tuple[str, ...]

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.modality, self.text, self.vector


def keep_marks(
    collection: Collection, modality: str, value: Any, relevant: Sequence[str], irrelevant: Sequence[str]
) -> int:
    """Keep the marks of a query, in place of earlier ones; see `Collection.mark`."""
    options = SearchOptions(relevant=relevant, irrelevant=irrelevant)  # checks both
    right, wrong = tuple(dict.fromkeys(options.relevant or ())), tuple(dict.fromkeys(options.irrelevant or ()))
    if not collection.index.writable:
        raise InputError(f"collection {collection.path} is open for reading: open it with writable=True to keep marks")
    for identifier in (*right, *wrong):
        collection.index.get(identifier)
    new = MarkedQuery(*_content(collection, modality, value), right, wrong)
    kept = [each for each in read_marks(collection.path) if each._key != new._key]
    kept += [new] if right or wrong else []
    lines = [json.dumps(vars(each), ensure_ascii=False) for each in kept]
    size = np.cumsum([len(line.encode()) + 2 for line in lines][::-1])[::-1]
    some = [line for line, total in zip(lines, size, strict=True) if total < _MAX_BYTES - 2]
    replace_file(collection.path / MARKS, ["\n".join(["[", ",\n".join(some), "]"]).encode()])
    return len(some)


def _content(collection: Collection, modality: str, value: Any) -> tuple[str, str, str, bool]:
    """Return the modality of a query, its text, its vector, and whether this is a sparse row."""
    featurizer = collection.encoder.featurizer(modality)
    if not is_single(value, featurizer.takes):
        raise InputError("marks are kept for one query at a time: pass a single text, image or vector")
    if featurizer.takes == "texts":
        if not isinstance(value, str) or not value.strip():
            raise InputError("the text is empty: pass the text that was searched for")
        return modality, value.strip(), "", False
    one = value.reshape((1, -1)) if sp.issparse(value) else [value]
    row = featurizer.transform(np.asarray(one) if featurizer.takes == "vectors" and not sp.issparse(one) else one)
    if sp.issparse(row):
        content = row.indices.astype("<i4").tobytes() + row.data.astype("<f4").tobytes()
    else:
        content = np.asarray(row[0], "<f4").tobytes()
    return modality, "", base64.b64encode(content).decode(), bool(sp.issparse(row))


def read_marks(folder: Path) -> list[MarkedQuery]:
    """Return the queries with marks, the oldest first."""
    try:
        return [
            MarkedQuery(
                *(str(each["modality"]), str(each["text"]), str(each["vector"])),
                bool(each["is_sparse"]),
                *(tuple(map(str, each["relevant"])), tuple(map(str, each["irrelevant"]))),
            )
            for each in json.loads(read_regular(folder / MARKS, _MAX_BYTES))
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(folder) from None


def _row(collection: Collection, query: MarkedQuery) -> Features:
    """Return the vector of a query as a matrix of one row."""
    n_features = collection.encoder.featurizers_[query.modality].n_features_
    try:
        content = base64.b64decode(query.vector, validate=True)
        if not query.is_sparse:
            return np.frombuffer(content, "<f4").astype(np.float32).reshape(1, n_features)
        half = len(content) // 2
        columns, values = np.frombuffer(content[:half], "<i4"), np.frombuffer(content[half:], "<f4")
        row = sp.csr_array((values.astype(np.float32), columns, [0, len(values)]), shape=(1, n_features))
        row.check_format()
        return row
    except ValueError:
        raise _damaged(collection.path) from None


def _damaged(folder: Path) -> StorageError:
    return StorageError(f"the marks of collection {folder} cannot be read: repair or remove {MARKS}")


@dataclass(frozen=True)
class Point:
    """A query as a point to learn from: a matrix of one row in its modality, and its labels."""

    modality: str
    features: Features
    labels: list[str]


def points_of_marks(collection: Collection, label_sets: Sequence[Sequence[str]]) -> list[Point]:
    """Return the queries whose labels their marks make certain, as one of the given label sets."""
    encoder, model = collection.encoder, collection.encoder.label_model
    queries = [each for each in read_marks(collection.path) if each.modality in encoder.featurizers_]
    if model is None or not queries:
        return []
    known = sorted({tuple(sorted(each)) for each in label_sets if each})
    sets, _ = encoder.label_rows(known)
    items = _probabilities(collection, {name for each in queries for name in (*each.relevant, *each.irrelevant)})
    points = []
    for each in queries:
        featurizer = encoder.featurizers_[each.modality]
        row = featurizer.transform([each.text]) if each.text else _row(collection, each)
        posterior = _log_prior(sets, encoder.label_probabilities(each.modality, row)[0])
        for names, is_right in ((each.relevant, True), (each.irrelevant, False)):
            for name in filter(items.__contains__, names):
                posterior += _log_likelihood(sets, items[name], bool(each.text), is_right)
        best = int(posterior.argmax())
        if 1 / np.exp(posterior - posterior[best]).sum() >= _CERTAIN:
            points.append(Point(each.modality, row, [*known[best]]))
    return points


def _probabilities(collection: Collection, ids: set[str]) -> dict[str, Floats]:
    """Return the label probabilities of items; those of labelled items are 0 and 1. Ids without items are left out."""
    index, found = collection.index, dict[str, Floats]()
    for items, probabilities in fused(collection, index.positions([name for name in sorted(ids) if name in index])):
        labels, is_known = collection.encoder.label_rows([labels_of(item.metadata or {}) for item in items])
        values = np.where(is_known[:, None], labels, probabilities).astype(np.float64)
        found |= {item.id: row for item, row in zip(items, values, strict=True)}
    return found


def _log_prior(sets: Singles, probabilities: Singles) -> Floats:
    p = np.clip(probabilities.astype(np.float64), _SMALLEST, 1 - _SMALLEST)
    return np.asarray(sets @ np.log(p) + (1 - sets) @ np.log1p(-p))


def _log_likelihood(sets: Singles, item: Floats, is_text: bool, is_right: bool) -> Floats:
    """Return the log-likelihood of a mark for each label set: right results have all labels of a text, or any label."""
    p = np.clip(item, _SMALLEST, 1 - _SMALLEST)
    matches = np.exp(sets @ np.log(p)) if is_text else 1 - np.exp(sets @ np.log1p(-p))
    matches = np.clip(matches, _MISTAKES, 1 - _MISTAKES)
    return np.asarray(np.log(matches if is_right else 1 - matches))


def with_points(vectors: ItemVectors, points: Sequence[Point]) -> ItemVectors:
    """Return the vectors of items, followed by points that have one modality each."""
    matrices, positions = dict(vectors.matrices), dict(vectors.positions)
    for name in {point.modality for point in points}:
        rows = [row for row, point in enumerate(points) if point.modality == name]
        parts = [matrices[name], *(points[row].features for row in rows)]
        matrices[name] = sp.csr_array(sp.vstack(parts)) if sp.issparse(parts[0]) else np.vstack(parts)
        positions[name] = np.concatenate([positions[name], vectors.n_items + np.array(rows)])
    contents = [*vectors.contents, *({} for _ in points)]
    return ItemVectors(vectors.n_items + len(points), matrices, positions, vectors.problems, contents)
