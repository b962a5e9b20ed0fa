"""Centred features by blocks multiply as those in memory do, however they are cut, known before or asked for later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._mathematics import moments
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.centred_blocks import CentredBlocks, centred_views
from dlfh.blocks import ArrayBlocks
from dlfh.errors import InputError
from tests.mathematics.test_centred import DTYPES, features
from tests.strategies import seeds

cuts = st.lists(st.integers(0, 40), max_size=4).map(lambda inner: [0, *sorted(inner), 40])


@settings(max_examples=40)
@given(seeds, cuts, st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans(), st.booleans(), st.booleans())
def test_blocks_multiply_as_the_whole_does(
    seed: int, starts: list[int], x_type: Any, y_type: Any, x_sparse: bool, y_sparse: bool, known: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, y, z = (
        features(rng, 40, d, dtype, sparse)[0]
        for d, dtype, sparse in ((5, x_type, x_sparse), (7, y_type, y_sparse), (3, np.int8, x_sparse))
    )
    X, Y = Centred(x, "x"), Centred(y, "y")
    cut = {"x": ArrayBlocks(x, starts, "x"), "y": ArrayBlocks(y, starts, "y")}
    Z, values = ArrayBlocks(z, starts, "z"), z.astype(np.float64)
    a, b = CentredBlocks.together(cut, beside=Z if known else None, crosses=known)
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
    np.testing.assert_array_equal(a.is_constant, X.is_constant)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_constant_feature_counts_as_nothing_however_it_is_cut(sparse: bool) -> None:
    """One that is constant in each block alone counts as any other."""
    X = np.column_stack([np.full(50, 1e9 / 3), np.repeat([1.0, 2.0], 25), np.arange(50.0)])
    blocks = ArrayBlocks(sp.csr_array(X) if sparse else X, [0, 25, 26, 50], "image")
    (centred,) = CentredBlocks.together({"image": blocks})
    assert centred.is_constant.tolist() == [True, False, False]
    assert centred.gram[1, 1] == pytest.approx(12.5, rel=1e-12)
    assert not np.asarray(centred.times(np.array([[1.0], [0.0], [0.0]]))).any()
    other = ArrayBlocks(np.arange(100.0).reshape(50, 2) ** 2, blocks.starts, "text")
    for crosses in (False, True):
        a, b = CentredBlocks.together({"image": blocks, "text": other}, crosses=crosses)
        assert not a.cross(b)[0].any()
        assert not b.cross(a)[:, 0].any()


def test_what_cannot_be_centred_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
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
            centred_views({"image": ArrayBlocks(values, [0, 2, 4], "image")})
    monkeypatch.setattr(moments, "_MOST_FEATURES", 1)
    with pytest.raises(InputError, match="has 2 features, and by blocks at most 1 are learned from"):
        centred_views({"image": ArrayBlocks(bad, [0, 2, 4], "image")})
