"""Strings stored as one UTF-8 blob with offsets: hashing, look-up and selection."""

from __future__ import annotations


def hash_strings(offsets, blob, hashes):
    for i in range(len(hashes)):
        value = 14695981039346656037
        for byte in blob[offsets[i] : offsets[i + 1]].tobytes():
            value = (value ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
        hashes[i] = value


def find_strings(sorted_hashes, row_of_hash, offsets, blob, key_hashes, key_offsets, key_blob, found, start, stop):
    for i in range(start, stop):
        key = key_blob[key_offsets[i] : key_offsets[i + 1]].tobytes()
        place, found[i] = sorted_hashes.searchsorted(key_hashes[i]), -1
        while place < len(sorted_hashes) and sorted_hashes[place] == key_hashes[i]:
            row = int(row_of_hash[place])
            if blob[offsets[row] : offsets[row + 1]].tobytes() == key:
                found[i] = row
                break
            place += 1


def gather_strings(offsets, blob, rows, new_offsets, new_blob):
    for i, row in enumerate(rows):
        new_blob[new_offsets[i] : new_offsets[i + 1]] = blob[offsets[row] : offsets[row + 1]]
