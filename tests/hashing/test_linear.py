"""Linear hash functions: the ridge solution, whatever the shape, storage and condition of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers, blas_threads
from dlfh.codes import pack, unpack
from dlfh.hashing import LinearRidge
from dlfh.hashing.base import FitContext
from dlfh.hashing.linear import LinearHash, unit_rows
from tests.strategies import seeds


def fit(features: Any, targets: Targets, ridge: Any = 1.0, fit_intercept: bool = True) -> LinearHash:
    with Workers(2) as workers:
        return LinearRidge(ridge, fit_intercept=fit_intercept).fit(
            features, targets, "image", FitContext(workers, seed=0)
        )


def encode(hashed: LinearHash, features: Any) -> np.ndarray:
    with Workers(2) as workers:
        return hashed.encode(features, "image", workers)


def project(hashed: LinearHash, features: Any) -> np.ndarray:
    with Workers(2) as workers:
        return hashed.project(features, "image", workers)


def random_targets(rng: np.random.Generator, n: int, n_bits: int, n_codes: int) -> tuple[Targets, np.ndarray]:
    codes = np.where(rng.random((n_codes, n_bits)) < 0.3, -1, 1)
    row_of_point = rng.integers(0, n_codes, n)
    return Targets(pack(codes), row_of_point, n_bits), codes[row_of_point]


@given(
    seeds,
    st.integers(2, 60),
    st.integers(1, 60),
    st.sampled_from([2, 1000]),
    st.sampled_from(["float32", "float64", "float16", "int8", "int64", "csr", "fortran"]),
)
def test_ridge_agrees_with_scikit_learn(seed: int, n: int, d: int, n_codes: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    X = 3 * rng.standard_normal((n, d)) + 2
    targets, U = random_targets(rng, n, 5, n_codes)
    if form in ("int8", "int64"):
        X = np.rint(X)
    if form == "csr":
        X *= rng.random((n, d)) < 0.3
        passed: Any = sp.csr_array(X)
    elif form == "fortran":
        passed = np.asfortranarray(X)
    else:
        passed = X.astype(form)
        X = passed.astype(np.float64)
    hashed = fit(passed, targets, ridge=2.5)
    expected = Ridge(alpha=2.5).fit(X, U)
    single = passed.dtype in (np.float16, np.float32, np.int8)
    np.testing.assert_allclose(hashed.weights, expected.coef_.T, rtol=2e-3 if single else 1e-4, atol=2e-4)
    tolerance = 5e-3 if single else 1e-4
    np.testing.assert_allclose(project(hashed, passed), expected.predict(X), rtol=tolerance, atol=tolerance)


@given(seeds)
def test_without_intercept_it_is_the_papers_formula_on_centred_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6)) + 1
    targets, U = random_targets(rng, 80, 4, 80)
    hashed = fit(X, targets, ridge=1e-6, fit_intercept=False)
    centred = X - X.mean(axis=0)
    W = np.linalg.solve(centred.T @ centred + 1e-6 * np.eye(6), centred.T @ U)
    np.testing.assert_allclose(hashed.weights, W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(project(hashed, X), centred @ W, rtol=1e-4, atol=1e-5)


@given(seeds, st.integers(5, 40), st.integers(1, 80))
def test_constant_and_repeated_features_work_with_no_ridge(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((n, d))
    X = np.hstack([base, base, np.full((n, 2), 7.0), np.zeros((n, 1))])
    targets, U = random_targets(rng, n, 3, n)
    for form in (X, X.astype(np.float32), sp.csr_array(X)):
        hashed = fit(form, targets, ridge=0.0)
        assert np.isfinite(hashed.weights).all()
        constant = slice(2 * d, 2 * d + 2)
        np.testing.assert_allclose(hashed.weights[constant], 0, atol=5e-3)
        if d >= n:  # enough features to fit every code exactly
            np.testing.assert_allclose(project(hashed, form), U, atol=0.05)


def test_data_far_from_zero_is_centred_without_loss() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8))
    targets, _ = random_targets(rng, 500, 16, 10)
    near = project(fit(X, targets), X)
    far = project(fit(X + 1e6, targets), X + 1e6)
    np.testing.assert_allclose(near, far, atol=1e-4)
    single = (X + 1e3).astype(np.float32)
    np.testing.assert_allclose(near, project(fit(single, targets), single), atol=2e-2)


@given(seeds, st.integers(1, 100), st.sampled_from([1, 37, 700]), st.sampled_from([np.float32, np.float64]))
def test_code_of_a_point_depends_on_its_features_alone(seed: int, n: int, d: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    weights = rng.standard_normal((d, 20)).astype(np.float32)
    # Decision boundaries through points of the data: signs that rounding would decide.
    through = rng.integers(0, n, 20)
    offset = -np.array([X[i].astype(np.float64) @ weights[:, k] for k, i in enumerate(through)])
    hashed = LinearHash(np.zeros(d), weights, offset, 0.0)
    codes = encode(hashed, X.astype(dtype))
    order = rng.permutation(n)
    np.testing.assert_array_equal(encode(hashed, X[order].astype(dtype)), codes[order])
    alone = np.vstack([encode(hashed, X[i : i + 1]) for i in range(n)])
    np.testing.assert_array_equal(alone, codes)
    np.testing.assert_array_equal(encode(hashed, np.asfortranarray(X)), codes)
    np.testing.assert_array_equal(pack(project(hashed, X.astype(dtype))), codes)
    with blas_threads(1):
        np.testing.assert_array_equal(encode(hashed, X), codes)


def test_sparse_and_dense_points_get_the_same_code() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 50)) * (rng.random((300, 50)) < 0.2)
    hashed = LinearHash(np.zeros(50), rng.standard_normal((50, 64)).astype("f4"), rng.standard_normal(64), 0.0)
    for dtype in (np.float32, np.float64):
        typed = X.astype(dtype)
        np.testing.assert_array_equal(encode(hashed, typed), encode(hashed, sp.csr_array(typed)))


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlfh import _parallel

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 30))
    for n_codes in (5, 1000):
        targets, _ = random_targets(rng, 1000, 12, n_codes)
        whole = fit(X, targets)
        monkeypatch.setattr(_parallel, "_CHUNK_BYTES", 64 * 30 * 8)
        in_chunks = fit(X, targets)
        monkeypatch.undo()
        np.testing.assert_allclose(whole.weights, in_chunks.weights, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(encode(whole, X), encode(in_chunks, X))


def test_automatic_ridge_does_not_depend_on_the_scale_of_the_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20)) * rng.random(20)
    targets, _ = random_targets(rng, 300, 16, 10)
    small, large = fit(X, targets, ridge="auto"), fit(1000 * X, targets, ridge="auto")
    assert large.ridge == pytest.approx(1e6 * small.ridge)
    np.testing.assert_allclose(project(small, X), project(large, 1000 * X), rtol=1e-3, atol=1e-5)


def test_intercept_is_the_mean_code() -> None:
    rng = np.random.default_rng(0)
    targets, U = random_targets(rng, 200, 9, 50)
    np.testing.assert_allclose(targets.mean(), U.mean(axis=0))
    np.testing.assert_allclose(fit(rng.standard_normal((200, 4)), targets).intercept, U.mean(axis=0))
    np.testing.assert_array_equal(unpack(targets.codes, 9)[targets.row_of_point], U)


@given(seeds, st.booleans(), st.booleans())
def test_unit_rows_have_length_one_and_lose_nothing(seed: int, split: bool, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 4)) * 10.0 ** rng.integers(-150, 150, (10, 1))
    X[3] = 0
    unit = unit_rows(sp.csr_array(X) if sparse else X, split=split)
    dense = unit.toarray() if sparse else unit
    lengths = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 3), 1)
    assert lengths[3] == 0
    if split:
        assert np.all(dense >= 0)
        dense = dense[:, :4] - dense[:, 4:]
    np.testing.assert_allclose(np.sum(dense * X, axis=1), np.linalg.norm(X, axis=1))
