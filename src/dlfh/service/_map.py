"""A map of the collection: its codes in two dimensions, computed once for a state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.codes import unpack
from dlfh.collection._columns import hashed_codes
from dlfh.service._answering import about_item
from dlfh.service._states import State

__all__ = ["draw_map", "lay_out"]

Floats = npt.NDArray[np.float64]


def draw_map(state: State, most: int) -> dict[str, Any]:
    """Return where items are on the map; some of them, drawn at random but always the same, if they are many."""
    n = len(state.index)
    chosen = np.arange(n)
    if n > most:
        chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    items = list(state.index.items(chosen.tolist()))
    modalities = state.encoder.searchable()
    rows = []
    for item in items:
        hashed = hashed_codes(item, modalities)
        # Learned codes say what labels say, and put items of the same labels on one spot; hashed ones part them.
        parts = [(item.codes[name], hashed[name]) for name in hashed]
        rows.append(np.mean([unpack(np.stack(part), state.index.n_bits).mean(axis=0) for part in parts], axis=0))
    places = lay_out(np.array(rows, np.float32).reshape(len(items), state.index.n_bits))
    points = []
    for item, (x, y) in zip(items, places.round(4).tolist(), strict=True):
        about = about_item(state, item.id, item.metadata or {})
        points.append({"id": item.id, "x": x, "y": y, "labels": about["labels"], "thumbnail": about["thumbnail"]})
    return {"state": state.name, "items": n, "points": points}


def lay_out(vectors: npt.NDArray[np.float32]) -> Floats:
    """Return places from -1 to 1 in two dimensions for vectors, similar ones near to each other.

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
    return _scaled(places)


def _scaled(places: Floats) -> Floats:
    low, high = places.min(axis=0), places.max(axis=0)
    return np.where(high > low, 2 * (places - low) / np.where(high > low, high - low, 1) - 1, 0.0)
