"""Vectors in two dimensions: neighbours stay neighbours, and everything has room.

Every vector is joined to its nearest ones; joined points attract each other and all points push each other away, as
in UMAP (McInnes, Healy and Melville, 2018) with the kernel of t-SNE, in plain NumPy: a second for some thousand points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]

#: How many vectors each is joined to; how often points move, and how many push a point each time.
_NEIGHBOURS, _STEPS, _PUSHES = 15, 300, 5
#: The length of a step, the most that one force does, and the width of the start.
_RATE, _MOST, _WIDTH = 1 / 8, 4.0, 10.0
#: How much of a place is its rank: without, a few clusters far out leave the others a dot.
_SPREAD = 0.75
_ROWS_AT_ONCE = 1024


def lay_out(vectors: npt.NDArray[np.float32]) -> Floats:
    """Return places from -1 to 1 in two dimensions for vectors, similar ones near to each other.

    The same vectors get the same places.

    Examples
    --------
    >>> lay_out(np.array([[1, 1, 1], [1, 1, 1], [-1, -1, -1]], np.float32))[:, 0].round(2)
    array([ 1.,  1., -1.])
    """
    n = len(vectors)
    places = np.zeros((n, 2))
    if n < 2:
        return places
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)  # which way an axis points is nobody's choice: the same one
    places[:, : axes.shape[1]] = centred @ axes
    if n <= 2 * _NEIGHBOURS:
        return _scaled(places)
    return _spread(_move(_scaled(places) * _WIDTH, _join(vectors)))


def _join(vectors: npt.NDArray[np.float32]) -> sp.csr_matrix:
    """Return how strongly vectors are joined: fully to the nearest one, less to those further away."""
    n = len(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    near = np.empty((n, _NEIGHBOURS), np.int64)
    strength = np.empty((n, _NEIGHBOURS))
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, n))
        distances = np.maximum(squares[rows, None] + squares - 2 * vectors[rows] @ vectors.T, 0)
        distances[rows - start, rows] = np.inf
        near[rows] = np.argpartition(distances, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        beyond = np.sqrt(np.take_along_axis(distances, near[rows], 1))
        beyond -= beyond.min(axis=1, keepdims=True)
        strength[rows] = np.exp(-beyond / np.maximum(beyond.mean(axis=1, keepdims=True), 1e-3))
    directed = sp.csr_matrix((strength.ravel(), near.ravel(), np.arange(n + 1) * _NEIGHBOURS), (n, n))
    return (directed + directed.T - directed.multiply(directed.T)).tocsr()


def _move(places: Floats, joined: sp.csr_matrix) -> Floats:
    """Let joined points attract each other, and all points push each other away."""
    n = len(places)
    rng = np.random.default_rng(0)
    places = places + rng.normal(0, 1e-2, places.shape)  # equal vectors are not on one spot for ever
    heads, strength = joined.indices, joined.data
    tails = np.repeat(np.arange(n), np.diff(joined.indptr))
    degrees = np.add.reduceat(strength, joined.indptr[:-1])
    for step in range(_STEPS):
        away, squares = _differences(places[heads], places[tails])
        moves = np.add.reduceat(_forces(away, 2 * strength / (1 + squares)), joined.indptr[:-1])
        for _ in range(_PUSHES):
            away, squares = _differences(places, places[rng.permutation(n)])
            moves += _forces(away, 2 / ((1e-3 + squares) * (1 + squares))) * degrees[:, None]
        places += moves * (_RATE * (1 - step / _STEPS))
    return places


def _differences(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    away = left - right
    return away, np.einsum("ij,ij->i", away, away)


def _forces(away: Floats, strength: Floats) -> Floats:
    return np.clip(away * strength[:, None], -_MOST, _MOST)


def _spread(places: Floats) -> Floats:
    """Give room to where points are many."""
    ranks = np.argsort(np.argsort(places, axis=0), axis=0)
    return (1 - _SPREAD) * _scaled(places) + _SPREAD * (2 * ranks / (len(places) - 1) - 1)


def _scaled(places: npt.NDArray[Any]) -> Floats:
    low, high = places.min(axis=0), places.max(axis=0)
    return np.where(high > low, 2 * (places - low) / np.where(high > low, high - low, 1) - 1, 0.0)
