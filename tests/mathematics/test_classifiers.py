"""Classifiers solved by sums are those solved in memory, and each iteration is one sum over the points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._mathematics.classifiers import LOGISTIC, SQUARED_HINGE, Classifiers, Loss, loss_sums, solve_by_sums
from dlfh._parallel import Workers
from tests.strategies import seeds

Solution = tuple[np.ndarray, np.ndarray, int]


def scene(seed: int, n: int = 200, k: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return kernel values, signs, some of them constant or separable, and kernel values of the bases."""
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((n, 3)), rng.standard_normal((k, 3))
    K, K0 = (np.exp(-((x[:, None] - Z) ** 2).sum(axis=2) / 6) for x in (X, Z))
    signs = np.where(np.sin(X @ rng.standard_normal((3, 5))) + 0.3 * rng.standard_normal((n, 5)) > 0, 1, -1)
    signs[:, 0] = 1
    signs[:, 1] = np.where(X[:, 0] > 0, 1, -1)
    return K.astype(np.float32), signs.astype(np.int8), K0


def by_sums(
    K: np.ndarray, signs: np.ndarray, K0: np.ndarray, penalty: float, loss: Loss, workers: Workers
) -> tuple[Solution, list[int]]:
    """Return the solution, and the number of columns in each sum."""
    n_columns_summed: list[int] = []

    def sums(weights: np.ndarray, columns: np.ndarray) -> np.ndarray:
        n_columns_summed.append(len(columns))
        halves = [(K[:70], signs[:70]), (K[70:], signs[70:])]
        return sum(loss_sums(loss, [half], weights, columns, workers) for half in halves)  # type: ignore[return-value]

    gram = (K.T @ K).astype(np.float64)
    return solve_by_sums(sums, gram, signs.shape[1], K0, penalty, loss, tol=1e-8), n_columns_summed


@settings(max_examples=8)
@given(seeds, st.sampled_from([LOGISTIC, SQUARED_HINGE]), st.sampled_from([1e-2, 1.0]))
def test_both_solvers_reach_the_same_objective(seed: int, loss: Loss, penalty: float) -> None:
    K, signs, K0 = scene(seed)
    with Workers(2) as workers:
        (_, objective, n_iter), n_columns_summed = by_sums(K, signs, K0, penalty, loss, workers)
        whole = Classifiers(lambda: iter([(0, len(K), K)]), K0, penalty, loss, workers).solve(signs, tol=1e-8)
    np.testing.assert_allclose(objective, whole.objective, rtol=1e-5)
    assert len(n_columns_summed) == n_iter + 1
    assert n_columns_summed == sorted(n_columns_summed, reverse=True)


@settings(max_examples=5)
@given(seeds)
def test_columns_do_not_affect_each_other(seed: int) -> None:
    """Not even when some steps are rejected and others are not."""
    K, signs, K0 = scene(seed)
    with Workers(1) as workers:
        (_, objective, n_iter), _ = by_sums(K, signs, K0, 0.01, LOGISTIC, workers)
        alone = [by_sums(K, signs[:, [j]], K0, 0.01, LOGISTIC, workers)[0] for j in range(signs.shape[1])]
    np.testing.assert_allclose(objective, [own[0] for _, own, _ in alone], rtol=1e-6)
    assert n_iter == pytest.approx(max(own for _, _, own in alone), abs=5)


@settings(max_examples=25)
@given(seeds, st.integers(1, 4))
def test_sums_are_losses_and_their_gradients(seed: int, n_columns: int) -> None:
    K, signs, K0 = scene(seed)
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.choice(signs.shape[1], n_columns, replace=False))
    weights = rng.standard_normal((len(K0), n_columns))
    with Workers(2) as workers:
        found = loss_sums(LOGISTIC, [(K[:30], signs[:30]), (K[30:], signs[30:])], weights, columns, workers)
    margins = signs[:, columns] * (K.astype(np.float64) @ weights)
    np.testing.assert_allclose(found[0], np.logaddexp(0, -margins).sum(axis=0), rtol=1e-5)
    gradient = -K.astype(np.float64).T @ (signs[:, columns] / (1 + np.exp(margins)))
    np.testing.assert_allclose(found[1:], gradient, atol=1e-4 * len(K))
