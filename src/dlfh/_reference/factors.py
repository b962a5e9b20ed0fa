"""Updates of the discrete latent factor model, and pair counts for its likelihood."""

from __future__ import annotations

import numpy as np

from dlfh._reference.matrices import bits, label_matrix, members


def _flips(tables, S, distances, weights, v, u):
    """Return which rows flip their bits u; S and distances are (rows, columns), weights and bits v are by column."""
    residual_table, curvature_table, kind_weights, unit_threshold, is_exact = tables
    kind = S.astype(np.int64)
    residuals = residual_table.reshape(2, -1)[kind, distances].astype(np.int64)
    gradient = (weights * residuals) @ v
    if is_exact:
        threshold = curvature_table.reshape(2, -1)[kind, distances].astype(np.int64) @ weights
        return -threshold - u * gradient > 0
    n_similar, total = kind @ weights, int(weights.sum())
    bound = (total - n_similar) * kind_weights[0] + n_similar * kind_weights[1]
    threshold = np.ceil(bound * unit_threshold).astype(np.int64) + (total + 1) // 2
    return np.where(gradient + threshold * u >= 0, 1, -1) != u


def _similar(row_sets, label_lists, inverted_lists, n_columns):
    labels = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[row_sets]
    return (labels @ members(*inverted_lists, n_columns)) > 0


def update_rows(
    row_bytes, row_words, row_sets, label_lists, columns, inverted_lists, tables, first_bit, last_bit, start, stop
):
    """Update column by column for all rows at once, as in the paper."""
    _, column_masks, column_weights = columns
    n_bits = column_masks.shape[0]
    U = 2 * bits(row_words[start:stop], n_bits).astype(np.int64) - 1
    V = 2 * column_masks.T.astype(np.int64) + 1
    S = _similar(row_sets[start:stop], label_lists, inverted_lists, len(column_weights))
    flips = 0
    for k in range(first_bit, last_bit):
        flip = _flips(tables, S, (n_bits - U @ V.T) // 2, column_weights.astype(np.int64), V[:, k], U[:, k])
        flips += int(flip.sum())
        U[flip, k] *= -1
    packed = np.packbits(U > 0, axis=1)
    row_bytes[start:stop, : packed.shape[1]] = packed
    return flips


def update_shared_rows(
    row_bytes, row_words, row_sets, row_weights, label_lists, words, masks, inverted_lists, tables, first_bit, last_bit
):
    n_bits, n_rows = masks.shape
    U = 2 * bits(row_words, n_bits).astype(np.int64) - 1
    L = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[row_sets]
    S = L @ L.T > 0
    flips = 0
    for i in range(n_rows):
        others = np.arange(n_rows) != i
        for k in range(first_bit, last_bit):
            distances = (n_bits - U[others] @ U[i]) // 2
            similar = S[i : i + 1, others]
            (flip,) = _flips(tables, similar, distances[None], row_weights[others], U[others, k], U[i, k : k + 1])
            flips += int(flip)
            U[i, k] *= -1 if flip else 1
    packed = np.packbits(U > 0, axis=1)
    row_bytes[:, : packed.shape[1]] = packed
    words[:] = row_words.T
    masks[:] = (U.T - 1) // 2
    return flips


def count_pairs(
    row_words, row_sets, row_weights, label_lists, column_words, column_weights, inverted_lists, n_bits, start, stop
):
    S = _similar(row_sets[start:stop], label_lists, inverted_lists, len(column_weights))
    distances = np.bitwise_count(row_words[start:stop, :, None] ^ column_words).sum(axis=1, dtype=np.int64)
    weights = np.outer(row_weights[start:stop], column_weights)
    counts = np.zeros((2, n_bits + 1), np.int64)
    np.add.at(counts, (S.astype(np.int64), distances), weights)
    return counts


def update_observed_rows(
    row_bytes, row_words, pairs, weights, column_bytes, column_words, tables, first_bit, last_bit, start, stop
):
    starts, columns, similar = pairs
    V = 2 * bits(column_words, 8 * column_bytes.shape[1]).astype(np.int64) - 1
    flips = 0
    for i in range(start, stop):
        row = slice(starts[i], starts[i + 1])
        observed, weight = V[columns[row]], weights[columns[row]].astype(np.int64)
        if weight.sum() == 0:
            continue
        for k in range(first_bit, last_bit):
            u = 2 * np.unpackbits(row_bytes[i]).astype(np.int64) - 1
            distances = np.sum(u != observed, axis=1)
            (flip,) = _flips(tables, similar[None, row] > 0, distances[None], weight, observed[:, k], u[k : k + 1])
            flips += int(flip)
            row_bytes[i, k >> 3] ^= np.uint8(int(flip) << (7 - (k & 7)))
    return flips


def count_observed_pairs(row_words, pairs, column_words, n_bits, start, stop):
    starts, columns, similar = pairs
    counts = np.zeros((2, n_bits + 1), np.int64)
    rows = np.repeat(np.arange(start, stop), np.diff(starts[start : stop + 1]))
    part = slice(starts[start], starts[stop])
    differing = bits(row_words[rows], n_bits) != bits(column_words[columns[part]], n_bits)
    np.add.at(counts, (similar[part], differing.sum(axis=1)), 1)
    return counts
