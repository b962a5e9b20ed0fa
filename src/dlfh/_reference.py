"""What each kernel computes, in plain NumPy: same names, same arguments, same results to the last bit.

Slow, short and easy to check against the paper. Tests compare `dlfh._kernels` with this module.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._kernels import ONE

Array = npt.NDArray[Any]


def _bits(words: Array, n_bits: int) -> Array:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, count=n_bits)


def _label_matrix(starts: Array, labels: Array, n_labels: int) -> Array:
    shape = (len(starts) - 1, n_labels)
    return sp.csr_array((np.ones(len(labels), np.int64), labels, starts), shape=shape).toarray()


def _members(list_starts: Array, list_members: Array, n_members: int) -> Array:
    """Return inverted lists as an indicator matrix (labels, members)."""
    return _label_matrix(list_starts, list_members, n_members)


def invert_lists(starts: Array, labels: Array, chosen: Array, n_labels: int) -> tuple[Array, Array]:
    member, label = np.nonzero(_label_matrix(starts, labels, n_labels)[chosen])
    order = np.argsort(label, kind="stable")
    list_starts = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_labels))])
    return list_starts.astype(np.int64), member[order].astype(np.int32)


def update_rows(
    row_bytes: Array,
    row_words: Array,
    row_sets: Array,
    set_starts: Array,
    set_labels: Array,
    column_words: Array,
    column_masks: Array,
    column_weights: Array,
    list_starts: Array,
    list_members: Array,
    sigmoid: Array,
    threshold: int,
    first_bit: int,
    last_bit: int,
    start: int,
    stop: int,
) -> int:
    """Update column after column for all rows at once, as the paper writes it."""
    n_bits = column_masks.shape[0]
    U = 2 * _bits(row_words[start:stop], n_bits).astype(np.int64) - 1
    V = 2 * column_masks.T.astype(np.int64) + 1
    S = (
        _label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets[start:stop]]
        @ _members(list_starts, list_members, len(column_weights))
    ) > 0
    flips = 0
    for k in range(first_bit, last_bit):
        A = sigmoid[(n_bits - U @ V.T) // 2].astype(np.int64)
        gradient = (column_weights * (S * ONE - A)) @ V[:, k]
        updated = np.where(gradient + threshold * U[:, k] >= 0, 1, -1)
        flips += int((updated != U[:, k]).sum())
        U[:, k] = updated
    padded = np.packbits(U > 0, axis=1)
    row_bytes[start:stop, : padded.shape[1]] = padded
    return flips


def update_shared_rows(
    row_bytes: Array,
    row_words: Array,
    row_sets: Array,
    row_weights: Array,
    set_starts: Array,
    set_labels: Array,
    words: Array,
    masks: Array,
    list_starts: Array,
    list_members: Array,
    sigmoid: Array,
    unit_threshold: float,
    first_bit: int,
    last_bit: int,
) -> int:
    n_bits, n_rows = masks.shape
    U = 2 * _bits(row_words, n_bits).astype(np.int64) - 1
    L = _label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets]
    S = L @ L.T > 0
    flips = 0
    for i in range(n_rows):
        others = np.arange(n_rows) != i
        weight = int(row_weights[others].sum())
        threshold = int(np.ceil(weight * unit_threshold)) + (weight + 1) // 2
        for k in range(first_bit, last_bit):
            A = sigmoid[(n_bits - U[others] @ U[i]) // 2].astype(np.int64)
            gradient = (row_weights[others] * (S[i, others] * ONE - A)) @ U[others, k]
            updated = 1 if gradient + threshold * U[i, k] >= 0 else -1
            flips += int(updated != U[i, k])
            U[i, k] = updated
    packed = np.packbits(U > 0, axis=1)
    row_bytes[:, : packed.shape[1]] = packed
    words[:] = row_words.T
    masks[:] = (U.T - 1) // 2
    return flips


def count_pairs(
    row_words: Array,
    row_sets: Array,
    row_weights: Array,
    set_starts: Array,
    set_labels: Array,
    column_words: Array,
    column_weights: Array,
    list_starts: Array,
    list_members: Array,
    n_bits: int,
    start: int,
    stop: int,
) -> Array:
    S = (
        _label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets[start:stop]]
        @ _members(list_starts, list_members, len(column_weights))
    ) > 0
    distances = np.bitwise_count(row_words[start:stop, :, None] ^ column_words).sum(axis=1, dtype=np.int64)
    weights = np.outer(row_weights[start:stop], column_weights)
    counts = np.zeros((2, n_bits + 1), np.int64)
    np.add.at(counts, (S.astype(np.int64), distances), weights)
    return counts


def sum_rows_by_group(rows: Array, group_of_row: Array, sums: Array, start_column: int, stop_column: int) -> None:
    columns = slice(start_column, stop_column)
    np.add.at(sums[:, columns], group_of_row, rows[:, columns].astype(np.float64))


def add_sparse_gram(starts: Array, columns: Array, values: Array, gram: Array) -> None:
    matrix = sp.csr_array((values.astype(np.float64), columns, starts), shape=(len(starts) - 1, len(gram)))
    gram += np.triu((matrix.T @ matrix).toarray())


def finish_products(
    rows: Array,
    weights_by_bit: Array,
    offset: Array,
    bit_terms: Array,
    rounding: float,
    products: Array,
    codes: Array,
    start: int,
    stop: int,
) -> bool:
    values = products[start:stop] + bit_terms[0]
    scale = rounding * np.linalg.norm(rows[start:stop], axis=1)
    for i, k in np.argwhere(np.abs(values) <= np.outer(scale, bit_terms[1]) + bit_terms[2]):
        total = 0.0
        for x, w in zip(rows[start + i].tolist(), weights_by_bit[k].tolist(), strict=True):
            total += x * w
        values[i, k] = total + offset[k]
    products[start:stop] = values
    codes[start:stop] = np.packbits(values > 0, axis=1)
    return bool(np.isfinite(values.astype(np.float32)).all())


def sparse_products(
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    offset: Array,
    bit_terms: Array,
    products: Array,
    codes: Array,
    start: int,
    stop: int,
) -> bool:
    finite = True
    for i in range(start, stop):
        part = slice(starts[i], starts[i + 1])
        x, w = values[part].astype(np.float32), weights[columns[part]]
        sums, squares = bit_terms[0].copy(), np.float32(0)
        for value, row in zip(x, w, strict=True):
            squares += value * value
            sums += value * row
        scale = np.float32(len(x) + 8) * np.float32(1.2e-7) * np.sqrt(squares)
        products[i] = sums
        for k in np.flatnonzero(np.abs(sums) <= scale * bit_terms[1] + bit_terms[2]):
            total = 0.0
            for value, weight in zip(values[part].tolist(), w[:, k].tolist(), strict=True):
                total += value * weight
            products[i, k] = total + offset[k]
        finite &= bool(np.isfinite(sums).all())
    codes[start:stop] = np.packbits(products[start:stop] > 0, axis=1)
    return finite


def pack_signs(values: Array, codes: Array) -> None:
    codes[:] = np.packbits(values > 0, axis=1)


def hamming_block(a_words: Array, b_words: Array, distances: Array) -> None:
    distances[:] = np.bitwise_count(a_words[:, :, None] ^ b_words).sum(axis=1)


def shared_labels(
    query_sets: Array,
    set_starts: Array,
    set_labels: Array,
    list_starts: Array,
    list_members: Array,
    set_of_item: Array,
    n_sets: int,
    at_most: int,
    shared: Array,
) -> None:
    queries = _label_matrix(set_starts, set_labels, len(list_starts) - 1)[query_sets]
    counts = queries @ _members(list_starts, list_members, n_sets)
    shared[:] = np.minimum(counts, at_most)[:, set_of_item]


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


def pull_and_push(
    products: Array,
    squared_norms: Array,
    row_sets: Array,
    row_weights: Array,
    set_starts: Array,
    set_labels: Array,
    list_starts: Array,
    list_members: Array,
    unit: float,
    first_row: int,
    pull: Array,
    push: Array,
    start: int,
    stop: int,
) -> tuple[float, float]:
    rows = np.arange(first_row + start, first_row + stop)
    labels = _members(list_starts, list_members, len(set_starts) - 1).T.astype(np.float64)
    labels /= np.sqrt(np.maximum(labels.sum(axis=1), 1))[:, None]
    p = unit * (labels @ labels.T)[row_sets[rows]][:, row_sets]
    distances = squared_norms[rows, None] + squared_norms - 2 * products[start:stop].astype(np.float64)
    distances = np.maximum(distances, 0)
    distances[np.arange(len(rows)), rows] = 0
    near = 1 / (1 + distances / 4)
    others = np.broadcast_to(row_weights, near.shape).astype(np.float64)
    pull[start:stop], push[start:stop] = others * p * near, others * near**2
    pull[np.arange(start, stop), rows] = push[np.arange(start, stop), rows] = 0
    others[np.arange(len(rows)), rows] -= 1
    pairs = row_weights[rows, None] * others
    return float(np.sum(pairs * near)), float(np.sum(pairs * p * np.log(near)))


def update_latent_bits(
    S: Array,
    codes: Array,
    weights: Array,
    embedded: Array,
    gram: Array,
    other_by_bit: Array,
    row_sets: Array,
    set_starts: Array,
    set_labels: Array,
    list_starts: Array,
    list_members: Array,
    set_sums: Array,
    precision: float,
    link: float,
    slopes: Array,
    log_prior: float,
) -> int:
    """Compare, for each bit, the log-posterior with the bit set to +1 and to -1."""
    labels = _members(list_starts, list_members, len(set_starts) - 1).T
    similar = ((labels @ labels.T) > 0)[row_sets][:, row_sets]
    V = other_by_bit.T.astype(np.float64)

    def log_posterior(i: int, u: Array) -> float:
        others = np.arange(len(codes)) != i
        errors = S[i] - embedded @ u
        own = S[i, i] - u @ weights @ u
        intra = -precision / 2 * np.sum(errors[others] ** 2) - precision / 4 * own**2
        theta = link * (V @ u)
        return float(intra + np.sum(similar[i] * theta - np.logaddexp(0, theta)))

    flips = 0
    for i in range(len(codes)):
        for k in range(codes.shape[1]):
            plus, minus = codes[i].astype(np.float64), codes[i].astype(np.float64)
            plus[k], minus[k] = 1, -1
            new = 1 if log_prior + log_posterior(i, plus) - log_posterior(i, minus) > 0 else -1
            flips += int(new != codes[i, k])
            codes[i, k] = new
        embedded[i] = codes[i] @ weights
    gram[:] = embedded.T @ embedded
    return flips


def update_observed_rows(
    row_bytes: Array,
    row_words: Array,
    starts: Array,
    columns: Array,
    similar: Array,
    weights: Array,
    column_bytes: Array,
    column_words: Array,
    sigmoid: Array,
    unit_threshold: float,
    first_bit: int,
    last_bit: int,
    start: int,
    stop: int,
) -> int:
    """Update column after column of the codes, each row against its own columns."""
    n_bits = 8 * column_bytes.shape[1]
    V = 2 * _bits(column_words, n_bits).astype(np.int64) - 1
    flips = 0
    for i in range(start, stop):
        own = slice(starts[i], starts[i + 1])
        seen, weight = V[columns[own]], weights[columns[own]].astype(np.int64)
        total = int(weight.sum())
        if total == 0:
            continue
        threshold = int(np.ceil(total * unit_threshold)) + (total + 1) // 2
        for k in range(first_bit, last_bit):
            u = 2 * np.unpackbits(row_bytes[i]).astype(np.int64) - 1
            distances = np.sum(u != seen, axis=1)
            residuals = weight * (ONE * similar[own].astype(np.int64) - sigmoid[distances])
            gradient = int(residuals @ seen[:, k])
            flip = gradient + threshold < 0 if u[k] > 0 else gradient - threshold >= 0
            if flip:
                flips += 1
                row_bytes[i, k >> 3] ^= np.uint8(1 << (7 - (k & 7)))
    return flips


def count_observed_pairs(
    row_words: Array,
    starts: Array,
    columns: Array,
    similar: Array,
    column_words: Array,
    n_bits: int,
    start: int,
    stop: int,
) -> Array:
    counts = np.zeros((2, n_bits + 1), np.int64)
    rows = np.repeat(np.arange(start, stop), np.diff(starts[start : stop + 1]))
    own = slice(starts[start], starts[stop])
    differing = _bits(row_words[rows], n_bits) != _bits(column_words[columns[own]], n_bits)
    np.add.at(counts, (similar[own], differing.sum(axis=1)), 1)
    return counts


def hash_strings(offsets: Array, blob: Array, hashes: Array) -> None:
    for i in range(len(hashes)):
        value = 14695981039346656037
        for byte in blob[offsets[i] : offsets[i + 1]].tolist():
            value = (value ^ byte) * 1099511628211 % 2**64
        hashes[i] = value


def find_strings(
    sorted_hashes: Array,
    row_of_hash: Array,
    offsets: Array,
    blob: Array,
    wanted_hashes: Array,
    wanted_offsets: Array,
    wanted_blob: Array,
    found: Array,
    start: int,
    stop: int,
) -> None:
    stored = [blob[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
    wanted = [wanted_blob[a:b].tobytes() for a, b in itertools.pairwise(wanted_offsets)]
    for i in range(start, stop):
        found[i] = stored.index(wanted[i]) if wanted[i] in stored else -1


def gather_strings(offsets: Array, blob: Array, rows: Array, new_offsets: Array, new_blob: Array) -> None:
    for i, row in enumerate(rows):
        new_blob[new_offsets[i] : new_offsets[i + 1]] = blob[offsets[row] : offsets[row + 1]]


def _weighted_distances(query: Array, weights: Array, item_words: Array) -> Array:
    return _bits(query ^ item_words, len(weights)) @ weights


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
