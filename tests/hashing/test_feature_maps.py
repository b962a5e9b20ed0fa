"""Statistics of blocks are those of the whole matrix, wherever it is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks.base import ArrayBlocks
from dlfh.blocks.opening import in_one_block
from dlfh.errors import InputError
from dlfh.hashing.feature_maps import SCALINGS, Scaling, Survey
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


def fit(kind: str, features: Any) -> Scaling:
    return Survey(in_one_block(features, "text"), "text").scaling(kind)


@pytest.fixture
def features() -> Any:
    rng = np.random.default_rng(0)
    values = rng.poisson(0.5, (40, 12)) * rng.normal(size=(40, 12))
    values[3], values[:, 5] = 0, 0
    return values


@pytest.mark.parametrize("kind", SCALINGS)
def test_sparse_features_are_scaled_like_dense_ones_and_zeros_stay_zeros(features: Any, kind: str) -> None:
    dense, sparse = fit(kind, features), fit(kind, sp.csr_array(features))
    scaled = sparse(sp.csr_array(features))
    assert sp.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), dense(features), rtol=1e-12)
    assert not dense(features)[features == 0].any()


def test_roots_have_length_one_and_do_not_depend_on_the_points_scale(features: Any) -> None:
    scaling = fit("root", features)
    lengths = np.linalg.norm(scaling(features), axis=1)
    np.testing.assert_allclose(lengths, (np.abs(features).sum(axis=1) > 0).astype(float))
    scales = np.random.default_rng(1).uniform(0.1, 9, (len(features), 1))
    np.testing.assert_allclose(scaling(scales * features), scaling(features), rtol=1e-12)
    np.testing.assert_array_equal(np.sign(scaling(features)), np.sign(features))


def test_standard_features_have_deviation_one_and_do_not_depend_on_their_units(features: Any) -> None:
    scaled = fit("standard", features)(features)
    np.testing.assert_allclose(scaled.std(axis=0), (features.std(axis=0) > 0).astype(float))
    units = np.random.default_rng(1).uniform(0.1, 9, features.shape[1])
    np.testing.assert_allclose(fit("standard", units * features)(units * features), scaled, rtol=1e-9)


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_scaling_is_read_back_from_its_arrays(features: Any, kind: str) -> None:
    scaling = fit(kind, features)
    again = Scaling.from_arrays(scaling.to_arrays(), features.shape[1])
    np.testing.assert_array_equal(again(features), scaling(features))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32])
@pytest.mark.parametrize("kind", SCALINGS)
def test_numbers_of_any_type_are_scaled(kind: str, dtype: Any) -> None:
    values = (np.random.default_rng(0).random((30, 6)) < 0.5).astype(dtype)
    scaled = fit(kind, values)(values)
    expected = fit(kind, values.astype(np.float64))(values.astype(np.float64))
    np.testing.assert_allclose(np.asarray(scaled, np.float64), expected, rtol=1e-6)


def test_damaged_arrays_are_refused(features: Any) -> None:
    arrays = fit("standard", features).to_arrays()
    for damaged in (
        arrays | {"scaling": np.array([9], np.uint8)},
        arrays | {"divisors": -arrays["divisors"]},
        arrays | {"divisors": arrays["divisors"][:-1]},
    ):
        with pytest.raises(ValueError, match="its "):
            Scaling.from_arrays(damaged, features.shape[1])
