"""Marks: answers that people found right or wrong, kept beside a collection until it learns again.

A mark is an observed similarity of a question and an item. Questions are kept as texts, or as the vectors that the
featuriser returned for an image or a vector, which stay valid because learning again keeps features.
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

from dlfh._persistence.files import read_regular, replace_file
from dlfh._validation import Features
from dlfh.collection.query import SearchOptions, is_single
from dlfh.errors import InputError, StorageError

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

#: The file in a collection's folder, and its maximum size: the oldest questions are dropped.
MARKS, _MAX_BYTES = "marks.json", 1 << 24


@dataclass(frozen=True)
class Question:
    """A question, by its text or its vector, and the items that are right and wrong answers to it.

    vector: Base64 of float32 numbers, after as many int32 positions if it is a sparse row; empty for a text.
    """

    modality: str
    text: str
    vector: str
    is_sparse: bool
    relevant: tuple[str, ...]
    irrelevant: tuple[str, ...]

    def features(self, n_features: int) -> Features:
        """Return the vector as a matrix of one row."""
        content = base64.b64decode(self.vector, validate=True)
        if not self.is_sparse:
            row = np.frombuffer(content, "<f4")[None].astype(np.float32)
            if row.shape[1] != n_features:
                raise ValueError("a vector has another length than the features")
            return row
        half = len(content) // 2
        positions, values = np.frombuffer(content[:half], "<i4"), np.frombuffer(content[half:], "<f4")
        return sp.csr_array((values, positions, [0, len(values)]), shape=(1, n_features))

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.modality, self.text, self.vector


def keep_marks(
    collection: Collection, modality: str, value: Any, relevant: Sequence[str], irrelevant: Sequence[str]
) -> int:
    """Keep the marks of a question, in place of earlier ones; see `Collection.mark`."""
    options = SearchOptions(relevant=relevant, irrelevant=irrelevant)  # checks both
    right, wrong = tuple(dict.fromkeys(options.relevant or ())), tuple(dict.fromkeys(options.irrelevant or ()))
    if not collection.index.writable:
        raise InputError(f"collection {collection.path} is open for reading: open it with writable=True to keep marks")
    for identifier in (*right, *wrong):
        collection.index.get(identifier)
    new = Question(*_content(collection, modality, value), right, wrong)
    kept = [each for each in read_marks(collection.path) if each._key != new._key]
    kept += [new] if right or wrong else []
    lines = [json.dumps(vars(each), ensure_ascii=False) for each in kept]
    size = np.cumsum([len(line.encode()) + 2 for line in lines][::-1])[::-1]
    some = [line for line, total in zip(lines, size, strict=True) if total < _MAX_BYTES - 2]
    replace_file(collection.path / MARKS, ["\n".join(["[", ",\n".join(some), "]"]).encode()])
    return len(some)


def _content(collection: Collection, modality: str, value: Any) -> tuple[str, str, str, bool]:
    """Return the modality of a question, its text, its vector, and whether this is a sparse row."""
    featurizer = collection.encoder.featurizer(modality)
    if not is_single(value, featurizer.takes):
        raise InputError("marks are kept for one question at a time: pass a single text, image or vector")
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


def read_marks(folder: Path) -> list[Question]:
    """Return the questions with marks, the oldest first."""
    try:
        return [
            Question(
                *(str(each["modality"]), str(each["text"]), str(each["vector"])),
                bool(each["is_sparse"]),
                *(tuple(map(str, each["relevant"])), tuple(map(str, each["irrelevant"]))),
            )
            for each in json.loads(read_regular(folder / MARKS, _MAX_BYTES))
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StorageError(f"the marks of collection {folder} cannot be read: repair or remove {MARKS}") from None
