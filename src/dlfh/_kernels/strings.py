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


@Kernel
def number_words(offsets, blob, inside):
    """Assign numbers to the distinct words of texts, the runs of bytes b with ``inside[b]``, by first occurrence.

    Returns the numbers of all words, the number of words in each text, and the first and last places of the distinct
    words in ``blob``.
    """
    most = blob.size // 2 + offsets.size
    numbers, n_words = np.empty(most, np.int32), np.zeros(offsets.size - 1, np.int64)
    firsts, lasts, hashes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.uint64)
    table, n_found, n_distinct = np.full(1 << 12, -1, np.int32), 0, 0
    for i in range(offsets.size - 1):
        p = offsets[i]
        while p < offsets[i + 1]:
            if not inside[blob[p]]:
                p += 1
                continue
            first, value = p, _FNV_START
            while p < offsets[i + 1] and inside[blob[p]]:
                value = (value ^ np.uint64(blob[p])) * _FNV_PRIME
                p += 1
            slot = np.int64(value >> np.uint64(20)) & (table.size - 1)
            while table[slot] >= 0:
                known = table[slot]
                if hashes[known] == value and lasts[known] - firsts[known] == p - first:
                    t = 0
                    while first + t < p and blob[firsts[known] + t] == blob[first + t]:
                        t += 1
                    if first + t == p:
                        break
                slot = (slot + 1) & (table.size - 1)
            if table[slot] < 0:
                table[slot], hashes[n_distinct] = n_distinct, value
                firsts[n_distinct], lasts[n_distinct] = first, p
                n_distinct += 1
            numbers[n_found] = table[slot]
            n_found += 1
            n_words[i] += 1
            if 2 * n_distinct > table.size:
                table = np.full(4 * table.size, -1, np.int32)
                for known in range(n_distinct):
                    slot = np.int64(hashes[known] >> np.uint64(20)) & (table.size - 1)
                    while table[slot] >= 0:
                        slot = (slot + 1) & (table.size - 1)
                    table[slot] = known
    return numbers[:n_found].copy(), n_words, firsts[:n_distinct].copy(), lasts[:n_distinct].copy()
