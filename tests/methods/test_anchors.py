"""Kernel features at anchors: distances, centring and products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._parallel import Workers
from dlfh.methods import anchors
from dlfh.methods.anchors import AnchorFeatures
from tests.methods.small_data import kernel_features


def make(X: np.ndarray | sp.csr_array, n_anchors: int = 20) -> AnchorFeatures:
    return AnchorFeatures(X, n_anchors, "image", np.random.default_rng(5))


@pytest.mark.parametrize("memory", [2 << 30, 4 * 20 * 130])
def test_features_and_products_follow_the_definition(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "_MEMORY", memory)  # enough for all points, or for 130 of them
    monkeypatch.setattr(anchors, "_ROWS", 40)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) + 3
    expected = kernel_features(X, 20, np.random.default_rng(5))
    W, Z = rng.standard_normal((20, 3)), rng.standard_normal((200, 3))
    for matrix in (X, sp.csr_array(X)):
        features = make(matrix)
        np.testing.assert_allclose(np.concatenate([block for _, _, block in features.blocks()]), expected, atol=1e-6)
        np.testing.assert_allclose(features.times(W), expected @ W, atol=1e-5)
        np.testing.assert_allclose(features.transposed_times(Z), expected.T @ Z, atol=1e-5)
        np.testing.assert_allclose(features.gram, expected.T @ expected, atol=1e-4)
        with Workers(1) as workers:
            hashed = features.hash_function(W).project(matrix, "image", workers)
        np.testing.assert_allclose(hashed, expected @ W, atol=1e-5)


def test_features_are_invariant_to_shift_and_scale() -> None:
    X = np.random.default_rng(0).standard_normal((100, 4))
    before, after = make(X), make(50 * X + 7)
    np.testing.assert_allclose(before.gram, after.gram, atol=1e-4)


def test_all_points_are_anchors_if_there_are_fewer() -> None:
    assert len(make(np.random.default_rng(0).standard_normal((9, 4))).mean) == 9
