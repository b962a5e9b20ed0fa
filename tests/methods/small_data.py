"""Small data for tests against dense reference formulas."""

from __future__ import annotations

import numpy as np

from dlfh.datasets import Paired, make_paired


def centred(data: Paired) -> tuple[np.ndarray, np.ndarray]:
    X, Y = data.modalities["image"].astype(np.float64), data.modalities["text"].toarray().astype(np.float64)
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def small(seed: int = 0, n_points: int = 150) -> Paired:
    return make_paired(n_points, n_labels=4, image_features=6, text_features=9, random_state=seed)


def unit_labels(data: Paired) -> np.ndarray:
    L = data.labels.toarray().astype(np.float64)
    return L / np.sqrt(np.maximum(L.sum(axis=1), 1))[:, None]


def kernel_features(X: np.ndarray, n_anchors: int, rng: np.random.Generator) -> np.ndarray:
    """Return centred exp(-d^2 / (2 sigma)) at random rows, where sigma is the mean of all d^2."""
    drawn = np.random.default_rng(int(rng.integers(2**63)))
    anchors = X[np.sort(drawn.choice(len(X), min(n_anchors, len(X)), replace=False))]
    squares = np.sum((X[:, None] - anchors) ** 2, axis=2)
    values = np.exp(-squares / (2 * squares.mean()))
    return np.asarray(values - values.mean(axis=0))


def dense(data: Paired) -> tuple[np.ndarray, np.ndarray]:
    return data.modalities["image"].astype(np.float64), data.modalities["text"].toarray().astype(np.float64)
