"""Statistics of blocks are those of the whole matrix, wherever it is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks.base import ArrayBlocks
from dlfh.errors import InputError
from dlfh.hashing.scaling import SCALINGS
from dlfh.hashing.survey import Survey
from tests.strategies import seeds


@given(seeds, st.lists(st.integers(0, 60), max_size=4), st.booleans(), st.sampled_from(SCALINGS), st.integers(1, 3))
def test_the_kernel_of_blocks_is_that_of_the_whole(
    seed: int, inner: list[int], sparse: bool, scaling: str, n_jobs: int
) -> None:
    rng = np.random.default_rng(seed)
    X: Any = (rng.standard_normal((60, 5)) * [1, 10, 0.1, 1, 0] + 3).astype(np.float32)
    X = sp.csr_array(np.where(X > 3, X, 0)) if sparse else X
    points = np.sort(rng.choice(60, 7, replace=False))
    survey = Survey(ArrayBlocks(X, [0, *sorted(inner), 60], "x"), "x", n_jobs)
    survey.look(points)
    taken = survey.take(points)
    np.testing.assert_array_equal(taken.toarray() if sparse else taken, (X.toarray() if sparse else X)[points])
    ours = survey.kernel(10, seed, bandwidth=0.5, scaling=scaling)
    whole = Survey(ArrayBlocks(X, None, "x"), "x").kernel(10, seed, bandwidth=0.5, scaling=scaling)
    assert ours.bandwidth == pytest.approx(whole.bandwidth, rel=1e-5)
    np.testing.assert_allclose(ours(X), whole(X), atol=1e-5)


def test_known_content_is_not_read_again() -> None:
    blocks = ArrayBlocks(np.random.default_rng(0).random((10, 2)), [0, 4, 10], "x")
    survey = Survey(blocks, "x")
    survey.look(np.arange(10), SCALINGS)
    blocks.rows = None
    for scaling in SCALINGS:
        assert survey.kernel(5, 0, scaling=scaling).bases.shape == (5, 2)


def test_a_row_that_is_not_finite_is_named_by_its_number() -> None:
    X = np.ones((10, 2), np.float32)
    X[7, 1] = np.nan
    with pytest.raises(InputError, match="row 7"):
        Survey(ArrayBlocks(X, [0, 4, 10], "x"), "x").look(np.arange(2), ["none"])
