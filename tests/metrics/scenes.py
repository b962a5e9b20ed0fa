"""Random queries and items with labels."""

from __future__ import annotations

import numpy as np

from dlfh.codes import random_codes


def scene(seed: int, n_items: int = 60, n_bits: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    query_labels, item_labels = ((rng.random((n, 6)) < 0.3).astype(int) for n in (5, n_items))
    for labels in (query_labels, item_labels):
        labels[:, 0] |= ~labels.any(axis=1)
    return random_codes(rng, 5, n_bits), random_codes(rng, n_items, n_bits), query_labels, item_labels
