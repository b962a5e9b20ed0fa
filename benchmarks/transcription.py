"""The paper's algorithm, transcribed to NumPy in the straightforward way: the yardstick for speed.

Column by column for all points at once, the sampled part of A recomputed for every column, as the
public codes do.
"""

from __future__ import annotations

import numpy as np


def half_step(U: np.ndarray, V: np.ndarray, S: np.ndarray, scale: float) -> None:
    """Update every column of U in turn, eq. (5), against the sampled rows V with similarities S."""
    c, m = U.shape[1], V.shape[0]
    for k in range(c):
        A = 1 / (1 + np.exp(-scale / c * (U @ V.T)))
        p = scale / c * ((S - A) @ V[:, k]) + m * scale**2 / (4 * c**2) * U[:, k]
        U[:, k] = np.where(p >= 0, 1.0, -1.0)


def learn(labels: np.ndarray, n_bits: int, max_iter: int, sample_size: int, scale: float, seed: int) -> tuple:
    """Learn the codes of two modalities from an indicator matrix, starting from random codes."""
    rng = np.random.default_rng(seed)
    n = len(labels)
    labels = labels.astype(np.float64)
    U, V = np.where(rng.random((2, n, n_bits)) < 0.5, -1.0, 1.0)
    for _ in range(max_iter):
        for codes, others in ((U, V), (V, U)):
            sampled = rng.choice(n, sample_size, replace=False)
            half_step(codes, others[sampled], (labels @ labels[sampled].T > 0).astype(np.float64), scale)
    return U, V
