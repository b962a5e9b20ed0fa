"""PDH: joint support vector machines, and balanced, decorrelated and predictable bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from dlfh._mathematics.centred import Centred
from dlfh._mathematics.classifiers import SQUARED_HINGE, Classifiers, Fit
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.datasets import Paired, make_paired
from dlfh.methods import PDH
from dlfh.methods.pdh import _Machines
from tests.strategies import seeds

N_BITS = 16


def scene(seed: int, n: int = 150, d: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and bits with different amounts of noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    noise = np.array([0, 0.3, 1, 3])
    bits = np.where(X @ rng.standard_normal((d, 4)) + noise * rng.standard_normal((n, 4)) > 0.5, 1, -1)
    return X, bits.astype(np.int8)


def svm_objective(X: np.ndarray, bits: np.ndarray, weights: np.ndarray, C: float) -> np.ndarray:
    gaps = np.maximum(1 - bits * (X.astype(np.float64) @ weights), 0)
    return 0.5 * (weights**2).sum(axis=0) + C * (gaps**2).sum(axis=0)


@settings(max_examples=15)
@given(seeds, st.sampled_from([0.01, 1.0, 30.0]), st.booleans())
def test_joint_machines_equal_those_of_liblinear(seed: int, C: float, warm: bool) -> None:
    X, bits = scene(seed)
    with Workers(1) as workers:
        problem = Classifiers(
            lambda: iter([(0, 90, X[:90]), (90, len(X), X[90:])]),
            np.eye(X.shape[1]),
            1 / (2 * C),
            SQUARED_HINGE,
            workers,
        )
        weights = np.random.default_rng(seed).standard_normal((X.shape[1], 4))
        start = Fit(weights, np.zeros(4), 0, X @ weights.astype(np.float32)) if warm else None
        solution = problem.solve(bits, start=start, tol=1e-9)
    ours = svm_objective(X, bits, solution.weights, C)
    np.testing.assert_allclose(C * solution.objective, ours, rtol=1e-4)
    for k in range(4):
        reference = LinearSVC(C=C, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-10, max_iter=100_000)
        weights = reference.fit(X.astype(np.float64), bits[:, k]).coef_[0]
        assert ours[k] == pytest.approx(svm_objective(X, bits[:, [k]], weights[:, None], C)[0], rel=1e-5)
        np.testing.assert_allclose(solution.weights[:, k], weights, atol=1e-2 * np.abs(weights).max())


def test_a_warm_start_at_the_optimum_converges_at_once() -> None:
    X, bits = scene(0)
    with Workers(1) as workers:
        problem = Classifiers(lambda: iter([(0, len(X), X)]), np.eye(X.shape[1]), 0.5, SQUARED_HINGE, workers)
        cold = problem.solve(bits)
        warm = problem.solve(bits, start=cold)
    assert warm.n_iter <= 4 < cold.n_iter
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-3)


@pytest.fixture(scope="module")
def data() -> Paired:
    return make_paired(n_points=1500, n_labels=12, words_per_point=20, noise=1.0, random_state=0)


def bits_of(model: PDH, modality: str) -> np.ndarray:
    return unpack(model.codes_[modality], model.n_bits).astype(float)


def correlation(bits: np.ndarray) -> float:
    """Return the mean absolute correlation between bits."""
    matrix = np.abs(np.corrcoef(bits.T))
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


@pytest.fixture(scope="module")
def model(data: Paired) -> PDH:
    return PDH(N_BITS, random_state=0).fit(data.modalities)


@pytest.mark.parametrize("modality", ["image", "text"])
def test_bits_are_balanced(model: PDH, modality: str) -> None:
    share = (bits_of(model, modality) > 0).mean(axis=0)
    assert share.min() > 0.2
    assert share.max() < 0.8


@pytest.mark.parametrize("modality", ["image", "text"])
def test_decorrelation_keeps_bits_different(data: Paired, model: PDH, modality: str) -> None:
    collapsed = PDH(N_BITS, decorrelate=False, max_iter=20, random_state=0).fit(data.modalities)
    assert correlation(bits_of(model, modality)) < 0.15
    assert correlation(bits_of(collapsed, modality)) > 3 * correlation(bits_of(model, modality))


def test_bits_are_predictable_from_both_views(model: PDH) -> None:
    agreement = (bits_of(model, "image") == bits_of(model, "text")).mean(axis=0)
    assert agreement.mean() > 0.7
    assert agreement.min() > 0.55


def test_hyperplanes_pass_through_the_mean_unless_they_have_an_intercept(data: Paired, model: PDH) -> None:
    free = PDH(N_BITS, fit_intercept=True, random_state=0).fit(data.modalities)
    for modality in ("image", "text"):
        mean = np.asarray(data.modalities[modality].mean(axis=0)).reshape(1, -1)
        assert np.abs(model.project(modality, mean)).max() < 1e-5
        assert np.abs(free.project(modality, mean)).min() > 1e-5


def test_codes_do_not_depend_on_the_units_of_features(data: Paired) -> None:
    scaled = {"image": 1000 * data.modalities["image"], "text": 0.001 * data.modalities["text"]}
    other = PDH(N_BITS, ridge=0, random_state=0).fit(scaled)
    plain = PDH(N_BITS, ridge=0, random_state=0).fit(data.modalities)
    for modality in ("image", "text"):
        assert (bits_of(other, modality) == bits_of(plain, modality)).mean() > 0.99


def test_rounds_end_when_few_bits_change(data: Paired) -> None:
    patient = PDH(4, max_iter=100, tol=0.07, random_state=0).fit(data.modalities)
    assert 1 < patient.n_iter_ < 100
    assert patient.changes_[-1] < 0.07
    assert (patient.changes_[:-1] >= 0.07).all()


def test_bits_beyond_the_canonical_directions_still_split_the_points() -> None:
    data = make_paired(n_points=400, image_features=4, text_features=6, random_state=0)
    model = PDH(24, random_state=0).fit(data.modalities)
    for modality in ("image", "text"):
        share = (bits_of(model, modality) > 0).mean(axis=0)
        assert share.min() > 0.1
        assert share.max() < 0.9


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sparse_rows_have_the_products_of_dense_ones(fit_intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((40, 6)) * (rng.random((40, 6)) < 0.3)
    X[:, 2], X[:, 4] = 0, 3  # constant features count as 0
    views = [Centred(matrix, "text") for matrix in (X, sp.csr_array(X))]
    with Workers(1) as workers:
        dense, sparse = (_Machines(view, 1.0, fit_intercept, workers).rows for view in views)
    W, R = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 3), (40, 3)))
    np.testing.assert_allclose(sparse @ W, dense @ W, atol=1e-5)
    np.testing.assert_allclose(sparse.T @ R, dense.T @ R, atol=1e-4)
    np.testing.assert_allclose(sparse.T @ sparse, dense.T @ dense, atol=1e-4)
