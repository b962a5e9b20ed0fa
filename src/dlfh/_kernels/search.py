"""Nearest codes to a real-valued query, and codes within a radius.

The weighted distance of a code from a query z is the sum of |z_j| over the bits in which the code differs from the sign
of z. The weights |z_j| are integers, so distances are exact and equal codes have equal distances.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels.inline import (
    byte_at,
    bytes_at_most,
    bytes_equal,
    popcount,
    store_half_sums,
    store_sums,
    sums_at_most,
    trailing_zeros,
)

#: Number of items at a time; the bytes of a small tile stay in the first-level cache.
_TILE, _SMALL_TILE = 2048, 256
#: If at most this many items of a small tile are left, they are compared one by one.
_FEW = 4
#: Number of words of a text below which the score of a word is tabulated.
_SHORT = 512
_BYTE, _ALL = np.uint64(255), np.uint32(0xFFFFFFFF)
_LITTLE_ENDIAN = sys.byteorder == "little"


@njit
def _fill_tables(weights, tables):
    """Set ``tables[b, byte]`` to the sum of the weights of the bits set in byte b, in the byte order of `_weigh`."""
    for b in range(tables.shape[0]):
        first = 8 * (b if _LITTLE_ENDIAN else 8 * (b // 8) + 7 - b % 8)
        tables[b, 0] = 0
        for bit in range(8):
            k = first + 7 - bit
            weight = weights[k] if k < weights.size else 0
            for byte in range(1 << bit):
                tables[b, (1 << bit) + byte] = tables[b, byte] + weight


@njit
def _weigh(codes, i, words, j, tables):
    # Rows are indexed, because slicing counts references; bytes are extracted from words by shifts.
    total = np.int64(0)
    for w in range(words.shape[1]):
        differs = codes[i, w] ^ words[j, w]
        b = np.uint64(8 * w)
        total += tables[b, differs & _BYTE]
        total += tables[b + np.uint64(1), (differs >> np.uint64(8)) & _BYTE]
        total += tables[b + np.uint64(2), (differs >> np.uint64(16)) & _BYTE]
        total += tables[b + np.uint64(3), (differs >> np.uint64(24)) & _BYTE]
        total += tables[b + np.uint64(4), (differs >> np.uint64(32)) & _BYTE]
        total += tables[b + np.uint64(5), (differs >> np.uint64(40)) & _BYTE]
        total += tables[b + np.uint64(6), (differs >> np.uint64(48)) & _BYTE]
        total += tables[b + np.uint64(7), differs >> np.uint64(56)]
    return total


@njit
def _fill_distances(code, words, first, last, distances):
    if code.size == 1:  # the compiler vectorises this loop
        word = code[0]
        for j in range(first, last):
            distances[j - first] = popcount(word ^ words[j, 0])
    else:
        for j in range(first, last):
            total = np.uint64(0)
            for w in range(code.size):
                total += popcount(code[w] ^ words[j, w])
            distances[j - first] = total


@njit
def _sink(distances, positions, size):
    """Restore a max-heap after its first entry was replaced."""
    distance, position = distances[0], positions[0]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and positions[other] > positions[child])
        ):
            child = other
        if distances[child] < distance or (distances[child] == distance and positions[child] < position):
            break
        distances[i], positions[i] = distances[child], positions[child]
        i = child
    distances[i], positions[i] = distance, position


@njit
def _keep(near, place, distance, j):
    """Replace the worst entry of a heap of nearest items if an item is nearer; return whether it is."""
    if distance >= near[0]:
        return False
    near[0], place[0] = distance, j
    _sink(near, place, near.size)
    return True


@njit
def _sort_heap(distances, positions):
    for size in range(distances.size - 1, 0, -1):
        distances[0], distances[size] = distances[size], distances[0]
        positions[0], positions[size] = positions[size], positions[0]
        _sink(distances, positions, size)


@njit
def _fill_bounds(query, low, high, words, first, last, bounds):
    """Bound the weighted distances from below: each bit of ``low`` counts 1 and each of ``high`` 2."""
    if query.size == 1:
        code, ones, twos = query[0], low[0], high[0]
        for j in range(first, last):
            differs = code ^ words[j, 0]
            bounds[j - first] = popcount(differs & ones) + (popcount(differs & twos) << np.uint64(1))
    else:
        for j in range(first, last):
            total = np.uint64(0)
            for w in range(query.size):
                differs = query[w] ^ words[j, w]
                total += popcount(differs & low[w]) + (popcount(differs & high[w]) << np.uint64(1))
            bounds[j - first] = total


@Kernel
def nearest_by_weight(query_words, weights, low, high, steps, item_words, start, stop, distances, positions):
    """Fill rows of ``distances`` and ``positions`` with each query's nearest items among ``start:stop``.

    Sorted by weighted distance, then by position. ``query_words`` are the signs of the queries. ``low`` and ``high``
    are the two bits of each weight in units of ``steps``, rounded down: two masked popcounts bound the distance from
    below, and only items whose bound is below the worst distance kept are looked up in tables.
    """
    tables = np.empty((8 * item_words.shape[1], 256), np.int32)
    bounds = np.empty(_TILE, np.uint16)
    maybe = np.empty(_TILE + 1, np.int32)
    for i in range(query_words.shape[0]):
        _fill_tables(weights[i], tables)
        near, place = distances[i], positions[i]
        near[:] = np.iinfo(np.int64).max
        place[:] = np.iinfo(np.int64).max
        limit = np.iinfo(np.int64).max
        for first in range(start, stop, _TILE):
            last = min(first + _TILE, stop)
            _fill_bounds(query_words[i], low[i], high[i], item_words, first, last, bounds)
            n_maybe = 0
            for t in range(last - first):  # branch-free, because the outcome is hard to predict
                maybe[n_maybe] = t
                n_maybe += 1 if bounds[t] <= limit else 0
            for t in range(n_maybe):
                j = first + maybe[t]
                if _keep(near, place, _weigh(query_words, i, item_words, j, tables), j):
                    limit = (near[0] - 1) // steps[i]
        _sort_heap(near, place)


@njit
def _add_up(tables, i, blocks, j):
    block, place = j >> np.uint64(5), j & np.uint64(31)
    total = np.int64(0)
    for b in range(tables.shape[1]):
        total += tables[i, b, blocks[block, b, place]]
    return total


@Kernel
def nearest_by_table(tables, blocks, start, stop, distances, positions):
    """Fill rows of ``distances`` and ``positions`` with each query's nearest items among ``start:stop``.

    Sorted by distance, the sum of ``tables[i, b, byte b]`` over the bytes of an item, then by position. All entries of
    the tables are at least 0. ``blocks[j // 32, b, j % 32]`` is byte b of item j.

    The smallest of 8 consecutive entries of a table, in units of a step, rounded down, bounds all 8 from below. Exact
    sums are computed only for items whose bound is below the worst distance kept, which a sample initialises.
    """
    n_queries, n_bytes, _ = tables.shape
    bounds = np.empty((n_queries, n_bytes, 32), np.int32)
    rounded = np.empty((n_queries, n_bytes, 32), np.uint8)
    steps = np.zeros(n_queries, np.int64)
    maybe = np.empty(_TILE, np.uint64)
    n_sampled = min(stop - start, max(_TILE, 16 * distances.shape[1]))
    for i in range(n_queries):
        for b in range(n_bytes):
            for t in range(32):
                bounds[i, b, t] = tables[i, b, 8 * t : 8 * t + 8].min()
        near, place = distances[i], positions[i]
        near[:] = np.iinfo(np.int64).max
        place[:] = np.iinfo(np.int64).max
        for t in range(n_sampled):
            j = start + t * ((stop - start) // n_sampled)
            _keep(near, place, _add_up(tables, i, blocks, np.uint64(j)), j)
        near[:] = near[0] + 1
        place[:] = np.iinfo(np.int64).max
    for first in range(start // 32, (stop + 31) // 32, _TILE // 32):
        last = min(first + _TILE // 32, (stop + 31) // 32)
        for i in range(n_queries):  # inside, so that a tile stays in the cache
            near, place = distances[i], positions[i]
            limit = near[0] - 1
            if limit < 0:
                continue
            if steps[i] == 0 or limit < 180 * steps[i]:
                steps[i] = max(1, limit // 240)
                for b in range(n_bytes):
                    for t in range(32):
                        rounded[i, b, t] = min(bounds[i, b, t] // steps[i], 255)
            largest = np.uint8(min(limit // steps[i], 254))
            address, bound = blocks.ctypes.data + np.uint64(32 * n_bytes * first), rounded[i].ctypes.data
            n_maybe = 0
            for block in range(first, last):
                mask = sums_at_most(bound, address, n_bytes, largest)
                address += np.uint64(32 * n_bytes)
                while mask:
                    maybe[n_maybe] = 32 * block + trailing_zeros(mask)
                    n_maybe += 1
                    mask &= mask - np.uint32(1)
            for t in range(n_maybe):
                j = maybe[t]
                if start <= j < stop:
                    _keep(near, place, _add_up(tables, i, blocks, j), j)
    for i in range(n_queries):
        _sort_heap(distances[i], positions[i])


@Kernel
def weigh_candidates(query_words, weights, item_words, candidates, distances, start, stop):
    """Fill ``distances[start:stop]`` with the weighted distances of each query's candidates."""
    tables = np.empty((8 * item_words.shape[1], 256), np.int32)
    for i in range(start, stop):
        _fill_tables(weights[i], tables)
        for t in range(candidates.shape[1]):
            distances[i, t] = _weigh(query_words, i, item_words, candidates[i, t], tables)


@Kernel
def within_radius(query_words, item_words, radius):
    """Return positions and Hamming distances of the items within ``radius`` of one query, by position."""
    n_items = item_words.shape[0]
    distances = np.empty(n_items, np.uint16)
    _fill_distances(query_words, item_words, 0, n_items, distances)
    found = 0
    for j in range(n_items):
        found += 1 if distances[j] <= radius else 0
    positions, kept = np.empty(found, np.int64), np.empty(found, np.int32)
    t = 0
    for j in range(n_items):
        if distances[j] <= radius:
            positions[t] = j
            kept[t] = distances[j]
            t += 1
    return positions, kept


@Kernel
def sum_tables(tables, codes, rows, distances):
    """Fill ``distances`` with the sum of ``tables[b, byte b]`` over the bytes of the codes in ``rows``."""
    for first in range(0, rows.size, _TILE):
        last = min(first + _TILE, rows.size)
        for i in range(first, last):  # prefetches codes into the cache, so that their loads overlap
            distances[i] = codes[rows[i], 0]
        for i in range(first, last):
            j = rows[i]
            total = np.int64(0)
            for b in range(tables.shape[0]):
                total += tables[b, codes[j, b]]
            distances[i] = total


@njit
def _below_limits(sums, kinds, level, first, limits, maybe):
    """Write the items of the small tile at ``first`` whose sums are at most ``limits[kind, level]`` to ``maybe``.

    Return their number. In most blocks of 32, all items have the same kind and few have a level above 0.
    """
    found, size = 0, min(_SMALL_TILE, kinds.size - first)
    of_sums, at = sums.ctypes.data, np.uint64(first)
    of_kinds, of_levels = kinds.ctypes.data + at, level.ctypes.data
    kind = kinds[first]
    limit = limits[kind, 0]
    for start in range(0, size, 32):
        place = np.uint64(start)
        if start + 32 > size or bytes_equal(of_kinds + place, kind) != _ALL:
            for t in range(start, min(start + 32, size)):  # branch-free, because outcomes are hard to predict
                maybe[found] = t
                found += 1 if sums[0, t] <= limits[kinds[first + t], level[t]] else 0
            continue
        mask = ~bytes_equal(of_levels + place, np.uint8(0))
        if limit >= 0:
            mask |= bytes_at_most(of_sums + place, np.uint8(limit))
        while mask:
            t = start + trailing_zeros(mask)
            maybe[found] = t
            found += 1 if sums[0, t] <= limits[kind, level[t]] else 0
            mask &= mask - np.uint32(1)
    return found


@Kernel
def collect_possible(
    blocks, bounds, by_halves, tables, kinds, places, levels, mask, limits, losses, fine_losses, allowed, shift, rows
):
    """Write the items of ``mask`` that can be among the best to ``rows``, in order; return their number.

    ``blocks[c][j // 32, b, j % 32]`` is byte b of item j in term c. The loss of an item, a sum over terms, must be at
    most ``allowed[kinds[j], level]``. The level is ``levels[i]`` for the items ``places[i]``, ascending, and 0 for all
    others. The loss is bounded twice. First by ``losses[c, kind, s]``, with s the sum of
    ``bounds[c, b, byte b >> 3]`` or, if ``by_halves[c]``, of ``bounds[c, b, byte b >> 4] + bounds[c, b, 16 + (byte b &
    15)]``, saturating at 255; ``limits`` are the largest sums of the first term that pass if all other losses are 0,
    negative if none does. Then by ``fine_losses[c, kind, d >> shift]``, with d the sum of ``tables[c, b, byte b]``,
    term after term. If ``mask`` is empty, all items are compared.
    """
    n_terms, n_bytes, _ = tables.shape
    sums, maybe = np.empty((n_terms, _SMALL_TILE), np.uint8), np.empty(_SMALL_TILE + 1, np.int64)
    total, last_loss, n_kept = np.empty(_SMALL_TILE + 1), fine_losses.shape[2] - 1, 0
    addresses, of_bounds, of_sums = np.empty(n_terms, np.uint64), bounds.ctypes.data, sums.ctypes.data
    for c in range(n_terms):
        addresses[c] = blocks[c].ctypes.data
    level, n_places, stop_place = np.zeros(_SMALL_TILE, np.uint8), places.size, 0
    for first in range(0, kinds.size, _SMALL_TILE):
        place = stop_place
        while stop_place < n_places and places[stop_place] < first + _SMALL_TILE:
            level[places[stop_place] - first] = levels[stop_place]
            stop_place += 1
        n_blocks, n_maybe, n_summed = (min(_SMALL_TILE, kinds.size - first) + 31) // 32, 0, 0
        for c in range(n_terms):
            if c > 0 and n_maybe <= _FEW:
                break
            n_summed += 1
            address = addresses[c] + np.uint64(n_bytes * first)
            table, target = of_bounds + np.uint64(32 * n_bytes * c), of_sums + np.uint64(_SMALL_TILE * c)
            for _ in range(n_blocks):
                if by_halves[c]:
                    store_half_sums(table, address, n_bytes, target)
                else:
                    store_sums(table, address, n_bytes, target)
                address += np.uint64(32 * n_bytes)
                target += np.uint64(32)
            if c == 0:
                n_maybe = _below_limits(sums, kinds, level, first, limits, maybe)
                for m in range(n_maybe):
                    at = maybe[m]
                    total[m] = losses[0, kinds[first + at], sums[0, at]]
                continue
            n_left = 0
            for m in range(n_maybe):
                at = maybe[m]
                kind = kinds[first + at]
                loss = total[m] + losses[c, kind, sums[c, at]]
                maybe[n_left], total[n_left] = at, loss
                n_left += 1 if loss <= allowed[kind, level[at]] else 0
            n_maybe = n_left
        if mask.size:
            n_left = 0
            for m in range(n_maybe):
                maybe[n_left], total[n_left] = maybe[m], total[m]
                n_left += 1 if mask[first + maybe[m]] else 0
            n_maybe = n_left
        for c in range(n_terms):
            if n_maybe == 0:
                break
            n_left = 0
            for m in range(n_maybe):
                at = maybe[m]
                j = np.uint64(first + at)
                address = addresses[c] + np.uint64(n_bytes) * (j & ~np.uint64(31)) + (j & np.uint64(31))
                distance = np.int64(0)
                for b in range(n_bytes):  # by address, because views of arrays count references
                    distance += tables[c, b, byte_at(address)]
                    address += np.uint64(32)
                kind = kinds[first + at]
                loss = total[m] + fine_losses[c, kind, min(distance >> shift, last_loss)]
                loss -= losses[c, kind, sums[c, at]] if c < n_summed else 0.0
                maybe[n_left], total[n_left] = at, loss
                n_left += 1 if loss <= allowed[kind, level[at]] else 0
            n_maybe = n_left
        for m in range(n_maybe):
            rows[n_kept] = first + maybe[m]
            n_kept += 1
        for i in range(place, stop_place):
            level[places[i] - first] = 0
    return n_kept


@Kernel
def score_words(rows, counts, starts, weights, lengths, mean_length, total, found, scores):
    """Write the rows that have any of several words to ``found``, and their BM25 scores / ``total`` to ``scores``.

    ``counts[i]`` is the frequency of word w in ``rows[i]``, with ``starts[w] <= i < starts[w + 1]`` and ascending rows.
    Scores are rounded as in FTS5. Returns the number of rows.
    """
    of_length = np.empty(_SHORT)  # of a word that occurs once
    for length in range(_SHORT):
        of_length[length] = (1.2 + 1.0) / (1.0 + 1.2 * (1 - 0.75 + 0.75 * float(length) / mean_length))
    places, sums, n_found = starts.copy(), np.zeros(_TILE), 0
    has_words = np.zeros(_TILE // 32, np.uint32)  # one bit for each row of a tile
    while True:
        first = np.int64(lengths.size)
        for w in range(weights.size):
            if places[w] < starts[w + 1]:
                first = min(first, np.int64(rows[places[w]]))
        if first == lengths.size:
            break
        last = min(first + _TILE, lengths.size)
        for w in range(weights.size):
            i, stop, weight = places[w], starts[w + 1], weights[w]
            while i < stop and rows[i] < last:
                length = lengths[rows[i]]
                if counts[i] == 1 and length < _SHORT:
                    score = of_length[length]
                else:
                    frequency = float(counts[i])
                    score = (frequency * (1.2 + 1.0)) / (
                        frequency + 1.2 * (1 - 0.75 + 0.75 * float(length) / mean_length)
                    )
                place = np.uint64(rows[i]) - np.uint64(first)
                sums[place] += weight * score
                has_words[place >> np.uint64(5)] |= np.uint32(1) << np.uint32(place & np.uint64(31))
                i += 1
            places[w] = i
        for block in range(has_words.size):
            mask = has_words[block]
            has_words[block] = 0
            while mask:
                t = 32 * block + trailing_zeros(mask)
                found[n_found], scores[n_found] = first + t, sums[t]
                sums[t] = 0
                n_found += 1
                mask &= mask - np.uint32(1)
    for t in range(n_found):
        scores[t] /= total
    return n_found


@Kernel
def levels_of(coverage, levels):
    """Set ``levels`` to upper bounds of the evidence 2 c^2 / (1 + c^2) of coverages c, in units of 2 / 255."""
    for i in range(coverage.size):
        square = coverage[i] * coverage[i]
        levels[i] = min(255, int(127.5 * (2 * square / (1 + square))) + 1)


@Kernel
def add_tables(tables, codes, scores):
    """Set the scores (queries, items) of items to ``sum_b tables[b, codes[i, b]]``, which has a value per query."""
    n_queries = tables.shape[2]
    sums = np.empty(64, np.float32)
    for first in range(0, n_queries, 64):  # part of the tables, which stays in the cache
        n = min(64, n_queries - first)
        for i in range(codes.shape[0]):
            sums[:] = 0
            for b in range(codes.shape[1]):
                of_code = tables[b, codes[i, b], first : first + n]
                for q in range(n):
                    sums[q] += of_code[q]
            for q in range(n):
                scores[first + q, i] = sums[q]
