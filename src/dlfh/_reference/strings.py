"""Strings stored as one UTF-8 blob with offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def hash_strings(offsets: Array, blob: Array, hashes: Array) -> None:
    for i in range(len(hashes)):
        value = 14695981039346656037
        for byte in blob[offsets[i] : offsets[i + 1]].tolist():
            value = (value ^ byte) * 1099511628211 % 2**64
        hashes[i] = value


def find_strings(
    sorted_hashes: Array,
    row_of_hash: Array,
    offsets: Array,
    blob: Array,
    wanted_hashes: Array,
    wanted_offsets: Array,
    wanted_blob: Array,
    found: Array,
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        wanted = wanted_blob[wanted_offsets[i] : wanted_offsets[i + 1]].tobytes()
        first, last = (np.searchsorted(sorted_hashes, wanted_hashes[i], side) for side in ("left", "right"))
        rows = row_of_hash[first:last].astype(np.int64)
        equal = [row for row in rows if blob[offsets[row] : offsets[row + 1]].tobytes() == wanted]
        found[i] = equal[0] if equal else -1


def gather_strings(offsets: Array, blob: Array, rows: Array, new_offsets: Array, new_blob: Array) -> None:
    for i, row in enumerate(rows):
        new_blob[new_offsets[i] : new_offsets[i + 1]] = blob[offsets[row] : offsets[row + 1]]
