"""Query rows by seed, published so that others can repeat an experiment."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from dlfh._arrays import Integers
from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import Source
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError

_FORMAT = "dlfh-splits 1"


def splits_of(source: Source, seeds: int, queries: int | None = None) -> dict[str, Any]:
    """Return the query rows by seed, with checksums of the data.

    ``fingerprint`` covers all arrays; ``labels`` covers the labels alone, which do not depend on how features were
    computed. All other rows are training points, and the database of *hashed* and *learned*. Data sets that define
    their queries have them under the seed "any".
    """
    rows = Source(source.name, _numbered(source))
    by_name = {"any": 0} if source.has_queries else {str(seed): seed for seed in range(seeds)}
    drawn = {name: rows.split(SplitSpec(seed=seed, queries=queries)).queries for name, seed in by_name.items()}
    return {
        "format": _FORMAT,
        "data": source.name,
        "points": sum(len(part) for part in source.parts.values()),
        "fingerprint": source.fingerprint,
        "labels": _label_checksum(source),
        "queries": {name: part.modalities["row"][:, 0].tolist() for name, part in drawn.items()},
    }


def compare_splits(published: Any, source: Source) -> list[str]:
    """Return how the data and its splits differ from published ones."""
    if not isinstance(published, dict) or published.get("format") != _FORMAT:
        raise InputError(f"not a splits file: its format is not {_FORMAT!r}")
    n_queries = len(next(iter(published["queries"].values())))
    splits = splits_of(source, len(published["queries"]), None if source.has_queries else n_queries)
    compared = {
        "points": "numbers of points",
        "labels": "labels, or their order,",
        "fingerprint": "features",
        "queries": "queries",
    }
    return [f"{what} differ ({key})" for key, what in compared.items() if published[key] != splits[key]]


def _numbered(source: Source) -> dict[str, Paired]:
    """Return the parts with row numbers instead of features; training points come first."""
    parts, first = {}, 0
    for role, part in source.parts.items():
        numbers: Integers = np.arange(first, first + len(part))[:, None]
        parts[role] = Paired({"row": numbers}, part.labels)
        first += len(part)
    return parts


def _label_checksum(source: Source) -> str:
    digest = hashlib.sha256()
    for role, part in source.parts.items():
        labels = part.labels
        pairs = np.stack([np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr)), labels.indices])
        ordered = pairs[:, np.lexsort(pairs[::-1])]
        digest.update(f"{role} {json.dumps(labels.shape)}\n".encode())
        digest.update(np.ascontiguousarray(ordered, "<i8").data)
    return digest.hexdigest()
