"""Leave-one-out predictions in closed form, against regressions fitted without the point."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._mathematics.ridge import RidgeSolution, leave_one_out_by_points
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.codes import pack
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.hashing.base import FitContext

N_POINTS, N_BITS, RIDGE = 30, 8, 0.7


def data(n_features: int) -> tuple[np.ndarray, Targets]:
    rng = np.random.default_rng(n_features)
    codes = pack(rng.choice([-1.0, 1.0], (N_POINTS, N_BITS)))
    return rng.normal(3, 1, (N_POINTS, n_features)), Targets(codes, np.arange(N_POINTS), N_BITS)


def refitted(features: np.ndarray, targets: Targets, *, intercept: bool) -> np.ndarray:
    """Return the prediction of each point by a regression on all others."""
    centred = features - features.mean(axis=0)
    design = np.column_stack([centred, np.ones(N_POINTS)]) if intercept else centred
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[features.shape[1] :] = 0
    codes, predictions = targets.points(0, N_POINTS), []
    for point in range(N_POINTS):
        others = np.arange(N_POINTS) != point
        gram = design[others].T @ design[others] + penalty
        predictions.append(design[point] @ np.linalg.solve(gram, design[others].T @ codes[others]))
    return np.array(predictions)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_features", [6, 45])
def test_closed_forms_agree_with_regressions_without_the_point(n_features: int, intercept: bool) -> None:
    features, targets = data(n_features)
    expected = refitted(features, targets, intercept=intercept)
    solution = RidgeSolution.of_rows(features.__getitem__, targets, lambda _: RIDGE, intercept=intercept)
    by_features = solution.leave_one_out(features.__getitem__, targets)
    np.testing.assert_allclose(by_features, expected, rtol=1e-4, atol=1e-5)
    for rows in (features, sp.csr_array(features)):
        by_points = leave_one_out_by_points(rows, targets, RIDGE, intercept=intercept)
        np.testing.assert_allclose(by_points, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_features", [6, 45])
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_functions_agree_with_regressions_without_the_point(n_features: int, sparse: bool) -> None:
    features, targets = data(n_features)
    learner = LinearRidge(RIDGE)
    with Workers(1) as workers:
        rows = sp.csr_array(features) if sparse else features
        function = learner.fit(rows, targets, "image", FitContext(workers, 0))
    values = learner.leave_one_out(function, rows, targets)
    assert values is not None
    np.testing.assert_allclose(values, refitted(features, targets, intercept=True), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("penalty", ["weights", "function"])
def test_kernel_functions_memorise_points_that_are_bases_and_leave_one_out_values_do_not(
    penalty: Literal["weights", "function"],
) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N_POINTS, 4))
    targets = data(6)[1]  # codes that are independent of the features
    learner = KernelRidge(N_POINTS, shrinkage=1e-6 if penalty == "weights" else 1e-3, penalty=penalty)
    with Workers(1) as workers:
        function = learner.fit(features, targets, "image", FitContext(workers, 0))
        memorised = function.project(features, "image", workers)
    codes, left_out = targets.points(0, N_POINTS), learner.leave_one_out(function, features, targets)
    assert left_out is not None
    assert ((memorised > 0) == (codes > 0)).mean() > 0.99
    assert ((left_out > 0) == (codes > 0)).mean() < 0.65
    kernel = function.kernel(features)
    ridge = learner._resolve_ridge(function.kernel, np.square(kernel - kernel.mean(axis=0)).sum(axis=0))
    matrix = ridge if isinstance(ridge, np.ndarray) else ridge * np.eye(N_POINTS)
    for point in (3, 17):
        others = np.arange(N_POINTS) != point
        bases = np.flatnonzero(kernel[point] < 1 - 1e-9)
        design = np.column_stack([kernel[:, bases], np.ones(N_POINTS)])
        assert design.shape == (N_POINTS, N_POINTS)  # all bases but that of the point
        added = np.zeros((N_POINTS, N_POINTS))
        added[:-1, :-1] = matrix[np.ix_(bases, bases)]
        weights = np.linalg.solve(design[others].T @ design[others] + added, design[others].T @ codes[others])
        # Kernel values are in single precision, and the smaller ridge is only ten times their rounding error.
        np.testing.assert_allclose(left_out[point], design[point] @ weights, rtol=5e-3, atol=1e-3)


def test_a_point_that_determines_its_prediction_has_finite_values() -> None:
    features = np.eye(3)
    targets = Targets(pack(np.array([[1.0] * 8, [-1.0] * 8, [1.0] * 8])), np.arange(3), 8)
    solution = RidgeSolution.of_rows(features.__getitem__, targets, lambda _: 1e-300)
    values = solution.leave_one_out(features.__getitem__, targets)
    assert np.isfinite(values).all()


def test_constant_features_predict_the_mean_of_the_other_points() -> None:
    codes = np.array([[1.0], [1.0], [-1.0], [1.0]])
    found = leave_one_out_by_points(np.ones((4, 6)), Targets(pack(codes), np.arange(4), 1), 0.0)
    np.testing.assert_allclose(found[:, 0], [1 / 3, 1 / 3, 1, 1 / 3], rtol=1e-6)
