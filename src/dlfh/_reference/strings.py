"""Strings stored as one UTF-8 blob with offsets: hashing, look-up and selection."""

from __future__ import annotations

import numpy as np


def hash_strings(offsets, blob, hashes):
    for i in range(len(hashes)):
        value = 14695981039346656037
        for byte in blob[offsets[i] : offsets[i + 1]].tolist():
            value = (value ^ byte) * 1099511628211 % 2**64
        hashes[i] = value


def find_strings(sorted_hashes, row_of_hash, offsets, blob, key_hashes, key_offsets, key_blob, found, start, stop):
    for i in range(start, stop):
        key = key_blob[key_offsets[i] : key_offsets[i + 1]].tobytes()
        first, last = (np.searchsorted(sorted_hashes, key_hashes[i], side) for side in ("left", "right"))
        rows = row_of_hash[first:last].astype(np.int64)
        equal = [row for row in rows if blob[offsets[row] : offsets[row + 1]].tobytes() == key]
        found[i] = equal[0] if equal else -1


def gather_strings(offsets, blob, rows, new_offsets, new_blob):
    for i, row in enumerate(rows):
        new_blob[new_offsets[i] : new_offsets[i + 1]] = blob[offsets[row] : offsets[row + 1]]
