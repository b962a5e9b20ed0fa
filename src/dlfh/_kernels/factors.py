"""Updates of the discrete latent factor model, and pair counts for its likelihood."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared, distances_to_all, popcount


@njit
def bound_threshold(n_similar, n_dissimilar, kind_weights, unit_threshold):
    """Return the threshold of eq. (3): a bit flips if the sum of residuals exceeds it in the opposite direction.

    This is the curvature bound in fixed point, rounded up, plus the rounding error of the table (half a unit per
    column). Every flip is therefore also a flip in exact arithmetic, and the full solver is monotone.
    """
    total = n_dissimilar * kind_weights[0] + n_similar * kind_weights[1]
    return np.int64(np.ceil(total * unit_threshold)) + (n_similar + n_dissimilar + 1) // 2


@njit
def find_places(shared, distances, n_distances, weights, places):
    """Set each column's table index, by (similarity, distance); return the weights of similar and dissimilar ones."""
    n_similar, n_dissimilar = np.int64(0), np.int64(0)
    for q in range(weights.size):
        if shared[q] > 0:
            places[q] = n_distances + distances[q]
            n_similar += weights[q]
        else:
            places[q] = distances[q]
            n_dissimilar += weights[q]
    return n_similar, n_dissimilar


@njit
def look_up(weights, places, residual_table, curvature_table, residuals):
    """Set the weighted residuals; return the weighted curvature, the threshold of the exact step, and their sum."""
    curvature, total = np.int64(0), np.int64(0)
    for q in range(weights.size):
        place = places[q]
        residuals[q] = weights[q] * residual_table[place]
        total += residuals[q]
        curvature += weights[q] * curvature_table[place]
    return curvature, total


@njit
def signed_sum(residuals, total, mask):
    """Return sum_q r_q V_qk = sum_q r_q - 2 x the sum where V_qk = -1 and the mask is -1, in a vectorised loop."""
    negative = np.int64(0)
    for q in range(residuals.size):
        negative += residuals[q] & np.int64(mask[q])
    return total - 2 * negative


@njit
def move_places(places, mask, toward):
    """Update the table index of each column after a flip: one less if its bit has the new sign, otherwise one more."""
    for q in range(places.size):
        places[q] += -1 if mask[q] == toward else 1


@njit
def update_bits(code, first_bit, last_bit, columns, places, kinds, residuals, tables, own_column):
    """Update bits of one code in place; return the number of flips.

    ``columns`` contains masks and weights, ``kinds`` the total weights of similar and dissimilar columns.
    ``own_column`` is the code's column among them, of weight 0, whose masks are updated as well; -1 if there is none.
    """
    masks, weights = columns
    residual_table, curvature_table, kind_weights, unit_threshold, is_exact = tables
    if own_column >= 0:
        places[own_column] = 0  # any valid index
    threshold, total = look_up(weights, places, residual_table, curvature_table, residuals)
    if not is_exact:
        threshold = bound_threshold(kinds[0], kinds[1], kind_weights, unit_threshold)
    flips = 0
    for k in range(first_bit, last_bit):
        gradient = signed_sum(residuals, total, masks[k])
        shift = 7 - (k & 7)
        is_set = (code[k >> 3] >> shift) & 1
        if (gradient + threshold < 0) if is_set else (gradient - threshold >= is_exact):
            flips += 1
            code[k >> 3] ^= 1 << shift
            toward = -1 if is_set else 0
            move_places(places, masks[k], toward)
            if own_column >= 0:
                places[own_column] = 0
                masks[k, own_column] = toward
            curvature, total = look_up(weights, places, residual_table, curvature_table, residuals)
            if is_exact:
                threshold = curvature
    return flips


@njit
def _buffers(n):
    """Return buffers for ``n`` columns: numbers of shared labels, distances, table indices and residuals."""
    return np.zeros(n, np.int32), np.empty(n, np.uint16), np.empty(n, np.uint16), np.empty(n, np.int64)


@Kernel
def update_rows(
    row_bytes, row_words, row_sets, label_lists, columns, inverted_lists, tables, first_bit, last_bit, start, stop
):
    """Update bits ``first_bit:last_bit`` of rows ``start:stop`` in turn, in place; return the number of flips.

    Eq. (3) and (5) of the paper, one row at a time. With the other modality's codes V fixed, rows do not interact, so
    the result equals that of the paper's column-wise order. ``columns`` contains words, masks and weights;
    ``masks[k, q]`` is 0 where V_qk = +1 and -1 where V_qk = -1. ``tables`` is `LatentFactorModel.tables`, indexed by
    distance, dissimilar pairs before similar ones.
    """
    column_words, _, column_weights = columns
    n_distances = tables[0].size // 2
    shared, distances, places, residuals = _buffers(column_weights.size)
    flips = 0
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            count_shared(label_lists, marked_set, inverted_lists, shared)
        distances_to_all(row_words[i], column_words, distances)
        kinds = find_places(shared, distances, n_distances, column_weights, places)
        flips += update_bits(row_bytes[i], first_bit, last_bit, columns[1:], places, kinds, residuals, tables, -1)
    return flips


@Kernel
def update_shared_rows(
    row_bytes, row_words, row_sets, row_weights, label_lists, words, masks, inverted_lists, tables, first_bit, last_bit
):
    """Update bits of every row in turn against all other rows of the same codes; return the number of flips.

    One code is shared by the modalities: Theta = U U'. A row's Theta with itself does not depend on its code, so the
    row is excluded from its own columns. Every row sees the updated rows before it, so each step is monotone.
    ``words`` and ``masks`` contain the codes by word and by bit, and are updated as well.
    """
    n_rows = row_weights.size
    n_distances = tables[0].size // 2
    shared, distances, places, residuals = _buffers(n_rows)
    weights = row_weights.copy()
    flips = 0
    for i in range(n_rows):
        count_shared(label_lists, row_sets[i], inverted_lists, shared)
        distances_to_all(row_words[i], words, distances)
        weights[i] = 0
        kinds = find_places(shared, distances, n_distances, weights, places)
        flips += update_bits(row_bytes[i], first_bit, last_bit, (masks, weights), places, kinds, residuals, tables, i)
        weights[i] = row_weights[i]
        for w in range(words.shape[0]):
            words[w, i] = row_words[i, w]
    return flips


@Kernel
def count_pairs(
    row_words, row_sets, row_weights, label_lists, column_words, column_weights, inverted_lists, n_bits, start, stop
):
    """Count weighted pairs of points by (similarity, Hamming distance): eq. (1) is a weighted sum of these counts."""
    similar = np.zeros(column_weights.size, np.int32)
    distances = np.empty(column_weights.size, np.uint16)
    counts = np.zeros((2, n_bits + 1), np.int64)
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            count_shared(label_lists, marked_set, inverted_lists, similar)
        distances_to_all(row_words[i], column_words, distances)
        for q in range(column_weights.size):
            counts[1 if similar[q] > 0 else 0, distances[q]] += row_weights[i] * column_weights[q]
    return counts


@njit
def _distance(row_words, i, column_words, j):
    distance = np.int64(0)
    for w in range(row_words.shape[1]):
        distance += np.int64(popcount(row_words[i, w] ^ column_words[j, w]))
    return distance


@Kernel
def update_observed_rows(
    row_bytes, row_words, pairs, weights, column_bytes, column_words, tables, first_bit, last_bit, start, stop
):
    """Update bits of rows ``start:stop`` against their observed columns only; return the number of flips.

    ``pairs`` contains starts, columns and similar: row i was observed with ``columns[starts[i]:starts[i + 1]]``, which
    are similar (1) or not (0). Otherwise like `update_rows`; the cost is proportional to the number of observed pairs.
    """
    starts, columns, similar = pairs
    longest = np.int64(0)
    for i in range(start, stop):
        longest = max(longest, starts[i + 1] - starts[i])
    _, distances, places, residuals = _buffers(longest)
    column_weights = np.empty(longest, np.int64)
    masks = np.empty((last_bit, longest), np.int8)
    flips = 0
    for i in range(start, stop):
        first, n = starts[i], starts[i + 1] - starts[i]
        for q in range(n):
            distances[q] = _distance(row_words, i, column_words, columns[first + q])
            column_weights[q] = weights[columns[first + q]]
        of_row = column_weights[:n]
        kinds = find_places(similar[first : first + n], distances, tables[0].size // 2, of_row, places)
        if kinds[0] + kinds[1] == 0:
            continue
        for k in range(first_bit, last_bit):
            for q in range(n):
                masks[k, q] = ((column_bytes[columns[first + q], k >> 3] >> (7 - (k & 7))) & 1) - 1
        row = (row_bytes[i], first_bit, last_bit, (masks, of_row), places[:n], kinds, residuals[:n])
        flips += update_bits(*row, tables, -1)
    return flips


@Kernel
def count_observed_pairs(row_words, pairs, column_words, n_bits, start, stop):
    """Count observed pairs by (similarity, Hamming distance)."""
    starts, columns, similar = pairs
    counts = np.zeros((2, n_bits + 1), np.int64)
    for i in range(start, stop):
        for p in range(starts[i], starts[i + 1]):
            counts[similar[p], _distance(row_words, i, column_words, columns[p])] += 1
    return counts
