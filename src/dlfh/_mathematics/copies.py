"""Duplicate detection: exact and near duplicates must not be on both sides of a split.

A duplicate leaks a held-out point into the training set, which favours functions that memorise.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers
from dlfh._validation import Features

#: Distances below which rows may be nearly equal, relative to the root mean square distance between two rows.
_RADII = (0.05, 0.02, 0.01)
#: Number of random projections, whose distances approximate the rows', and number of neighbours examined per row.
_N_PROJECTIONS, _N_NEIGHBOURS = 16, 16
#: Share of the points above which equal rows are a common value, such as an empty text, and not copies.
_COMMON = 0.1
_CHUNK_ROWS = 4096


def copy_groups(features: Features, classes: Integers) -> Integers:
    """Return a group number for each row, the same for copies: rows of one class that are equal or nearly equal.

    Nearly equal rows are copies only if they stand out, see `_nearby`. Rows that more than a tenth of the points share
    are a common value and not copies. The cost is 16 projections and a search in 16 dimensions.

    classes (n,): With label sets as classes, equal texts of a few common words, which can arise by chance, are copies
        only if their labels agree.
    """
    distinct, row = np.unique(_projections(features), axis=0, return_inverse=True)
    groups = _numbered(_nearby(distinct)[row.ravel()], classes)
    sizes = np.bincount(groups)[groups]
    return _numbered(groups, np.where(sizes > _COMMON * len(groups), np.arange(len(groups)), -1))


def _numbered(*keys: Integers) -> Integers:
    """Return a number for each distinct combination of keys, in order of first occurrence."""
    _, first, number = np.unique(np.stack(keys), axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number.ravel()]


def copies_per_point(n_groups: int, n_sampled: int, n_points: int) -> float:
    """Estimate the mean number of occurrences of a point from the number of groups in a sample.

    If all points occur w times and a share f of them is sampled, 1 - (1 - f)^w of the distinct ones are expected.
    """
    from scipy.optimize import brentq

    share = n_sampled / n_points

    def excess(w: float) -> float:
        return (1 - (1 - share) ** w) / w * n_points - n_groups

    return 1.0 if n_groups == n_sampled else float(brentq(excess, 1.0, 2.0 * n_points))


def _projections(features: Features) -> Floats:
    """Return random projections of the rows, divided by the root mean square distance between two of them.

    Dense features are divided by their deviations, sparse rows by their lengths. Equal rows have equal projections.
    """
    n, n_features = features.shape
    directions = np.random.default_rng(0).normal(size=(n_features, _N_PROJECTIONS))
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(features):
            squares = np.asarray(features.astype(np.float64).power(2).sum(axis=1)).ravel()
            values = (features @ directions) / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
        else:
            deviations = features.std(axis=0, dtype=np.float64)
            mean = features.mean(axis=0, dtype=np.float64)
            directions /= np.where(deviations > 1e-6 * np.abs(mean), deviations, np.inf)[:, None]
            chunks = (features[start : start + _CHUNK_ROWS] for start in range(0, n, _CHUNK_ROWS))
            # One row at a time in einsum: in a product of matrices, equal rows may get different rounding errors.
            values = np.concatenate([np.einsum("nd,dk->nk", chunk - mean, directions) for chunk in chunks])
        values /= np.sqrt(2 * values.var(axis=0).sum()) or 1.0
    return np.where(np.isfinite(values), values, 0.0)


def _nearby(rows: Floats) -> Integers:
    """Return the group number of each distinct row: connected components of nearly equal rows.

    The radius is the largest within which more than twice as many pairs lie as in the shell of one to two radii. Rows
    that vary continuously have at least as many pairs in the shell, in one dimension, and more in several.
    """
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    n = len(rows)
    if n < 2:
        return np.arange(n)
    ranks = range(2, 2 + min(_N_NEIGHBOURS, n - 1))  # the first neighbour is the row itself
    distances, neighbours = cKDTree(rows).query(rows, k=ranks, distance_upper_bound=2 * max(_RADII))
    for radius in _RADII:
        near = distances < radius
        # If all neighbours of a row are near, the next ones are unknown: assume as many in the shell.
        n_around = np.count_nonzero(distances < 2 * radius) - near.sum() + near[near.all(axis=1)].size
        if near.sum() > 2 * n_around:
            first, place = np.nonzero(near)
            links = sp.coo_array((np.ones(len(first)), (first, neighbours[first, place])), shape=(n, n))
            return np.asarray(connected_components(links, directed=False)[1], np.int64)
    return np.arange(n)
