"""Feature scalings, fitted to dense and sparse features of any type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.blocks.opening import in_one_block
from dlfh.hashing.scaling import SCALINGS, Scaling
from dlfh.hashing.survey import Survey


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
