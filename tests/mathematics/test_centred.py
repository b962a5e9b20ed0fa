"""Centred features multiply like a dense centred matrix, whether in memory or in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._mathematics import moments
from dlfh._mathematics.centred import Centred, centre
from dlfh.blocks.base import ArrayBlocks
from dlfh.errors import InputError
from dlfh.hashing.linear import LinearHash
from tests.strategies import seeds

DTYPES = [np.float64, np.float32, np.int8, bool]


def features(rng: np.random.Generator, n: int, d: int, dtype: Any, sparse: bool) -> tuple[Any, np.ndarray]:
    """Return a matrix of the given type and storage, and the same values as doubles."""
    dense = rng.integers(0, 2, (n, d)) if dtype is bool else rng.integers(-100, 100, (n, d))
    dense = dense * (rng.random((n, d)) < 0.5)
    matrix = dense.astype(dtype)
    return sp.csr_array(matrix) if sparse else matrix, dense.astype(np.float64)


@given(seeds, st.integers(2, 40), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_centred_features_multiply_like_a_dense_centred_matrix(
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
        (a.take(np.arange(n)), X),
        (np.concatenate([chunk for _, chunk in a.chunks()]), X),
    ):
        np.testing.assert_allclose(ours, expected, atol=1e-7)
    assert a.total_variance == pytest.approx(np.sum(X**2) / n, abs=1e-7)


def test_a_constant_feature_is_ignored_however_large() -> None:
    X = np.column_stack([np.full(50, 1e9 / 3), np.arange(50.0)])
    centred = Centred(X, "image")
    assert centred.gram[0].tolist() == [0, 0]
    function = LinearHash.of_centred(centred, np.array([[1e3], [1.0]]))
    assert function.weights.ravel().tolist() == [0, 1]


splits = st.lists(st.integers(0, 40), max_size=4).map(lambda inner: [0, *sorted(inner), 40])


@settings(max_examples=40)
@given(seeds, splits, st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans(), st.booleans(), st.booleans())
def test_blocks_multiply_like_the_whole_matrix(
    seed: int, starts: list[int], x_type: Any, y_type: Any, x_sparse: bool, y_sparse: bool, known: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, y, z = (
        features(rng, 40, d, dtype, sparse)[0]
        for d, dtype, sparse in ((5, x_type, x_sparse), (7, y_type, y_sparse), (3, np.int8, x_sparse))
    )
    X, Y = Centred(x, "x"), Centred(y, "y")
    split = {"x": ArrayBlocks(x, starts, "x"), "y": ArrayBlocks(y, starts, "y")}
    Z, values = ArrayBlocks(z, starts, "z"), z.astype(np.float64)
    a, b = centre(split, Z if known else None, crosses=known)
    W, weights = rng.standard_normal((5, 3)), rng.random(40)
    for ours, expected in (
        (a.mean, X.mean),
        (a.gram, X.gram),
        (b.gram, Y.gram),
        (a.cross(b), X.cross(Y)),
        (b.cross(a), Y.cross(X)),
        (np.asarray(a.times(W)), X.times(W)),
        (a.transposed_times(Z), X.transposed_times(values)),
        (b.transposed_times(Z), Y.transposed_times(values)),
        (a.products_with_signs(W), X.products_with_signs(W)),
        (a.weighted_gram(ArrayBlocks(weights, starts, "weights")), X.weighted_gram(weights)),
    ):
        np.testing.assert_allclose(ours, expected, atol=1e-7)
        if len(starts) == 2 and not known:  # a matrix in memory is one block
            np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(a.is_constant, X.is_constant)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_constant_feature_is_ignored_wherever_the_matrix_is_split(sparse: bool) -> None:
    """A feature that is constant only within each block is not ignored."""
    X = np.column_stack([np.full(50, 1e9 / 3), np.repeat([1.0, 2.0], 25), np.arange(50.0)])
    blocks = ArrayBlocks(sp.csr_array(X) if sparse else X, [0, 25, 26, 50], "image")
    (centred,) = centre({"image": blocks})
    assert centred.is_constant.tolist() == [True, False, False]
    assert centred.gram[1, 1] == pytest.approx(12.5, rel=1e-12)
    assert not np.asarray(centred.times(np.array([[1.0], [0.0], [0.0]]))).any()
    other = ArrayBlocks(np.arange(100.0).reshape(50, 2) ** 2, blocks.starts, "text")
    for crosses in (False, True):
        a, b = centre({"image": blocks, "text": other}, crosses=crosses)
        assert not a.cross(b)[0].any()
        assert not b.cross(a)[:, 0].any()


def test_features_that_cannot_be_centred_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.full((4, 2), 1e308)
    large[::2] *= -1
    bad = np.ones((4, 2))
    bad[3, 1] = np.inf
    for values, sentence in (
        (large, "modality 'image' has values too large or too small to compute with"),
        (large[[0, 2, 1, 3]], "modality 'image' has values too large or too small to compute with"),
        (bad, "modality 'image' has NaN or infinity in row 3"),
    ):
        with pytest.raises(InputError, match=sentence):
            centre({"image": ArrayBlocks(values, [0, 2, 4], "image")})
    monkeypatch.setattr(moments, "MAX_GRAM_FEATURES", 1)
    with pytest.raises(InputError, match="has 2 features, but data in blocks can have at most 1"):
        centre({"image": ArrayBlocks(bad, [0, 2, 4], "image")})
