"""The map of a collection: its codes in two dimensions, with similar items near each other.

Each code is joined to its nearest neighbours; joined points attract and all points repel each other, as in UMAP
(McInnes, Healy and Melville, 2018) with the kernel of t-SNE. A few thousand points take about a second in NumPy.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Singles
from dlfh.codes import unpack
from dlfh.collection.item_codes import hashed_codes
from dlfh.service.answering import dump, item_fields
from dlfh.service.states import State

#: Neighbours per point, number of steps, and random points that repel a point in each step.
_NEIGHBOURS, _STEPS, _REPULSIONS = 15, 300, 5
_RATE, _MAX_FORCE, _WIDTH = 1 / 8, 4.0, 10.0  # step size, largest force, and width of the initial layout
#: Weight of ranks in the final coordinates. With none, a few remote clusters would squeeze the others into a dot.
_RANK_WEIGHT = 0.75
_BLOCK_ROWS = 1024


def draw_map(state: State, max_points: int) -> bytes:
    """Return in JSON the map coordinates of all items, or of a fixed random sample of ``max_points``."""
    n = len(state.index)
    sample = np.arange(n)
    if n > max_points:
        sample = np.sort(np.random.default_rng(0).choice(n, max_points, replace=False))
    items = list(state.index.items(state.index.positions()[sample].tolist()))
    modalities = state.encoder.searchable_modalities()
    rows = []
    for item in items:
        hashed = hashed_codes(item, modalities)
        # Learned codes alone would put all items with the same labels on one spot; hashed codes separate them.
        pairs = [(item.codes[name], hashed[name]) for name in hashed]
        rows.append(np.mean([unpack(np.stack(pair), state.index.n_bits).mean(axis=0) for pair in pairs], axis=0))
    positions = lay_out(np.array(rows, np.float32).reshape(len(items), state.index.n_bits))
    points = []
    for item, (x, y) in zip(items, positions.round(4).tolist(), strict=True):
        fields = item_fields(state, item.id, item.metadata or {})
        points.append(
            {"id": item.id, "x": x, "y": y, **{name: fields[name] for name in ("title", "labels", "thumbnail")}}
        )
    return dump({"state": state.name, "items": n, "points": points})


def lay_out(vectors: Singles) -> Floats:
    """Return coordinates from -1 to 1 in two dimensions, similar vectors near each other. Deterministic."""
    n = len(vectors)
    positions = np.zeros((n, 2))
    if n < 2:
        return positions
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)  # the sign of an eigenvector is arbitrary: fix it
    positions[:, : axes.shape[1]] = centred @ axes
    if n <= 2 * _NEIGHBOURS:
        return _scale(positions)
    return _mix_with_ranks(_optimise(_scale(positions) * _WIDTH, _neighbour_graph(vectors)))


def _neighbour_graph(vectors: Singles) -> sp.csr_matrix:
    """Return edge weights between neighbours: 1 for the nearest, less for more distant ones."""
    n = len(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    neighbours = np.empty((n, _NEIGHBOURS), np.int64)
    weights = np.empty((n, _NEIGHBOURS))
    for start in range(0, n, _BLOCK_ROWS):
        rows = np.arange(start, min(start + _BLOCK_ROWS, n))
        distances = np.maximum(squares[rows, None] + squares - 2 * vectors[rows] @ vectors.T, 0)
        distances[rows - start, rows] = np.inf
        neighbours[rows] = np.argpartition(distances, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        beyond = np.sqrt(np.take_along_axis(distances, neighbours[rows], 1))
        beyond -= beyond.min(axis=1, keepdims=True)
        weights[rows] = np.exp(-beyond / np.maximum(beyond.mean(axis=1, keepdims=True), 1e-3))
    directed = sp.csr_matrix((weights.ravel(), neighbours.ravel(), np.arange(n + 1) * _NEIGHBOURS), (n, n))
    return (directed + directed.T - directed.multiply(directed.T)).tocsr()


def _optimise(positions: Floats, graph: sp.csr_matrix) -> Floats:
    """Move the points: neighbours attract each other, and random points repel."""
    n = len(positions)
    rng = np.random.default_rng(0)
    positions = positions + rng.normal(0, 1e-2, positions.shape)  # separates equal vectors
    heads, weights = graph.indices, graph.data
    tails = np.repeat(np.arange(n), np.diff(graph.indptr))
    degrees = np.add.reduceat(weights, graph.indptr[:-1])
    for step in range(_STEPS):
        offsets, squares = _offsets(positions[heads], positions[tails])
        moves = np.add.reduceat(_forces(offsets, 2 * weights / (1 + squares)), graph.indptr[:-1])
        for _ in range(_REPULSIONS):
            offsets, squares = _offsets(positions, positions[rng.permutation(n)])
            moves += _forces(offsets, 2 / ((1e-3 + squares) * (1 + squares))) * degrees[:, None]
        positions += moves * (_RATE * (1 - step / _STEPS))
    return positions


def _offsets(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    offsets = left - right
    return offsets, np.einsum("ij,ij->i", offsets, offsets)


def _forces(offsets: Floats, weights: Floats) -> Floats:
    return np.clip(offsets * weights[:, None], -_MAX_FORCE, _MAX_FORCE)


def _mix_with_ranks(positions: Floats) -> Floats:
    """Spread out dense regions by mixing coordinates with their ranks."""
    ranks = np.argsort(np.argsort(positions, axis=0), axis=0)
    return (1 - _RANK_WEIGHT) * _scale(positions) + _RANK_WEIGHT * (2 * ranks / (len(positions) - 1) - 1)


def _scale(positions: Array) -> Floats:
    low, high = positions.min(axis=0), positions.max(axis=0)
    return np.where(high > low, 2 * (positions - low) / np.where(high > low, high - low, 1) - 1, 0.0)
