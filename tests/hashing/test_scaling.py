"""What is done to features before a regression sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.hashing.scaling import SCALINGS, Scaling


@pytest.fixture
def features() -> Any:
    rng = np.random.default_rng(0)
    values = rng.poisson(0.5, (40, 12)) * rng.normal(size=(40, 12))
    values[3], values[:, 5] = 0, 0
    return values


@pytest.mark.parametrize("kind", SCALINGS)
def test_sparse_features_are_scaled_as_dense_ones_and_zeros_stay_zeros(features: Any, kind: str) -> None:
    dense, sparse = Scaling.fit(kind, features, "text"), Scaling.fit(kind, sp.csr_array(features), "text")
    scaled = sparse(sp.csr_array(features))
    assert sp.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), dense(features), rtol=1e-12)
    assert not dense(features)[features == 0].any()


def test_roots_have_length_one_and_do_not_depend_on_the_points_scale(features: Any) -> None:
    scaling = Scaling.fit("root", features, "text")
    lengths = np.linalg.norm(scaling(features), axis=1)
    np.testing.assert_allclose(lengths, (np.abs(features).sum(axis=1) > 0).astype(float))
    scales = np.random.default_rng(1).uniform(0.1, 9, (len(features), 1))
    np.testing.assert_allclose(scaling(scales * features), scaling(features), rtol=1e-12)
    np.testing.assert_array_equal(np.sign(scaling(features)), np.sign(features))


def test_standard_features_have_deviation_one_and_do_not_depend_on_their_units(features: Any) -> None:
    scaled = Scaling.fit("standard", features, "text")(features)
    np.testing.assert_allclose(scaled.std(axis=0), (features.std(axis=0) > 0).astype(float))
    units = np.random.default_rng(1).uniform(0.1, 9, features.shape[1])
    np.testing.assert_allclose(Scaling.fit("standard", units * features, "text")(units * features), scaled, rtol=1e-9)


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_scaling_is_read_back_from_its_arrays(features: Any, kind: str) -> None:
    scaling = Scaling.fit(kind, features, "text")
    again = Scaling.from_arrays(scaling.to_arrays(), features.shape[1])
    np.testing.assert_array_equal(again(features), scaling(features))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32])
@pytest.mark.parametrize("kind", SCALINGS)
def test_any_type_of_number_is_scaled(kind: str, dtype: Any) -> None:
    values = (np.random.default_rng(0).random((30, 6)) < 0.5).astype(dtype)
    scaled = Scaling.fit(kind, values, "text")(values)
    expected = Scaling.fit(kind, values.astype(np.float64), "text")(values.astype(np.float64))
    np.testing.assert_allclose(np.asarray(scaled, np.float64), expected, rtol=1e-6)


def test_damaged_arrays_are_refused(features: Any) -> None:
    arrays = Scaling.fit("standard", features, "text").to_arrays()
    for damaged in (
        arrays | {"scaling": np.array([9], np.uint8)},
        arrays | {"divisors": -arrays["divisors"]},
        arrays | {"divisors": arrays["divisors"][:-1]},
    ):
        with pytest.raises(ValueError, match="its "):
            Scaling.from_arrays(damaged, features.shape[1])
