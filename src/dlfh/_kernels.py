"""The hot loops, compiled by Numba. `dlfh._reference` says in plain NumPy what each one computes.

Codes are packed as by `numpy.packbits`, in rows of whole 64-bit words: a byte view addresses single
bits, a word view of the same memory serves XOR and popcount, which do not care about the order of
bits. All sums that decide a bit are sums of integers, so they are exact: the order of rows, blocks,
columns and threads cannot change a code.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from dlfh._compile import Kernel

#: Fractional bits of the fixed-point sigmoid. 256 residuals of this size sum within an int32.
FRACTION_BITS = 22
ONE = 1 << FRACTION_BITS
_CHUNK = 256


@intrinsic
def _popcount(typing_context, word):
    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@njit
def _distances_to_all(code, words, distances):
    """Fill ``distances`` from one code to all; ``words[w, j]`` is word w of code j."""
    first = code[0]
    for j in range(distances.size):
        distances[j] = _popcount(first ^ words[0, j])
    for w in range(1, code.size):
        word = code[w]
        for j in range(distances.size):
            distances[j] += _popcount(word ^ words[w, j])


@njit
def _count_shared(set_starts, set_labels, label_set, list_starts, list_members, shared):
    """Set ``shared[q]`` to how many labels the label set shares with member q of the inverted lists."""
    for q in range(shared.size):
        shared[q] = 0
    for p in range(set_starts[label_set], set_starts[label_set + 1]):
        label = set_labels[p]
        for t in range(list_starts[label], list_starts[label + 1]):
            shared[list_members[t]] += 1


@Kernel
def invert_lists(starts, labels, chosen, n_labels):
    """Return, for each label, which of the ``chosen`` label sets have it (CSR to inverted lists)."""
    list_starts = np.zeros(n_labels + 1, np.int64)
    for g in chosen:
        for p in range(starts[g], starts[g + 1]):
            list_starts[labels[p] + 1] += 1
    for label in range(n_labels):
        list_starts[label + 1] += list_starts[label]
    members = np.empty(list_starts[n_labels], np.int32)
    free = np.empty(n_labels, np.int64)
    for label in range(n_labels):
        free[label] = list_starts[label]
    for q in range(chosen.size):
        g = chosen[q]
        for p in range(starts[g], starts[g + 1]):
            members[free[labels[p]]] = q
            free[labels[p]] += 1
    return list_starts, members


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
            _count_shared(set_starts, set_labels, marked_set, list_starts, list_members, similar)
            for q in range(n_columns):
                similar[q] = one if similar[q] > 0 else 0
        _distances_to_all(row_words[i], column_words, distances)
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
        _count_shared(set_starts, set_labels, row_sets[i], list_starts, list_members, similar)
        _distances_to_all(row_words[i], words, distances)
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
            _count_shared(set_starts, set_labels, marked_set, list_starts, list_members, similar)
        _distances_to_all(row_words[i], column_words, distances)
        for q in range(column_weights.size):
            counts[1 if similar[q] > 0 else 0, distances[q]] += row_weights[i] * column_weights[q]
    return counts


@Kernel
def sum_rows_by_group(rows, group_of_row, sums, start_column, stop_column):
    """Add row i of ``rows`` to row ``group_of_row[i]`` of ``sums``, for a range of columns."""
    for i in range(rows.shape[0]):
        group = group_of_row[i]
        for j in range(start_column, stop_column):
            sums[group, j] += rows[i, j]


@Kernel
def add_sparse_gram(starts, columns, values, gram):
    """Add the upper triangle of A'A to ``gram``, for a CSR matrix A with sorted columns."""
    for i in range(starts.size - 1):
        for p in range(starts[i], starts[i + 1]):
            value = np.float64(values[p])
            for q in range(p, starts[i + 1]):
                gram[columns[p], columns[q]] += value * values[q]


@njit(fastmath=True)
def _norm(vector):
    total = vector[0] * vector[0]
    for j in range(1, vector.size):
        total += vector[j] * vector[j]
    return np.sqrt(total)


@njit
def _pack_row(values, code):
    """Set bit k of the code where ``values[k] > 0``, in the order of `numpy.packbits`."""
    n_bits = values.size
    for b in range(code.size):
        byte = 0
        for k in range(8 * b, min(8 * b + 8, n_bits)):
            byte |= (1 if values[k] > 0 else 0) << (7 - (k & 7))
        code[b] = byte


@Kernel
def finish_products(rows, weights_by_bit, offset, bit_terms, rounding, products, codes, start, stop):
    """Make values of ``products`` = rows @ weights and their codes: add the offset, settle doubtful signs.

    What BLAS returns for a row depends, in the last digits, on the rows around it and on the machine. A
    value smaller than the bound of its rounding error, ``rounding`` x |x| |w| + ``rounding`` x |offset|, is
    summed again in double precision, one feature after another. So signs do not depend on such things.
    The rows of ``bit_terms`` are, in the precision of the products, the offset, |w| and ``rounding`` x
    |offset|. Returns whether all is finite.
    """
    n_bits = products.shape[1]
    largest = np.float32(3.4028234663852886e38)
    finite = True
    for i in range(start, stop):
        scale = rounding * _norm(rows[i])
        doubtful = 0
        for k in range(n_bits):
            value = products[i, k] + bit_terms[0, k]
            products[i, k] = value
            doubtful += 0 if abs(value) > scale * bit_terms[1, k] + bit_terms[2, k] else 1
        if doubtful:
            for k in range(n_bits):
                if not abs(products[i, k]) > scale * bit_terms[1, k] + bit_terms[2, k]:
                    total = 0.0
                    for j in range(rows.shape[1]):
                        total += np.float64(rows[i, j]) * np.float64(weights_by_bit[k, j])
                    products[i, k] = total + offset[k]
        for k in range(n_bits):
            finite &= abs(products[i, k]) <= largest
        _pack_row(products[i], codes[i])
    return finite


@Kernel
def sparse_products(starts, columns, values, weights, offset, bit_terms, products, codes, start, stop):
    """Make values A @ weights + offset and their codes for rows ``start:stop`` of a CSR matrix A.

    In single precision, one feature after another; doubtful signs are settled as in `finish_products`.
    The rows of ``bit_terms`` are the offset, |w| and |offset| x rounding. Returns whether all is finite.
    """
    n_bits = weights.shape[1]
    largest = np.float32(3.4028234663852886e38)
    eps = np.float32(1.2e-7)
    sums = np.empty(n_bits, np.float32)
    finite = True
    for i in range(start, stop):
        for k in range(n_bits):
            sums[k] = bit_terms[0, k]
        squares = np.float32(0)
        for p in range(starts[i], starts[i + 1]):
            value = np.float32(values[p])
            squares += value * value
            row = weights[columns[p]]
            for k in range(n_bits):
                sums[k] += value * row[k]
        scale = np.float32(starts[i + 1] - starts[i] + 8) * eps * np.sqrt(squares)
        doubtful = 0
        for k in range(n_bits):
            products[i, k] = sums[k]
            doubtful += 0 if abs(sums[k]) > scale * bit_terms[1, k] + bit_terms[2, k] else 1
            finite &= abs(sums[k]) <= largest
        if doubtful:
            for k in range(n_bits):
                if not abs(sums[k]) > scale * bit_terms[1, k] + bit_terms[2, k]:
                    total = 0.0
                    for p in range(starts[i], starts[i + 1]):
                        total += np.float64(values[p]) * np.float64(weights[columns[p], k])
                    products[i, k] = total + offset[k]
        _pack_row(products[i], codes[i])
    return finite


@Kernel
def pack_signs(values, codes):
    """Set bit k of code i where ``values[i, k] > 0``, in the order of `numpy.packbits`."""
    for i in range(values.shape[0]):
        _pack_row(values[i], codes[i])


@Kernel
def hamming_block(a_words, b_words, distances):
    """Fill ``distances[i, j]`` with the Hamming distance between codes a_i and b_j."""
    for i in range(a_words.shape[0]):
        _distances_to_all(a_words[i], b_words, distances[i])


@Kernel
def shared_labels(query_sets, set_starts, set_labels, list_starts, list_members, set_of_item, n_sets, at_most, shared):
    """Fill ``shared[i, j]`` with how many labels query i and item j have in common, or ``at_most``."""
    by_set = np.zeros(n_sets, np.int32)
    grades = np.zeros(n_sets, shared.dtype)  # as small as can be: it is looked up once per item
    for i in range(query_sets.size):
        _count_shared(set_starts, set_labels, query_sets[i], list_starts, list_members, by_set)
        for g in range(n_sets):
            grades[g] = min(by_set[g], at_most)
        for j in range(set_of_item.size):
            shared[i, j] = grades[set_of_item[j]]


@njit
def _take_place(next_place, part, distances, places, j):
    place = next_place[part, distances[j]]
    places[j] = place
    next_place[part, distances[j]] = place + 1


@Kernel
def rank_by_distance(query_words, item_words, n_bits, places, sizes):
    """Fill ``places[i, j]`` with item j's place in the ranking by Hamming distance from query i.

    Equal distances are ranked in database order. A counting sort: distances take n_bits + 1 values.
    ``sizes[i, h]`` gets the number of items at distance h, which are the runs of ties. The database is
    walked in four parts at once, each with counters of its own, so that the processor need not wait for
    one counter to be stored and read.
    """
    n_items = item_words.shape[1]
    part = n_items // 4
    a, b, c, d = 0, part, 2 * part, 3 * part
    distances = np.empty(n_items, np.uint16)
    counts = np.empty((4, n_bits + 1), np.uint32)
    for i in range(query_words.shape[0]):
        _distances_to_all(query_words[i], item_words, distances)
        for h in range(n_bits + 1):
            for p in range(4):
                counts[p, h] = 0
        for t in range(part):
            counts[0, distances[a + t]] += 1
            counts[1, distances[b + t]] += 1
            counts[2, distances[c + t]] += 1
            counts[3, distances[d + t]] += 1
        for j in range(4 * part, n_items):
            counts[3, distances[j]] += 1
        place = 0
        for h in range(n_bits + 1):
            first = place
            for p in range(4):
                place, counts[p, h] = place + counts[p, h], place
            sizes[i, h] = place - first
        for t in range(part):
            _take_place(counts, 0, distances, places[i], a + t)
            _take_place(counts, 1, distances, places[i], b + t)
            _take_place(counts, 2, distances, places[i], c + t)
            _take_place(counts, 3, distances, places[i], d + t)
        for j in range(4 * part, n_items):
            _take_place(counts, 3, distances, places[i], j)


@njit
def _radix_pass(keys, order, keys_out, order_out, shift):
    counts = np.zeros(2049, np.int64)
    for key in keys:
        counts[((key >> shift) & 2047) + 1] += 1
    for digit in range(2047):
        counts[digit + 1] += counts[digit]
    for t in range(keys.size):
        digit = (keys[t] >> shift) & 2047
        keys_out[counts[digit]] = keys[t]
        order_out[counts[digit]] = order[t]
        counts[digit] += 1


@Kernel
def rank_by_score(projections, items, places, tied):
    """Fill ``places[i, j]`` with item j's place by falling inner product of projection and +-1 code.

    Equal scores are ranked in database order. One table of 256 partial sums per byte of code, so that
    equal codes have exactly equal scores; then a stable radix sort of the scores' order-preserving bit
    patterns. ``tied[i, r]`` says that ranks r - 1 and r have the same score.
    """
    n_items, n_bytes = items.shape
    n_bits = projections.shape[1]
    tables = np.empty((n_bytes, 256), np.float32)
    score = np.empty(1, np.float32)
    score_bits = score.view(np.uint32)
    keys, keys_out = np.empty(n_items, np.uint32), np.empty(n_items, np.uint32)
    order, order_out = np.empty(n_items, np.int32), np.empty(n_items, np.int32)
    for i in range(projections.shape[0]):
        for b in range(n_bytes):
            tables[b, 0] = 0
            for k in range(8 * b, min(8 * b + 8, n_bits)):
                tables[b, 0] -= projections[i, k]
            for byte in range(1, 256):
                lowest = byte & -byte
                bit = 0
                while lowest >> (bit + 1):
                    bit += 1
                k = 8 * b + 7 - bit
                gain = 2 * projections[i, k] if k < n_bits else np.float32(0)
                tables[b, byte] = tables[b, byte & (byte - 1)] + gain
        for j in range(n_items):
            total = np.float32(0)
            for b in range(n_bytes):
                total += tables[b, items[j, b]]
            score[0] = np.float32(0) - total + np.float32(0)  # ascending keys; -0 becomes +0
            bits = score_bits[0]
            keys[j] = ~bits if bits >> 31 else bits | np.uint32(0x80000000)
            order[j] = j
        for shift in (0, 11, 22):
            _radix_pass(keys, order, keys_out, order_out, shift)
            keys, keys_out = keys_out, keys
            order, order_out = order_out, order
        for r in range(n_items):
            places[i, order[r]] = r
            tied[i, r] = r > 0 and keys[r] == keys[r - 1]


@Kernel
def reorder(gains, places, ranked):
    """Put ``gains[i, j]`` in place ``places[i, j]`` of row i."""
    for i in range(gains.shape[0]):
        for j in range(gains.shape[1]):
            ranked[i, places[i, j]] = gains[i, j]


@Kernel
def sum_precisions(ranked, depth, sums, hits, n_relevant):
    """Sum precision over the relevant ranks of each row up to ``depth``; count these, and all of them."""
    ranks = np.empty(depth + 1, np.int32)
    for i in range(ranked.shape[0]):
        found = 0
        for r in range(depth):  # without a branch: relevance is hard to predict
            ranks[found] = r + 1
            found += 1 if ranked[i, r] > 0 else 0
        a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums at once, so that none waits for the last
        quarters = found // 4 * 4
        for t in range(0, quarters, 4):
            a += (t + 1) / ranks[t]
            b += (t + 2) / ranks[t + 1]
            c += (t + 3) / ranks[t + 2]
            d += (t + 4) / ranks[t + 3]
        for t in range(quarters, found):
            a += (t + 1) / ranks[t]
        sums[i] = (a + b) + (c + d)
        hits[i] = found
        for r in range(depth, ranked.shape[1]):
            found += 1 if ranked[i, r] > 0 else 0
        n_relevant[i] = found
