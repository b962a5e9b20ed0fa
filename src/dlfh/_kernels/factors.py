"""Updates of the discrete latent factor model, and pair counts for its likelihood."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels import ONE
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
def join_tables(tables):
    """Return the residuals and the curvatures as one table, and the rest of the tables: a look-up costs most of a flip.

    An entry is the residual times 2^32 plus the curvature, increased by ``ONE`` to be positive.
    """
    residual_table, curvature_table, kind_weights, unit_threshold, is_exact = tables
    joined = np.empty(residual_table.size, np.int64)
    for place in range(joined.size):
        joined[place] = (np.int64(residual_table[place]) << 32) + (curvature_table[place] + ONE)
    return joined, kind_weights, unit_threshold, is_exact


@njit
def look_up(weights, places, joined_table, dropped_bits, entries, residuals):
    """Set the columns' table entries, and their weighted residuals without their last bits.

    Return the weighted curvature, the threshold of the exact step, and the sum of the residuals.
    """
    for q in range(weights.size):  # apart from the arithmetic, in half the time
        entries[q] = joined_table[places[q]]
    curvature, total = np.int64(0), np.int64(0)
    for q in range(weights.size):
        residual = weights[q] * (entries[q] >> 32)
        residuals[q] = residual >> dropped_bits
        total += residual
        curvature += weights[q] * ((entries[q] & 0xFFFFFFFF) - ONE)
    return curvature, total


@njit
def bits_to_drop(total_weight):
    """Return how many bits to drop from the residuals, all less than ``ONE``, so that their sums fit in 32 bits."""
    dropped_bits = 0
    while total_weight >> dropped_bits >= (1 << 30) // ONE:
        dropped_bits += 1
    return dropped_bits


@njit
def negative_sum(residuals, masks, k):
    """Return the sum of the residuals where V_qk = -1 and the mask is -1, in 32 bits."""
    total = np.int32(0)
    for q in range(residuals.size):
        total = np.int32(total + (residuals[q] & np.int32(masks[k, q])))
    return np.int64(total)


@njit
def exact_negative_sum(weights, entries, masks, k):
    """Return the sum of `negative_sum` with all bits of the residuals."""
    total = np.int64(0)
    for q in range(weights.size):
        total += (weights[q] * (entries[q] >> 32)) & np.int64(masks[k, q])
    return total


@njit
def move_places(places, masks, k, toward):
    """Update the table index of each column after a flip: one less if its bit has the new sign, otherwise one more."""
    for q in range(places.size):
        places[q] += -1 if masks[k, q] == toward else 1


@njit
def update_bits(code, first_bit, last_bit, columns, places, kinds, values, rules, own_column):
    """Update bits of one code in place; return the number of flips.

    ``columns`` contains masks and weights, ``kinds`` the total weights of similar and dissimilar columns, ``values``
    buffers for `look_up`; ``rules`` come from `join_tables`. ``own_column`` is the code's column among them, of weight
    0, whose masks are updated as well; -1 if there is none.
    """
    masks, weights = columns
    entries, residuals = values
    joined_table, kind_weights, unit_threshold, is_exact = rules
    if own_column >= 0:
        places[own_column] = 0  # any valid index
    dropped_bits = bits_to_drop(kinds[0] + kinds[1])
    margin = residuals.size << (dropped_bits + 1)  # of which dropped bits can reduce a gradient
    threshold, total = look_up(weights, places, joined_table, dropped_bits, entries, residuals)
    if not is_exact:
        threshold = bound_threshold(kinds[0], kinds[1], kind_weights, unit_threshold)
    flips = 0
    for k in range(first_bit, last_bit):
        shift = 7 - (k & 7)
        is_set = (code[k >> 3] >> shift) & 1
        # The gradient sum_q r_q V_qk is the sum of all residuals less twice the negative ones. Sums in 32 bits take
        # half the time of exact ones, and nearly always decide.
        gradient = total - (negative_sum(residuals, masks, k) << (dropped_bits + 1))
        limit = -threshold if is_set else threshold + is_exact
        if gradient >= limit > gradient - margin:
            gradient = total - 2 * exact_negative_sum(weights, entries, masks, k)
        if (gradient < limit) == (is_set != 0):
            flips += 1
            code[k >> 3] ^= 1 << shift
            toward = -1 if is_set else 0
            move_places(places, masks, k, toward)
            if own_column >= 0:
                places[own_column] = 0
                masks[k, own_column] = toward
            curvature, total = look_up(weights, places, joined_table, dropped_bits, entries, residuals)
            if is_exact:
                threshold = curvature
    return flips


@njit
def dense_members(inverted_lists, n_columns):
    """Return the inverted lists as an indicator matrix (labels, columns), in which vector instructions count faster.

    It has no rows if most of it would be zeros.
    """
    starts, members = inverted_lists
    n_labels = starts.size - 1
    matrix = np.zeros((n_labels if 16 * members.size >= n_labels * n_columns else 0, n_columns), np.uint8)
    for label in range(len(matrix)):
        for p in range(starts[label], starts[label + 1]):
            matrix[label, members[p]] += 1
    return matrix


@njit
def count_shared_densely(label_lists, label_set, matrix, shared):
    """Count shared labels as `count_shared` does, from the matrix of `dense_members`."""
    set_starts, set_labels = label_lists
    shared[:] = 0
    for p in range(set_starts[label_set], set_starts[label_set + 1]):
        label = set_labels[p]
        for q in range(shared.size):
            shared[q] += matrix[label, q]


@njit
def _buffers(n):
    """Return buffers for ``n`` columns: numbers of shared labels, distances, table indices, entries and residuals."""
    values = np.empty(n, np.int64), np.empty(n, np.int32)
    return np.zeros(n, np.int32), np.empty(n, np.uint16), np.empty(n, np.uint16), values


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
    n_distances, rules = tables[0].size // 2, join_tables(tables)
    shared, distances, places, values = _buffers(column_weights.size)
    matrix = dense_members(inverted_lists, column_weights.size)
    flips = 0
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            if len(matrix):
                count_shared_densely(label_lists, marked_set, matrix, shared)
            else:
                count_shared(label_lists, marked_set, inverted_lists, shared)
        distances_to_all(row_words[i], column_words, distances)
        kinds = find_places(shared, distances, n_distances, column_weights, places)
        flips += update_bits(row_bytes[i], first_bit, last_bit, columns[1:], places, kinds, values, rules, -1)
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
    n_distances, rules = tables[0].size // 2, join_tables(tables)
    shared, distances, places, values = _buffers(n_rows)
    weights = row_weights.copy()
    flips = 0
    for i in range(n_rows):
        count_shared(label_lists, row_sets[i], inverted_lists, shared)
        distances_to_all(row_words[i], words, distances)
        weights[i] = 0
        kinds = find_places(shared, distances, n_distances, weights, places)
        flips += update_bits(row_bytes[i], first_bit, last_bit, (masks, weights), places, kinds, values, rules, i)
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
    _, distances, places, values = _buffers(longest)
    column_weights = np.empty(longest, np.int64)
    masks = np.empty((last_bit, longest), np.int8)
    rules = join_tables(tables)
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
        row = (row_bytes[i], first_bit, last_bit, (masks, of_row), places[:n], kinds, (values[0][:n], values[1][:n]))
        flips += update_bits(*row, rules, -1)
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
