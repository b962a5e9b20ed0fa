"""Canonical directions of two sets of features."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.correlation import Whitening, canonical_directions
from tests.strategies import seeds


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.floats(0, 1))
def test_canonical_directions_solve_the_generalised_eigenproblem(seed: int, dx: int, dy: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((60, dx)), rng.standard_normal((60, dy))
    Y[:, 0] += X[:, 0]
    Cxx, Cyy, Cxy = X.T @ X, Y.T @ Y, X.T @ Y
    found = canonical_directions(Whitening(Cxx, ridge), Whitening(Cyy, ridge), Cxy)
    Cxx, Cyy = Cxx + ridge * np.eye(dx), Cyy + ridge * np.eye(dy)
    squares = scipy.linalg.eigh(Cxy @ np.linalg.inv(Cyy) @ Cxy.T, Cxx, eigvals_only=True)[::-1]
    k = min(dx, dy)
    np.testing.assert_allclose(found.correlations**2, squares[:k], atol=1e-9)
    np.testing.assert_allclose(found.x.T @ Cxx @ found.x, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(found.y.T @ Cyy @ found.y, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(found.x.T @ Cxy @ found.y, np.diag(found.correlations), atol=1e-8)


def test_directions_beyond_the_last_that_correlates_are_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    Y = np.column_stack([X[:, :2], np.zeros(80)])
    directions = canonical_directions(Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6), X.T @ Y).first(9)
    assert directions.x.shape == (4, 9)
    assert np.count_nonzero(directions.correlations) == 2
    assert not directions.x[:, 2:].any()
    assert not directions.y[:, 2:].any()
