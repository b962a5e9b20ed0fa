"""Sums and products of features, with signs that do not depend on rounding."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def sum_rows_by_group(rows, group_of_row, sums, start_column, stop_column):
    columns = slice(start_column, stop_column)
    np.add.at(sums[:, columns], group_of_row, rows[:, columns].astype(np.float64))


def add_sparse_gram(starts, columns, values, gram):
    matrix = sp.csr_array((values.astype(np.float64), columns, starts), shape=(len(starts) - 1, len(gram)))
    gram += np.triu((matrix.T @ matrix).toarray())


def finish_products(rows, weights, offset, bit_terms, rounding, products, codes, start, stop):
    values = products[start:stop] + bit_terms[0]
    scale = rounding * np.sqrt(np.square(rows[start:stop]).sum(axis=1, keepdims=True))
    for i, k in zip(*(np.abs(values) <= scale * bit_terms[1] + bit_terms[2]).nonzero(), strict=True):
        values[i, k] = _sum_in_order(rows[start + i].astype(np.float64) * weights[:, k]) + offset[k]
    products[start:stop] = values
    codes[start:stop] = np.packbits(values > 0, axis=1)
    return bool(np.isfinite(values.astype(np.float32)).all())


def sparse_products(starts, columns, values, weights, offset, bit_terms, products, codes, start, stop):
    finite = True
    for i in range(start, stop):
        row = slice(starts[i], starts[i + 1])
        x, w = values[row].astype(np.float32), weights[columns[row]]
        terms = np.empty((len(x) + 1, len(offset)), np.float32)
        terms[0] = bit_terms[0]
        np.multiply(x[:, None], w, out=terms[1:])
        sums = _sum_in_order(terms)
        scale = np.float32(len(x) + 8) * np.float32(1.2e-7) * np.sqrt(_sum_in_order(x * x))
        products[i] = sums
        for k in np.flatnonzero(np.abs(sums) <= scale * bit_terms[1] + bit_terms[2]):
            products[i, k] = _sum_in_order(values[row].astype(np.float64) * w[:, k]) + offset[k]
        finite &= bool(np.isfinite(sums).all())
    codes[start:stop] = np.packbits(products[start:stop] > 0, axis=1)
    return finite


def _sum_in_order(values):
    """Return the sum over the first axis, added one after another."""
    if values.ndim == 2 and values.shape[1] > 1:
        return np.add.reduce(values, axis=0)  # pairwise along the last axis only, and faster than accumulate
    return np.add.accumulate(values, axis=0)[-1] if len(values) else values.dtype.type(0)


def hinge_losses(values, signs, residuals):
    gaps = np.maximum(1 - values * signs, 0)
    residuals[:] = 2 * gaps * signs
    return np.sum(gaps.astype(np.float64) ** 2, axis=0)


def hinge_curvatures(residuals, changes):
    return 2 * np.sum(np.where(residuals != 0, changes.astype(np.float64), 0) ** 2, axis=0)
