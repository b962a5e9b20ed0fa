"""Label kernels against their NumPy twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.kernels.twins import assert_twins_agree
from tests.strategies import Problem, problems


@given(problems())
def test_invert_lists(problem: Problem) -> None:
    labels = problem.labels
    chosen = problem.rng.integers(0, labels.n_sets, size=7)
    assert_twins_agree("invert_lists", labels.starts, labels.labels, chosen, labels.n_labels)


@given(problems())
def test_shared_labels(problem: Problem) -> None:
    labels = problem.labels
    queries = problem.rng.integers(0, labels.n_sets, size=5)
    items = problem.rng.integers(0, labels.n_sets, size=50).astype(np.int32)
    for dtype, limit in ((np.uint8, 1), (np.int32, 99)):
        shared = np.empty((5, 50), dtype)
        arguments = (queries, labels.lists, labels.inverted_lists(), items, labels.n_sets, limit, shared)
        assert_twins_agree("shared_labels", *arguments)
