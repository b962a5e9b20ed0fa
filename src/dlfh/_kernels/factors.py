"""Updates of the discrete latent factor model, and its likelihood."""

from __future__ import annotations

import numpy as np

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared, distances_to_all, popcount

FRACTION_BITS = 22
ONE = 1 << FRACTION_BITS
_CHUNK = 256


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
    sigmoid,
    threshold,
    first_bit,
    last_bit,
    start,
    stop,
):
    """Update bits ``first_bit:last_bit`` of rows ``start:stop`` in turn, in place; return the flips.

    Eq. (3) and (5) of the paper for one row at a time. With the other modality's codes V fixed, rows
    do not interact, so this gives what the paper's column-wise order gives. `column_masks[k, q]` is
    0 where V_qk = +1 and -1 where V_qk = -1.
    """
    n_columns = column_weights.size
    similar = np.zeros(n_columns, np.int32)
    distances = np.empty(n_columns, np.uint16)
    residuals = np.empty(n_columns, column_weights.dtype)
    one = np.int32(ONE)
    integer = residuals.dtype.type
    flips = 0
    marked_set = -1
    for i in range(start, stop):
        if row_sets[i] != marked_set:
            marked_set = row_sets[i]
            count_shared(set_starts, set_labels, marked_set, list_starts, list_members, similar)
            for q in range(n_columns):
                similar[q] = one if similar[q] > 0 else 0
        distances_to_all(row_words[i], column_words, distances)
        for q in range(n_columns):
            residuals[q] = column_weights[q] * (similar[q] - sigmoid[distances[q]])
        for k in range(first_bit, last_bit):
            # sum_q r_q V_qk. Where V_qk = -1, -r = (r ^ -1) + 1.
            gradient = np.int64(0)
            for chunk in range(0, n_columns, _CHUNK):
                partial = integer(0)
                for q in range(chunk, min(chunk + _CHUNK, n_columns)):
                    mask = integer(column_masks[k, q])
                    partial = integer(partial + integer(integer(residuals[q] ^ mask) - mask))
                gradient += partial
            shift = 7 - (k & 7)
            is_set = (row_bytes[i, k >> 3] >> shift) & 1
            if (gradient + threshold < 0) if is_set else (gradient - threshold >= 0):
                flips += 1
                row_bytes[i, k >> 3] ^= 1 << shift
                toward = -1 if is_set else 0  # the mask value of the bit's new sign
                for q in range(n_columns):
                    distances[q] += -1 if column_masks[k, q] == toward else 1
                    residuals[q] = column_weights[q] * (similar[q] - sigmoid[distances[q]])
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
    sigmoid,
    unit_threshold,
    first_bit,
    last_bit,
):
    """Update bits of every row in turn against all other rows of the same codes; return the flips.

    One code shared by the modalities: Theta = U U'. A row's Theta with itself does not depend on its code,
    so its own column is left out, and since every row sees the rows before it as they are now, each step
    is monotone. ``words`` and ``masks`` hold the codes by word and by bit, and are kept up to date.
    """
    n_rows = row_weights.size
    similar = np.zeros(n_rows, np.int32)
    distances = np.empty(n_rows, np.uint16)
    residuals = np.empty(n_rows, np.int64)
    total = row_weights.sum()
    one = np.int32(ONE)
    flips = 0
    for i in range(n_rows):
        count_shared(set_starts, set_labels, row_sets[i], list_starts, list_members, similar)
        distances_to_all(row_words[i], words, distances)
        for q in range(n_rows):
            similar[q] = one if similar[q] > 0 else 0
            residuals[q] = row_weights[q] * (similar[q] - sigmoid[distances[q]])
        residuals[i] = 0
        others = total - row_weights[i]
        threshold = np.int64(np.ceil(others * unit_threshold)) + (others + 1) // 2
        for k in range(first_bit, last_bit):
            gradient = np.int64(0)
            for q in range(n_rows):
                gradient += (residuals[q] ^ masks[k, q]) - masks[k, q]
            shift = 7 - (k & 7)
            is_set = (row_bytes[i, k >> 3] >> shift) & 1
            if (gradient + threshold < 0) if is_set else (gradient - threshold >= 0):
                flips += 1
                row_bytes[i, k >> 3] ^= 1 << shift
                toward = -1 if is_set else 0
                for q in range(n_rows):
                    distances[q] += -1 if masks[k, q] == toward else 1
                    residuals[q] = row_weights[q] * (similar[q] - sigmoid[distances[q]])
                residuals[i] = 0
                distances[i] = 0
                masks[k, i] = toward
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
    sigmoid,
    unit_threshold,
    first_bit,
    last_bit,
    start,
    stop,
):
    """Update bits of rows ``start:stop`` against their observed columns alone; return the flips.

    Row i was observed with ``columns[starts[i]:starts[i + 1]]``, which are ``similar`` (1) or not (0); every
    column has a weight. As `update_rows`, at the cost of the observed pairs.
    """
    longest = 0
    for i in range(start, stop):
        longest = max(longest, starts[i + 1] - starts[i])
    distances = np.empty(longest, np.int64)
    residuals = np.empty(longest, np.int64)
    flips = 0
    for i in range(start, stop):
        first, n_columns = starts[i], starts[i + 1] - starts[i]
        total = np.int64(0)
        for q in range(n_columns):
            column = columns[first + q]
            distance = np.int64(0)
            for w in range(row_words.shape[1]):
                distance += np.int64(popcount(row_words[i, w] ^ column_words[column, w]))
            distances[q] = distance
            weight = np.int64(weights[column])
            residuals[q] = weight * (ONE * np.int64(similar[first + q]) - sigmoid[distance])
            total += weight
        threshold = np.int64(np.ceil(total * unit_threshold)) + (total + 1) // 2
        for k in range(first_bit, last_bit):
            place, shift = k >> 3, 7 - (k & 7)
            gradient = np.int64(0)
            for q in range(n_columns):
                if (column_bytes[columns[first + q], place] >> shift) & 1:
                    gradient += residuals[q]
                else:
                    gradient -= residuals[q]
            is_set = (row_bytes[i, place] >> shift) & 1
            if total > 0 and ((gradient + threshold < 0) if is_set else (gradient - threshold >= 0)):
                flips += 1
                row_bytes[i, place] ^= 1 << shift
                for q in range(n_columns):
                    column = columns[first + q]
                    agrees = (column_bytes[column, place] >> shift) & 1 != is_set
                    distances[q] += -1 if agrees else 1
                    weight = np.int64(weights[column])
                    residuals[q] = weight * (ONE * np.int64(similar[first + q]) - sigmoid[distances[q]])
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
