"""Nearest codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._reference.matrices import bits

Array = npt.NDArray[Any]


def _weighted_distances(query: Array, weights: Array, item_words: Array) -> Array:
    return bits(query ^ item_words, len(weights)) @ weights


def nearest_by_weight(
    query_words: Array,
    weights: Array,
    low: Array,
    high: Array,
    steps: Array,
    item_words: Array,
    start: int,
    stop: int,
    distances: Array,
    positions: Array,
) -> None:
    for i, query in enumerate(query_words):
        all_distances = _weighted_distances(query, weights[i], item_words[start:stop])
        order = np.argsort(all_distances, kind="stable")[: distances.shape[1]]
        distances[i], positions[i] = all_distances[order], start + order


def weigh_candidates(
    query_words: Array, weights: Array, item_words: Array, candidates: Array, distances: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        distances[i] = _weighted_distances(query_words[i], weights[i], item_words[candidates[i]])


def within_radius(query_words: Array, item_words: Array, radius: int) -> tuple[Array, Array]:
    distances = np.bitwise_count(query_words ^ item_words).sum(axis=1, dtype=np.int32)
    positions = np.flatnonzero(distances <= radius)
    return positions, distances[positions]
