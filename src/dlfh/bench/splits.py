"""Which points are queries and which are learned from, by seed: published, so that others can repeat a protocol."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.bench.cells import Deal
from dlfh.bench.data import Source
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError

__all__ = ["compare_splits", "splits_of"]

_FORMAT = "dlfh-splits 1"


def splits_of(source: Source, seeds: int, queries: int | None = None) -> dict[str, Any]:
    """Return the rows of the queries by seed, with checksums of the data.

    ``fingerprint`` is that of all arrays, as runs of ``dlfh bench`` have it; ``labels`` that of the labels alone, which
    do not depend on how features were made. All rows that are no queries are learned from, and are the database of
    *hashed* and *learned*. Data that comes with queries of its own has them under the seed "any".

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> splits = splits_of(Source.of("generated", {"all": make_paired(10, random_state=0)}), seeds=2, queries=3)
    >>> splits["queries"]["0"], splits["queries"]["1"]
    ([2, 4, 6], [4, 7, 8])
    """
    rows = Source(source.name, _numbered(source))
    dealt = {"any": 0} if source.is_split else {str(seed): seed for seed in range(seeds)}
    found = {name: rows.deal(Deal(seed=seed, queries=queries)).queries for name, seed in dealt.items()}
    return {
        "format": _FORMAT,
        "data": source.name,
        "points": sum(len(part) for part in source.parts.values()),
        "fingerprint": source.fingerprint,
        "labels": _label_checksum(source),
        "queries": {name: part.modalities["row"][:, 0].tolist() for name, part in found.items()},
    }


def compare_splits(published: Any, source: Source) -> list[str]:
    """Return in what data and splits differ from published ones, a sentence each."""
    if not isinstance(published, dict) or published.get("format") != _FORMAT:
        raise InputError(f"this is no file of splits: it has no format {_FORMAT!r}")
    drawn = published["queries"]
    some = next(iter(drawn.values()))
    own = splits_of(source, seeds=len(drawn), queries=None if source.is_split else len(some))
    said = {
        "points": "there are other numbers of points",
        "labels": "labels are other ones, or in another order",
        "fingerprint": "features are other ones",
        "queries": "queries are other ones",
    }
    return [f"{sentence}: {key}" for key, sentence in said.items() if published[key] != own[key]]


def _numbered(source: Source) -> dict[str, Paired]:
    """Return the parts with the number of each point in place of its features: training points come first."""
    parts, first = {}, 0
    for role, part in source.parts.items():
        numbers: npt.NDArray[np.int64] = np.arange(first, first + len(part))[:, None]
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
