"""Sums and products of features, with signs that do not depend on rounding."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel
from dlfh._kernels.inline import pack_row


@Kernel
def centre_rows(rows, centre, group_of_row, centred, sums, start_column, stop_column):
    """Set ``centred`` to ``rows - centre``, and add its row i to row ``group_of_row[i]`` of ``sums``.

    A pass over a range of columns does both: reading the rows takes most of the time. Places count from 0, so that
    loops are vectorised: they need no check for negative ones.
    """
    middle = centre[start_column:stop_column]
    for i in range(rows.shape[0]):
        row, target = rows[i][start_column:stop_column], centred[i][start_column:stop_column]
        total = sums[group_of_row[i]][start_column:stop_column]
        for j in range(middle.size):
            value = row[j] - middle[j]
            target[j] = value
            total[j] += value


@Kernel
def sum_sparse_rows_by_group(starts, columns, values, group_of_row, sums):
    """Add row i of a CSR matrix to row ``group_of_row[i]`` of ``sums``."""
    for i in range(starts.size - 1):
        group = group_of_row[i]
        for p in range(starts[i], starts[i + 1]):
            sums[group, columns[p]] += values[p]


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


@Kernel
def finish_products(rows, weights, offset, bit_terms, rounding, products, codes, start, stop):
    """Add the offset to ``products`` = rows @ weights, correct doubtful signs, and pack the codes.

    The last digits of a BLAS product depend on the other rows and on the machine. A value within the bound of its
    rounding error, ``rounding`` x |x| |w| + ``rounding`` x |offset|, is summed again in double precision, one feature
    after another, so that signs are reproducible. The rows of ``bit_terms`` are, in the precision of the products, the
    offset, |w| and ``rounding`` x |offset|. Returns whether all values are finite.
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
                        total += np.float64(rows[i, j]) * np.float64(weights[j, k])
                    products[i, k] = total + offset[k]
        for k in range(n_bits):
            finite &= abs(products[i, k]) <= largest
        pack_row(products[i], codes[i])
    return finite


@Kernel
def sparse_products(starts, columns, values, weights, offset, bit_terms, products, codes, start, stop):
    """Compute A @ weights + offset and its codes for rows ``start:stop`` of a CSR matrix A.

    Sums are in single precision, one feature after another; doubtful signs are corrected as in `finish_products`. The
    rows of ``bit_terms`` are the offset, |w| and |offset| x rounding. ``products`` without rows are not stored. Returns
    whether all values are finite.
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
            doubtful += 0 if abs(sums[k]) > scale * bit_terms[1, k] + bit_terms[2, k] else 1
            finite &= abs(sums[k]) <= largest
        if doubtful:
            for k in range(n_bits):
                if not abs(sums[k]) > scale * bit_terms[1, k] + bit_terms[2, k]:
                    total = 0.0
                    for p in range(starts[i], starts[i + 1]):
                        total += np.float64(values[p]) * np.float64(weights[columns[p], k])
                    sums[k] = total + offset[k]
        if products.shape[0]:
            products[i] = sums
        pack_row(sums, codes[i])
    return finite


@Kernel
def hinge_losses(values, signs, residuals):
    """Set the negative derivatives of the squared hinge loss max(0, 1 - u z)^2; return the loss of each column."""
    n, n_columns = values.shape
    sums = np.zeros(n_columns)
    for i in range(n):
        for k in range(n_columns):
            gap = max(np.float32(1) - values[i, k] * signs[i, k], np.float32(0))
            residuals[i, k] = np.float32(2) * gap * signs[i, k]
            sums[k] += np.float64(gap) * gap
    return sums


@Kernel
def hinge_curvatures(residuals, changes):
    """Return the second derivative of each column's squared hinge loss along ``changes``."""
    n, n_columns = changes.shape
    sums = np.zeros(n_columns)
    for i in range(n):
        for k in range(n_columns):
            change = np.float64(changes[i, k]) if residuals[i, k] != 0 else 0.0
            sums[k] += 2 * change * change
    return sums


@njit
def _argmin(bits):
    """Return the first place of the least of 256 floats, given as 32-bit integers; none is -0."""
    least = np.int64(np.iinfo(np.int64).max)
    for j in range(bits.size):  # integers in the order of the floats, then of places: vector instructions
        least = min(least, np.int64(bits[j] ^ ((bits[j] >> 31) & 0x7FFFFFFF)) << 8 | j)
    return least & 255


@Kernel
def nearest_centroids(roots, starts, centroids, codes):
    """Set ``codes[i, g]`` to the column of the centroid of group g that is nearest to point i, the first of several.

    Group g has the columns ``starts[g]:starts[g + 1]`` of ``roots``, and these rows of ``centroids``.
    """
    n_centroids = centroids.shape[1]
    doubled, squares = centroids * np.float32(-2), np.zeros((starts.size - 1, n_centroids), np.float32)
    distances = np.empty(n_centroids, np.float32)
    bits = distances.view(np.int32)
    for group in range(starts.size - 1):
        for label in range(starts[group], starts[group + 1]):
            for j in range(n_centroids):
                squares[group, j] += centroids[label, j] * centroids[label, j]
    for i in range(roots.shape[0]):
        for group in range(starts.size - 1):
            first, last = starts[group], starts[group + 1] - 1
            root, terms, square = roots[i, last], doubled[last], squares[group]
            if first < last:
                distances[:] = 0
                for label in range(first, last):
                    for j in range(n_centroids):
                        distances[j] += roots[i, label] * doubled[label, j]
                for j in range(n_centroids):
                    distances[j] = distances[j] + root * terms[j] + square[j]
            else:
                for j in range(n_centroids):
                    distances[j] = root * terms[j] + square[j]
            codes[i, group] = _argmin(bits)
