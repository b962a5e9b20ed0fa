"""Hamming distances, rankings and sums of precisions."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels.inline import distances_to_all


@Kernel
def hamming_block(a_words, b_words, distances):
    """Fill ``distances[i, j]`` with the Hamming distance between codes a_i and b_j."""
    for i in range(a_words.shape[0]):
        distances_to_all(a_words[i], b_words, distances[i])


@njit
def _take_place(next_place, part, distances, places, j):
    place = next_place[part, distances[j]]
    places[j] = place
    next_place[part, distances[j]] = place + 1


@Kernel
def rank_by_distance(query_words, item_words, n_bits, places, sizes):
    """Fill ``places[i, j]`` with the rank of item j by Hamming distance from query i, ties in database order.

    A counting sort: distances take n_bits + 1 values. ``sizes[i, h]`` is set to the number of items at distance h, the
    size of a run of ties. Four parts of the database have separate counters, so that increments do not wait for one
    another.
    """
    n_items = item_words.shape[1]
    part = n_items // 4
    distances = np.empty(n_items, np.uint16)
    counts = np.empty((4, n_bits + 1), np.uint32)
    for i in range(query_words.shape[0]):
        distances_to_all(query_words[i], item_words, distances)
        for h in range(n_bits + 1):
            for p in range(4):
                counts[p, h] = 0
        for t in range(part):
            for p in range(4):
                counts[p, distances[p * part + t]] += 1
        for j in range(4 * part, n_items):
            counts[3, distances[j]] += 1
        place = 0
        for h in range(n_bits + 1):
            first = place
            for p in range(4):
                place, counts[p, h] = place + counts[p, h], place
            sizes[i, h] = place - first
        for t in range(part):
            for p in range(4):
                _take_place(counts, p, distances, places[i], p * part + t)
        for j in range(4 * part, n_items):
            _take_place(counts, 3, distances, places[i], j)


@njit
def _radix_pass(keys, order, keys_out, order_out, shift):
    counts = np.zeros(2049, np.int64)
    for key in keys:
        counts[((key >> shift) & 2047) + 1] += 1
    for digit in range(2047):
        counts[digit + 1] += counts[digit]
    for t in range(keys.size):
        digit = (keys[t] >> shift) & 2047
        keys_out[counts[digit]] = keys[t]
        order_out[counts[digit]] = order[t]
        counts[digit] += 1


@Kernel
def rank_by_score(tables, items, places, tied):
    """Fill ``places[i, j]`` with the rank of item j by decreasing score, the sum of ``tables[i, b, items[j, b]]``.

    Ties keep database order. Scores are sums of table entries, so equal codes have exactly equal scores; a stable radix
    sort orders their bit patterns. ``tied[i, r]`` is set where ranks r - 1 and r have the same score.
    """
    n_items, n_bytes = items.shape
    score = np.empty(1, np.float32)
    score_bits = score.view(np.uint32)
    keys, keys_out = np.empty(n_items, np.uint32), np.empty(n_items, np.uint32)
    order, order_out = np.empty(n_items, np.int32), np.empty(n_items, np.int32)
    for i in range(tables.shape[0]):
        for j in range(n_items):
            total = np.float32(0)
            for b in range(n_bytes):
                total += tables[i, b, items[j, b]]
            score[0] = np.float32(0) - total + np.float32(0)  # ascending keys; -0 becomes +0
            bits = score_bits[0]
            keys[j] = ~bits if bits >> 31 else bits | np.uint32(0x80000000)
            order[j] = j
        for shift in (0, 11, 22):
            _radix_pass(keys, order, keys_out, order_out, shift)
            keys, keys_out = keys_out, keys
            order, order_out = order_out, order
        for r in range(n_items):
            places[i, order[r]] = r
            tied[i, r] = r > 0 and keys[r] == keys[r - 1]


@Kernel
def reorder(gains, places, ranked):
    """Set ``ranked[i, places[i, j]]`` to ``gains[i, j]``."""
    for i in range(gains.shape[0]):
        for j in range(gains.shape[1]):
            ranked[i, places[i, j]] = gains[i, j]


@Kernel
def count_marks(ranked, stops, found):
    """Count the positive bytes of each row before each of its increasing stops."""
    for i in range(ranked.shape[0]):
        start, total = 0, 0
        for c in range(stops.shape[1]):
            for r in range(start, stops[i, c]):
                total += 1 if ranked[i, r] > 0 else 0
            start = stops[i, c]
            found[i, c] = total


@Kernel
def sum_precisions(ranked, sizes, items_before, hits_before, depth, found):
    """Fill ``found`` with the sum of precisions at relevant ranks up to ``depth``, the number of these and of all hits.

    Row i consists of runs of ``sizes[i, h]`` consecutive ranks, each preceded by ``items_before[i, h]`` items, of which
    ``hits_before[i, h]`` are relevant.
    """
    ranks = np.empty(ranked.shape[1] + 1, np.int32)
    for i in range(ranked.shape[0]):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four independent sums, for instruction-level parallelism
        start, hits, others = 0, 0, 0
        for h in range(sizes.shape[1]):
            stop = start + sizes[i, h]
            within = min(stop, start + max(depth - items_before[i, h], 0))
            n_hits = 0
            for r in range(start, within):  # branch-free, because relevance is hard to predict
                ranks[n_hits] = r - start
                n_hits += 1 if ranked[i, r] > 0 else 0
            rank, hit = items_before[i, h] + 1.0, hits_before[i, h] + 1.0
            quarters = n_hits // 4 * 4
            for t in range(0, quarters, 4):
                a += (hit + t) / (rank + ranks[t])
                b += (hit + (t + 1)) / (rank + ranks[t + 1])
                c += (hit + (t + 2)) / (rank + ranks[t + 2])
                d += (hit + (t + 3)) / (rank + ranks[t + 3])
            for t in range(quarters, n_hits):
                a += (hit + t) / (rank + ranks[t])
            hits += n_hits
            for r in range(within, stop):
                others += 1 if ranked[i, r] > 0 else 0
            start = stop
        found[i, 0] = (a + b) + (c + d)
        found[i, 1] = hits
        found[i, 2] = hits + others
