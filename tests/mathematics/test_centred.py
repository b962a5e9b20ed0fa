"""Centred features multiply as a dense centred matrix does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.centred import Centred
from dlfh.hashing.linear import LinearHash
from tests.strategies import seeds

DTYPES = [np.float64, np.float32, np.int8, bool]


def features(rng: np.random.Generator, n: int, d: int, dtype: Any, sparse: bool) -> tuple[Any, np.ndarray]:
    """Return a matrix of some type and storage, and the same as doubles."""
    dense = rng.integers(0, 2, (n, d)) if dtype is bool else rng.integers(-100, 100, (n, d))
    dense = dense * (rng.random((n, d)) < 0.5)
    matrix = dense.astype(dtype)
    return sp.csr_array(matrix) if sparse else matrix, dense.astype(np.float64)


@given(seeds, st.integers(2, 40), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_centred_features_multiply_as_a_dense_centred_matrix_does(
    seed: int, n: int, x_type: Any, y_type: Any, x_sparse: bool, y_sparse: bool
) -> None:
    rng = np.random.default_rng(seed)
    (x, X), (y, Y) = features(rng, n, 5, x_type, x_sparse), features(rng, n, 7, y_type, y_sparse)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    a, b = Centred(x, "a"), Centred(y, "b")
    W, Z = rng.standard_normal((5, 3)), rng.standard_normal((n, 4))
    for ours, expected in (
        (a.gram, X.T @ X),
        (a.cross(b), X.T @ Y),
        (b.cross(a), Y.T @ X),
        (a.times(W), X @ W),
        (a.transposed_times(Z), X.T @ Z),
        (a.transposed_times(sp.csr_array(Z)), X.T @ Z),
        (a.products_with_signs(W), X.T @ np.sign(X @ W)),
        (a.dense(), X),
        (np.concatenate([chunk for _, chunk in a.chunks()]), X),
    ):
        np.testing.assert_allclose(ours, expected, atol=1e-7)
    assert a.total_variance == pytest.approx(np.sum(X**2) / n, abs=1e-7)


def test_a_constant_feature_counts_as_nothing_however_large() -> None:
    X = np.column_stack([np.full(50, 1e9 / 3), np.arange(50.0)])
    centred = Centred(X, "image")
    assert centred.gram[0].tolist() == [0, 0]
    function = LinearHash.of_centred(centred, np.array([[1e3], [1.0]]))
    assert function.weights.ravel().tolist() == [0, 1]
