"""Kernel hash functions: the kernel map, the joint logistic solver and kernel ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from dlfh._mathematics.classifiers import LOGISTIC, Classifiers
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.codes import pack
from dlfh.hashing import KernelLogistic, KernelRidge
from dlfh.hashing.base import FitContext
from dlfh.hashing.feature_maps import fit_kernel
from dlfh.hashing.kernel import KernelHash
from tests.strategies import seeds


def targets_of(signs: np.ndarray) -> Targets:
    return Targets(pack(signs), np.arange(len(signs)), signs.shape[1])


def scene(seed: int, n: int = 120, d: int = 5, sparse: bool = False) -> tuple[Any, np.ndarray]:
    """Return features, and the signs of random smooth functions of them with constant and noisy bits."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 3
    if sparse:
        X *= rng.random((n, d)) < 0.4
    signs = np.where(np.sin(X @ rng.standard_normal((d, 6))) + 0.3 * rng.standard_normal((n, 6)) > 0, 1, -1)
    signs[:, 0] = 1  # constant
    signs[:, 1] = np.where(X[:, 0] > np.median(X[:, 0]), 1, -1)  # separable
    return (sp.csr_array(X) if sparse else X), signs.astype(np.int8)


@given(seeds, st.sampled_from(["float64", "float32", "csr"]))
def test_kernel_values_and_bandwidth_follow_their_definition(seed: int, form: str) -> None:
    X, _ = scene(seed, n=40, sparse=form == "csr")
    dense = X.toarray() if sp.issparse(X) else X
    passed = X if form == "csr" else X.astype(form)
    kernel = fit_kernel(passed, 10, seed, "image")
    distances = ((dense[:, None] - dense) ** 2).sum(axis=2)
    assert kernel.bandwidth == pytest.approx(distances.mean(), rel=1e-4)
    bases = kernel.bases + kernel.centre
    expected = rbf_kernel(dense, bases, gamma=1 / kernel.bandwidth)
    np.testing.assert_allclose(kernel(passed), expected, atol=1e-5)
    np.testing.assert_allclose(kernel(passed, np.float32), expected, atol=1e-5)
    np.testing.assert_allclose(kernel.between_bases(), rbf_kernel(bases, gamma=1 / kernel.bandwidth), atol=1e-6)


def test_random_bases_are_the_same_points_in_every_modality() -> None:
    X = np.arange(100.0)[:, None]
    image, text = fit_kernel(X, 20, 5, "image"), fit_kernel(np.hstack([X, X]), 20, 5, "text")
    np.testing.assert_allclose(image.bases[:, 0], text.bases[:, 0])


def exact_objective(
    K: np.ndarray, K0: np.ndarray, signs: np.ndarray, weights: np.ndarray, penalty: float
) -> np.ndarray:
    return np.logaddexp(0, -signs * (K @ weights)).sum(axis=0) + penalty * np.einsum("kc,kc->c", weights, K0 @ weights)


@settings(max_examples=8)
@given(seeds, st.booleans(), st.sampled_from([1e-2, 1.0]))
def test_joint_solver_reaches_the_optimum_of_every_bit(seed: int, sparse: bool, penalty: float) -> None:
    X, signs = scene(seed, sparse=sparse)
    with Workers(2) as workers:
        kernel = fit_kernel(X, 40, seed, "image")
        K, K0 = kernel(X), kernel.between_bases()
        solutions = []
        for rows in (K, K.astype(np.float32)):
            chunks = [(0, 70, rows[:70]), (70, len(rows), rows[70:])]
            problem = Classifiers(lambda chunks=chunks: iter(chunks), K0, penalty, LOGISTIC, workers)  # type: ignore[misc]
            solutions.append(problem.solve(signs))
    double, single = (exact_objective(K, K0, signs, solution.weights, penalty) for solution in solutions)
    np.testing.assert_allclose([solution.objective for solution in solutions], [double, single], rtol=1e-4)
    for k in range(signs.shape[1]):
        best = minimize(
            lambda w, k=k: (
                exact_objective(K, K0, signs[:, [k]], w[:, None], penalty)[0],
                -K.T @ (signs[:, k] / (1 + np.exp(signs[:, k] * (K @ w)))) + 2 * penalty * K0 @ w,
            ),
            solutions[0].weights[:, k],
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50},
        )
        assert double[k] <= best.fun * (1 + 1e-4)
        # If bases nearly coincide, as sparse points do, the smallest eigenvalues of K'K are below its rounding error in
        # single precision, the scaling of these directions is wrong, and the solver stops early. Kernel functions
        # accept it: K'K in double precision would take twice the time, for a few thousandths of the objective.
        assert single[k] <= best.fun * (1 + (5e-3 if sparse else 1e-4))


def test_joint_solver_agrees_with_scikit_learn() -> None:
    X, signs = scene(0, n=300)
    penalty = 0.05
    with Workers(1) as workers:
        kernel = fit_kernel(X, 30, 0, "image")
        K, K0 = kernel(X), kernel.between_bases()
        single = K.astype(np.float32)
        solution = Classifiers(lambda: iter([(0, 300, single)]), K0, penalty, LOGISTIC, workers).solve(signs)
    root = np.linalg.cholesky(K0 + 1e-10 * np.eye(30))
    for k in range(1, signs.shape[1]):  # scikit-learn refuses a constant target
        reference = LogisticRegression(C=1 / (2 * penalty), fit_intercept=False, tol=1e-10, max_iter=10_000)
        reference.fit(np.linalg.solve(root, K.T).T, signs[:, k])
        weights = np.linalg.solve(root.T, reference.coef_[0])
        theirs = exact_objective(K, K0, signs[:, [k]], weights[:, None], penalty)[0]
        assert solution.objective[k] == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("learner", [KernelLogistic(50), KernelRidge(50), KernelLogistic(50, bases="kmeans")])
def test_kernel_functions_learn_nonlinear_relations(learner: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 2))
    signs = np.where(np.stack([X[:, 0] * X[:, 1], (X**2).sum(axis=1) - 1.4], axis=1) > 0, 1, -1)
    with Workers(2) as workers:
        hashed = learner.fit(X[:600], targets_of(signs[:600]), "image", FitContext(workers, 0))
        projections = hashed.project(X[600:], "image", workers)
    assert (np.sign(projections) == signs[600:]).mean() > 0.9


def test_kernel_ridge_is_ridge_on_kernel_values() -> None:
    from sklearn.linear_model import Ridge

    X, signs = scene(3, n=200)
    with Workers(1) as workers:
        hashed = KernelRidge(25, ridge=0.5).fit(X, targets_of(signs), "image", FitContext(workers, 1))
        K = hashed.kernel(X)
        expected = Ridge(alpha=0.5).fit(K, signs).predict(K)
        np.testing.assert_allclose(hashed.project(X, "image", workers), expected, atol=1e-5)


def test_the_memory_limit_does_not_change_the_result() -> None:
    X, signs = scene(1, n=9000)
    results = []
    with Workers(2) as workers:
        for memory in (0, 1 << 20, 1 << 30):
            learner = KernelLogistic(20, memory=memory)
            results.append(learner.fit(X, targets_of(signs), "image", FitContext(workers, 0)))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].weights, other.weights)


def test_the_number_of_threads_does_not_change_the_result() -> None:
    X, signs = scene(2, n=20_000)
    results = []
    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            results.append(KernelLogistic(20).fit(X, targets_of(signs), "image", FitContext(workers, 0)).weights)
    np.testing.assert_array_equal(results[0], results[1])


@given(seeds, st.booleans())
def test_the_code_of_a_point_does_not_depend_on_other_points(seed: int, sparse: bool) -> None:
    X, signs = scene(seed, n=60, sparse=sparse)
    with Workers(1) as workers:
        hashed = KernelRidge(20).fit(X, targets_of(signs), "image", FitContext(workers, 0))
        whole = hashed.encode(X, "image", workers)
        order = np.random.default_rng(seed).permutation(60)
        np.testing.assert_array_equal(hashed.encode(X[order], "image", workers), whole[order])
        alone = [hashed.encode(X[i : i + 1], "image", workers) for i in range(60)]
        np.testing.assert_array_equal(np.vstack(alone), whole)


def test_projections_of_logistic_functions_are_expected_bits() -> None:
    X, signs = scene(4)
    with Workers(1) as workers:
        hashed = KernelLogistic(30).fit(X, targets_of(signs), "image", FitContext(workers, 0))
        projections = hashed.project(X, "image", workers)
    probability = 1 / (1 + np.exp(-(hashed.kernel(X) @ hashed.weights)))
    np.testing.assert_allclose(projections, 2 * probability - 1, atol=1e-6)
    assert isinstance(hashed, KernelHash)


def test_identical_points_and_more_bases_than_points() -> None:
    signs = np.array([[1, -1], [1, 1], [-1, 1]], np.int8)
    with Workers(1) as workers:
        for learner in (KernelLogistic(500), KernelRidge(500)):
            for X in (np.ones((3, 4)), np.eye(3)):
                hashed = learner.fit(X, targets_of(signs), "image", FitContext(workers, 0))
                assert np.isfinite(hashed.project(X, "image", workers)).all()


def test_the_function_penalty_is_the_norm_of_the_function() -> None:
    X, signs = scene(0)
    learner = KernelRidge(40, penalty="function", shrinkage=0.2)
    with Workers(1) as workers:
        function = learner.fit(X, targets_of(signs), "image", FitContext(workers, 0))
    K, K0 = function.kernel(X), function.kernel.between_bases()
    centred = K - K.mean(axis=0)
    gradient = centred.T @ (K @ function.weights + function.offset - signs) + 0.2 * K0 @ function.weights
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_single_precision_gives_the_same_codes() -> None:
    X, signs = scene(0, n=2000, d=20)
    codes = []
    with Workers(1) as workers:
        for precision in ("double", "single"):
            learner = KernelRidge(100, shrinkage=1e-3, precision=precision)
            function = learner.fit(X[:1000], targets_of(signs[:1000]), "image", FitContext(workers, 0))
            codes.append(function.encode(X, "image", workers))
    assert np.bitwise_count(codes[0] ^ codes[1]).sum() <= 2  # of 12,000 bits
