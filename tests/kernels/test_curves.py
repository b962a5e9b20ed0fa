"""Curve kernels against their NumPy twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.twins import assert_twins_agree
from tests.strategies import seeds


@settings(max_examples=20)
@given(seeds, st.floats(0.5, 20), st.floats(0, 3))
def test_fit_curves(seed: int, penalty: float, pull_to: float) -> None:
    rng = np.random.default_rng(seed)
    n_labels, n = int(rng.integers(1, 5)), int(rng.integers(20, 200))
    scores = rng.standard_normal((n_labels, n)).astype(np.float32)
    has_label = scores * rng.uniform(0, 4) + rng.standard_normal((n_labels, n)) > rng.uniform(-1, 2)
    has_label[:, 0], has_label[:, 1] = True, False
    starts = np.concatenate([[0], np.cumsum(has_label.sum(axis=1))]).astype(np.int64)
    positives = np.nonzero(has_label)[1].astype(np.int64)
    curves = np.full(n_labels, 1.0), np.zeros(n_labels)
    chosen = rng.permutation(n_labels)
    arguments = scores, starts, positives, chosen, *curves, pull_to, penalty, 0, max(1, n_labels - 1)
    assert_twins_agree("fit_curves", *arguments, tolerance=1e-4)


def test_curves_of_many_points_agree_although_scores_are_grouped() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((4, 3000)).astype(np.float32)
    scores[3, :3] = 40.0, -40.0, 20.0
    has_label = scores + rng.standard_normal(scores.shape) > np.array([[0.0], [1.0], [2.0], [3.0]])
    starts = np.concatenate([[0], np.cumsum(has_label.sum(axis=1))]).astype(np.int64)
    positives = np.nonzero(has_label)[1].astype(np.int64)
    curves = np.full(4, 1.0), np.zeros(4)
    assert_twins_agree("fit_curves", scores, starts, positives, np.arange(4), *curves, 1.5, 10.0, 0, 4, tolerance=2e-3)
