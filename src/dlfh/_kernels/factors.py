"""Updates of the discrete latent factor model, and its likelihood."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared, distances_to_all, popcount


@njit
def bound_threshold(n_similar, n_dissimilar, kind_weights, unit_threshold):
    """Return how far the sum of residuals must point away from a bit to flip it by the bound, eq. (3).

    The curvature bound in fixed point, rounded up and with the table's rounding (half a unit per column) on top: a flip
    is then one that eq. (3) makes in exact arithmetic too, so the full solver is monotone whatever the rounding.
    """
    total = n_dissimilar * kind_weights[0] + n_similar * kind_weights[1]
    return np.int64(np.ceil(total * unit_threshold)) + (n_similar + n_dissimilar + 1) // 2


@njit
def find_places(shared, distances, n_distances, weights, places):
    """Set where in the tables each column is, by (similar or not, distance); return the weights of both kinds."""
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
    """Set the weighted residuals, and return the weighted curvature: the threshold of the exact step."""
    curvature = np.int64(0)
    for q in range(weights.size):
        place = places[q]
        residuals[q] = weights[q] * residual_table[place]
        curvature += weights[q] * curvature_table[place]
    return curvature


@njit
def signed_sum(residuals, mask):
    """Return sum_q r_q V_qk; where V_qk = -1 the mask is -1, and -r = (r ^ -1) + 1.

    Over whole rows of 64-bit integers: compilers make the widest instructions of it that the machine has.
    """
    total = np.int64(0)
    for q in range(residuals.size):
        sign = np.int64(mask[q])
        total += (residuals[q] ^ sign) - sign
    return total


@njit
def move_places(places, mask, toward):
    """Let every column take the step to its distance after a flip, nearer where its bit has the new sign."""
    for q in range(places.size):
        places[q] += -1 if mask[q] == toward else 1


@Kernel
def update_rows(
    row_bytes,
    row_words,
    row_sets,
    set_starts,
    set_labels,
    column_words,
    column_masks,
    column_weights,
    list_starts,
    list_members,
    residual_table,
    curvature_table,
    kind_weights,
    unit_threshold,
    is_exact,
    first_bit,
    last_bit,
    start,
    stop,
):
    """Update bits ``first_bit:last_bit`` of rows ``start:stop`` in turn, in place; return the flips.

    Eq. (3) and (5) of the paper for one row at a time. With the other modality's codes V fixed, rows
    do not interact, so this gives what the paper's column-wise order gives. `column_masks[k, q]` is
    0 where V_qk = +1 and -1 where V_qk = -1. The tables are those of `LatentFactorModel`, by (similar or
    not) and distance, one after the other.
    """
    n_columns = column_weights.size
    n_distances = residual_table.size // 2
    shared = np.zeros(n_columns, np.int32)
    distances = np.empty(n_columns, np.uint16)
    places = np.empty(n_columns, np.uint16)
    residuals = np.empty(n_columns, np.int64)
    flips = 0
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            count_shared(set_starts, set_labels, marked_set, list_starts, list_members, shared)
        distances_to_all(row_words[i], column_words, distances)
        kinds = find_places(shared, distances, n_distances, column_weights, places)
        threshold = look_up(column_weights, places, residual_table, curvature_table, residuals)
        if not is_exact:
            threshold = bound_threshold(kinds[0], kinds[1], kind_weights, unit_threshold)
        for k in range(first_bit, last_bit):
            gradient = signed_sum(residuals, column_masks[k])
            shift = 7 - (k & 7)
            is_set = (row_bytes[i, k >> 3] >> shift) & 1
            if (gradient + threshold < 0) if is_set else (gradient - threshold >= is_exact):
                flips += 1
                row_bytes[i, k >> 3] ^= 1 << shift
                move_places(places, column_masks[k], -1 if is_set else 0)
                curvature = look_up(column_weights, places, residual_table, curvature_table, residuals)
                if is_exact:
                    threshold = curvature
    return flips


@Kernel
def update_shared_rows(
    row_bytes,
    row_words,
    row_sets,
    row_weights,
    set_starts,
    set_labels,
    words,
    masks,
    list_starts,
    list_members,
    residual_table,
    curvature_table,
    kind_weights,
    unit_threshold,
    is_exact,
    first_bit,
    last_bit,
):
    """Update bits of every row in turn against all other rows of the same codes; return the flips.

    One code shared by the modalities: Theta = U U'. A row's Theta with itself does not depend on its code,
    so its own column is left out, and since every row sees the rows before it as they are now, each step
    is monotone. ``words`` and ``masks`` hold the codes by word and by bit, and are kept up to date.
    """
    n_rows = row_weights.size
    n_distances = residual_table.size // 2
    shared = np.zeros(n_rows, np.int32)
    distances = np.empty(n_rows, np.uint16)
    places = np.empty(n_rows, np.uint16)
    residuals = np.empty(n_rows, np.int64)
    weights = row_weights.copy()
    flips = 0
    for i in range(n_rows):
        count_shared(set_starts, set_labels, row_sets[i], list_starts, list_members, shared)
        distances_to_all(row_words[i], words, distances)
        weights[i] = 0
        kinds = find_places(shared, distances, n_distances, weights, places)
        places[i] = 0  # of no weight, wherever it is
        threshold = look_up(weights, places, residual_table, curvature_table, residuals)
        if not is_exact:
            threshold = bound_threshold(kinds[0], kinds[1], kind_weights, unit_threshold)
        for k in range(first_bit, last_bit):
            gradient = signed_sum(residuals, masks[k])
            shift = 7 - (k & 7)
            is_set = (row_bytes[i, k >> 3] >> shift) & 1
            if (gradient + threshold < 0) if is_set else (gradient - threshold >= is_exact):
                flips += 1
                row_bytes[i, k >> 3] ^= 1 << shift
                toward = -1 if is_set else 0
                move_places(places, masks[k], toward)
                places[i] = 0
                masks[k, i] = toward
                curvature = look_up(weights, places, residual_table, curvature_table, residuals)
                if is_exact:
                    threshold = curvature
        weights[i] = row_weights[i]
        for w in range(words.shape[0]):
            words[w, i] = row_words[i, w]
    return flips


@Kernel
def count_pairs(
    row_words,
    row_sets,
    row_weights,
    set_starts,
    set_labels,
    column_words,
    column_weights,
    list_starts,
    list_members,
    n_bits,
    start,
    stop,
):
    """Count the pairs of points by (similar or not, Hamming distance), each row and column weighted.

    The log-likelihood of eq. (1) is a weighted sum of these (c + 1) x 2 exact integers.
    """
    similar = np.zeros(column_weights.size, np.int32)
    distances = np.empty(column_weights.size, np.uint16)
    counts = np.zeros((2, n_bits + 1), np.int64)
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            count_shared(set_starts, set_labels, marked_set, list_starts, list_members, similar)
        distances_to_all(row_words[i], column_words, distances)
        for q in range(column_weights.size):
            counts[1 if similar[q] > 0 else 0, distances[q]] += row_weights[i] * column_weights[q]
    return counts


@Kernel
def update_observed_rows(
    row_bytes,
    row_words,
    starts,
    columns,
    similar,
    weights,
    column_bytes,
    column_words,
    residual_table,
    curvature_table,
    kind_weights,
    unit_threshold,
    is_exact,
    first_bit,
    last_bit,
    start,
    stop,
):
    """Update bits of rows ``start:stop`` against their observed columns alone; return the flips.

    Row i was observed with ``columns[starts[i]:starts[i + 1]]``, which are ``similar`` (1) or not (0); every
    column has a weight. As `update_rows`, at the cost of the observed pairs.
    """
    n_distances = residual_table.size // 2
    longest = 0
    for i in range(start, stop):
        longest = max(longest, starts[i + 1] - starts[i])
    places = np.empty(longest, np.int64)  # of (similar or not, distance) in the tables
    residuals = np.empty(longest, np.int64)
    flips = 0
    for i in range(start, stop):
        first, n_columns = starts[i], starts[i + 1] - starts[i]
        n_similar, n_dissimilar, curvature = np.int64(0), np.int64(0), np.int64(0)
        for q in range(n_columns):
            column = columns[first + q]
            place = np.int64(0)
            for w in range(row_words.shape[1]):
                place += np.int64(popcount(row_words[i, w] ^ column_words[column, w]))
            weight = np.int64(weights[column])
            if similar[first + q]:
                place += n_distances
                n_similar += weight
            else:
                n_dissimilar += weight
            places[q] = place
            residuals[q] = weight * residual_table[place]
            curvature += weight * curvature_table[place]
        if n_similar + n_dissimilar == 0:
            continue
        threshold = curvature if is_exact else bound_threshold(n_similar, n_dissimilar, kind_weights, unit_threshold)
        for k in range(first_bit, last_bit):
            byte, shift = k >> 3, 7 - (k & 7)
            gradient = np.int64(0)
            for q in range(n_columns):
                if (column_bytes[columns[first + q], byte] >> shift) & 1:
                    gradient += residuals[q]
                else:
                    gradient -= residuals[q]
            is_set = (row_bytes[i, byte] >> shift) & 1
            if (gradient + threshold < 0) if is_set else (gradient - threshold >= is_exact):
                flips += 1
                row_bytes[i, byte] ^= 1 << shift
                curvature = np.int64(0)
                for q in range(n_columns):
                    column = columns[first + q]
                    agrees = (column_bytes[column, byte] >> shift) & 1 != is_set
                    places[q] += -1 if agrees else 1
                    weight = np.int64(weights[column])
                    residuals[q] = weight * residual_table[places[q]]
                    curvature += weight * curvature_table[places[q]]
                if is_exact:
                    threshold = curvature
    return flips


@Kernel
def count_observed_pairs(row_words, starts, columns, similar, column_words, n_bits, start, stop):
    """Count the observed pairs by (similar or not, Hamming distance)."""
    counts = np.zeros((2, n_bits + 1), np.int64)
    for i in range(start, stop):
        for p in range(starts[i], starts[i + 1]):
            distance = np.int64(0)
            for w in range(row_words.shape[1]):
                distance += np.int64(popcount(row_words[i, w] ^ column_words[columns[p], w]))
            counts[similar[p], distance] += 1
    return counts
