"""Copies among items: those with the same texts, image files and vectors, which no split may separate."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._arrays import Integers
from dlfh.datasets.leakage import fingerprints


def item_groups(modalities: Mapping[str, Any]) -> Integers:
    """Return a group number for each item, the same for items that are equal in every modality."""
    columns = [_value_numbers(values) for values in modalities.values()]
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def _value_numbers(values: Any) -> Integers:
    """Return a number for each value, the same for equal ones."""
    if not isinstance(values, (list, tuple)):
        return np.unique(fingerprints([values]), return_inverse=True)[1].ravel().astype(np.int64)
    known: dict[Any, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in _keys(values)], np.int64)


def _keys(values: Sequence[Any]) -> list[Any]:
    """Return values that can be compared; files by their contents, which only those of the same size may share."""
    sizes = [_size(value) if isinstance(value, Path) else -1 for value in values]
    counts = Counter(sizes)
    keys: list[Any] = []
    for value, size in zip(values, sizes, strict=True):
        if isinstance(value, np.ndarray):
            keys.append((value.shape, value.tobytes()))
        else:
            keys.append(_digest(value) if size >= 0 and counts[size] > 1 else value)
    return keys


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reported when the file is read
        return -1


def _digest(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return path
