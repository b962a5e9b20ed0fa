"""A map of the collection: its codes in two dimensions, computed once for a state."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh.codes import unpack
from dlfh.collection.columns import hashed_codes
from dlfh.service.answering import item_fields
from dlfh.service.layout import lay_out
from dlfh.service.states import State


def draw_map(state: State, most: int) -> dict[str, Any]:
    """Return where items are on the map; some of them, drawn at random but always the same, if they are many."""
    n = len(state.index)
    chosen = np.arange(n)
    if n > most:
        chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    items = list(state.index.items(state.index.positions()[chosen].tolist()))
    modalities = state.encoder.searchable_modalities()
    rows = []
    for item in items:
        hashed = hashed_codes(item, modalities)
        # Learned codes say what labels say, and put items of the same labels on one spot; hashed ones part them.
        parts = [(item.codes[name], hashed[name]) for name in hashed]
        rows.append(np.mean([unpack(np.stack(part), state.index.n_bits).mean(axis=0) for part in parts], axis=0))
    places = lay_out(np.array(rows, np.float32).reshape(len(items), state.index.n_bits))
    points = []
    for item, (x, y) in zip(items, places.round(4).tolist(), strict=True):
        about = item_fields(state, item.id, item.metadata or {})
        points.append({"id": item.id, "x": x, "y": y, "labels": about["labels"], "thumbnail": about["thumbnail"]})
    return {"state": state.name, "items": n, "points": points}
