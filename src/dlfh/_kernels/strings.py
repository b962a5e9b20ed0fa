"""Strings stored as one UTF-8 blob with offsets: hashing, look-up and selection."""

from __future__ import annotations

import numpy as np

from dlfh._compile import Kernel

_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)


@Kernel
def hash_strings(offsets, blob, hashes):
    """Fill ``hashes`` with the 64-bit FNV-1a hash of each string."""
    for i in range(hashes.size):
        value = _FNV_START
        for p in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(blob[p])) * _FNV_PRIME
        hashes[i] = value


@Kernel
def find_strings(sorted_hashes, row_of_hash, offsets, blob, key_hashes, key_offsets, key_blob, found, start, stop):
    """Fill ``found[start:stop]`` with the row of each key, or -1; strings with equal hashes are compared by byte."""
    for i in range(start, stop):
        found[i] = -1
        key_hash = key_hashes[i]
        length = key_offsets[i + 1] - key_offsets[i]
        low, high = 0, sorted_hashes.size
        while low < high:
            middle = (low + high) // 2
            if sorted_hashes[middle] < key_hash:
                low = middle + 1
            else:
                high = middle
        while low < sorted_hashes.size and sorted_hashes[low] == key_hash:
            row = np.int64(row_of_hash[low])
            equal = offsets[row + 1] - offsets[row] == length
            t = 0
            while equal and t < length:
                equal = blob[offsets[row] + t] == key_blob[key_offsets[i] + t]
                t += 1
            if equal:
                found[i] = row
                break
            low += 1


@Kernel
def gather_strings(offsets, blob, rows, new_offsets, new_blob):
    """Copy the strings at ``rows`` into ``new_blob``, at ``new_offsets``."""
    for i in range(rows.size):
        source = offsets[rows[i]]
        target = new_offsets[i]
        for t in range(new_offsets[i + 1] - target):
            new_blob[target + t] = blob[source + t]
