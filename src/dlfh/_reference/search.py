"""Nearest codes to a real-valued query, and codes within a radius."""

from __future__ import annotations

import numpy as np

from dlfh._reference.matrices import bits


def _weighted_distances(query, weights, item_words):
    return bits(query ^ item_words, len(weights)) @ weights


def nearest_by_weight(query_words, weights, low, high, steps, item_words, start, stop, distances, positions):
    for i, query in enumerate(query_words):
        all_distances = _weighted_distances(query, weights[i], item_words[start:stop])
        order = np.argsort(all_distances, kind="stable")[: distances.shape[1]]
        distances[i], positions[i] = all_distances[order], start + order


def nearest_by_table(tables, blocks, start, stop, distances, positions):
    codes_by_byte = blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)[:, start:stop]
    for i, of_query in enumerate(tables):
        total = np.zeros(stop - start, np.int64)
        for table, codes in zip(of_query, codes_by_byte, strict=True):
            total += table[codes]
        order = np.argsort(total, kind="stable")[: distances.shape[1]]
        distances[i], positions[i] = total[order], start + order


def weigh_candidates(query_words, weights, item_words, candidates, distances, start, stop):
    for i in range(start, stop):
        distances[i] = _weighted_distances(query_words[i], weights[i], item_words[candidates[i]])


def within_radius(query_words, item_words, radius):
    distances = np.bitwise_count(query_words ^ item_words).sum(axis=1, dtype=np.int32)
    positions = np.flatnonzero(distances <= radius)
    return positions, distances[positions]
