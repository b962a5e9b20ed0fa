"""Rankings of a database, and sums over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def hamming_block(a_words: Array, b_words: Array, distances: Array) -> None:
    distances[:] = np.bitwise_count(a_words[:, :, None] ^ b_words).sum(axis=1)


def rank_by_distance(query_words: Array, item_words: Array, n_bits: int, places: Array, sizes: Array) -> None:
    for i, query in enumerate(query_words):
        distances = np.bitwise_count(query[:, None] ^ item_words).sum(axis=0)
        places[i, np.argsort(distances, kind="stable")] = np.arange(len(distances))
        sizes[i] = np.bincount(distances, minlength=n_bits + 1)


def rank_by_score(projections: Array, items: Array, places: Array, tied: Array) -> None:
    n_bits = projections.shape[1]
    for i, projection in enumerate(projections):
        scores = np.zeros(len(items), np.float32)
        for b in range(items.shape[1]):
            part = projection[8 * b : 8 * b + 8]
            table = np.zeros(256, np.float32)
            for value in part:
                table[0] -= value
            for byte in range(1, 256):
                k = 8 - (byte & -byte).bit_length()  # the lowest set bit
                gain = 2 * part[k] if 8 * b + k < n_bits else np.float32(0)
                table[byte] = table[byte & (byte - 1)] + gain
            scores += table[items[:, b]]
        order = np.argsort(-scores, kind="stable")
        places[i, order] = np.arange(len(items))
        tied[i] = np.concatenate([[False], np.diff(scores[order]) == 0])


def reorder(gains: Array, places: Array, ranked: Array) -> None:
    np.put_along_axis(ranked, places.astype(np.int64), gains, axis=1)


def sum_precisions(ranked: Array, depth: int, sums: Array, hits: Array, n_relevant: Array) -> None:
    for i, row in enumerate(ranked):
        ranks = np.flatnonzero(row[:depth] > 0) + 1
        sums[i] = np.sum(np.arange(1, len(ranks) + 1) / ranks)
        hits[i] = len(ranks)
        n_relevant[i] = np.count_nonzero(row)
