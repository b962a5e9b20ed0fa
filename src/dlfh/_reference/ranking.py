"""Hamming distances, rankings and sums of precisions."""

from __future__ import annotations

import numpy as np


def hamming_block(a_words, b_words, distances):
    distances[:] = np.bitwise_count(a_words[:, :, None] ^ b_words).sum(axis=1)


def rank_by_distance(query_words, item_words, n_bits, places, sizes):
    for i, query in enumerate(query_words):
        distances = np.bitwise_count(query[:, None] ^ item_words).sum(axis=0, dtype=np.int64)
        places[i, np.argsort(distances, kind="stable")] = np.arange(len(distances))
        sizes[i] = np.bincount(distances, minlength=n_bits + 1)


def fill_byte_tables(projections, tables):
    for projection, of_query in zip(projections, tables, strict=True):
        for b, table in enumerate(of_query):
            part = projection[8 * b : 8 * b + 8]
            table[0] = 0
            for value in part:
                table[0] -= value
            for byte in range(1, 256):
                k = 8 - (byte & -byte).bit_length()  # the lowest set bit
                gain = 2 * part[k] if k < len(part) else np.float32(0)
                table[byte] = table[byte & (byte - 1)] + gain


def rank_by_score(tables, items, places, tied):
    for i, of_query in enumerate(tables):
        scores = np.zeros(len(items), np.float32)
        for table, values in zip(of_query, items.T, strict=True):
            scores += table[values]
        order = np.argsort(-scores, kind="stable")
        places[i, order] = np.arange(len(items))
        tied[i] = np.concatenate([[False], np.diff(scores[order]) == 0])


def reorder(gains, places, ranked):
    np.put_along_axis(ranked, places.astype(np.int64), gains, axis=1)


def count_marks(ranked, stops, found):
    for i, row in enumerate(ranked):
        found[i] = [np.count_nonzero(row[:stop]) for stop in stops[i]]


def sum_precisions(ranked, sizes, items_before, hits_before, depth, found):
    for i, row in enumerate(ranked):
        sums = hits = 0.0
        runs = np.split(row, np.cumsum(sizes[i])[:-1])
        for run, items, before in zip(runs, items_before[i], hits_before[i], strict=True):
            ranks = items + np.flatnonzero(run) + 1
            precisions = (before + np.arange(1, len(ranks) + 1)) / ranks
            sums += precisions[ranks <= depth].sum()
            hits += np.count_nonzero(ranks <= depth)
        found[i] = sums, hits, np.count_nonzero(row)
