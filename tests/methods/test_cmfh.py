"""CMFH: monotone objective, and iterations over Gram matrices that equal those over points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh.codes import pack
from dlfh.methods import CMFH
from dlfh.methods.base import hasher_from_parts
from tests.methods.small_data import centred, small
from tests.strategies import seeds


@settings(max_examples=15)
@given(seeds, st.integers(1, 12), st.floats(0.05, 0.95), st.floats(-2, 3), st.floats(-3, 1))
def test_objective_never_increases(
    seed: int, n_bits: int, modality_weight: float, log_mu: float, log_gamma: float
) -> None:
    weights: Any = {"modality_weight": modality_weight, "mu": 10**log_mu, "gamma": 10**log_gamma}
    model = CMFH(n_bits, max_iter=20, tol=0, random_state=seed, **weights).fit(small(seed).modalities)
    assert model.n_iter_ == 20
    assert np.all(np.diff(model.objective_) <= 1e-9 * np.abs(model.objective_[:-1]))


@pytest.mark.parametrize("updates", ["exact", "code", "code-as-is"])
def test_iterations_over_gram_matrices_equal_those_over_points(updates: Any) -> None:
    data = small()
    views, c, a, mu, gamma = centred(data), 5, (0.3, 0.7), 20.0, 0.1
    rng = np.random.default_rng(7)
    Y: Any = rng.standard_normal((len(views[0]), c))
    W: list[Any] = [rng.standard_normal((X.shape[1], c)) for X in views]
    exact, eye = updates == "exact", np.eye(c)
    for _ in range(6):
        U = [
            np.linalg.solve(Y.T @ Y + (gamma / w if exact else gamma) * eye, Y.T @ X)
            for w, X in zip(a, views, strict=True)
        ]
        if exact:
            right = sum(w * X @ u.T + mu * X @ p for w, X, u, p in zip(a, views, U, W, strict=True))
            left: Any = sum(w * u @ u.T for w, u in zip(a, U, strict=True)) + (2 * mu + gamma) * eye
        else:
            right = sum(w * X @ (u.T + mu * p) for w, X, u, p in zip(a, views, U, W, strict=True))
            left = sum(w * (u @ u.T + (mu + gamma) * eye) for w, u in zip(a, U, strict=True))
        Y = right @ np.linalg.inv(left)
        slip = mu**-2 if updates == "code-as-is" else 1.0
        W = [slip * np.linalg.solve(X.T @ X + gamma / mu * np.eye(X.shape[1]), X.T @ Y) for X in views]
    objective: float = sum(w * np.sum((X - Y @ u) ** 2) for w, X, u in zip(a, views, U, strict=True))
    objective += mu * sum(np.sum((Y - X @ p) ** 2) for X, p in zip(views, W, strict=True))
    objective += gamma * (np.sum(Y**2) + sum(np.sum(each**2) for each in (*U, *W)))
    model = CMFH(c, modality_weight=0.3, mu=mu, gamma=gamma, updates=updates, max_iter=6, tol=0, random_state=7)
    model.fit(data.modalities)
    assert model.objective_[-1] == pytest.approx(objective, rel=1e-6)
    np.testing.assert_array_equal(model.codes_["image"], pack(Y))
    for name, expected in zip(("image", "text"), W, strict=True):
        np.testing.assert_allclose(model.hash_functions_[name].weights, expected, rtol=1e-3, atol=1e-6)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((3, 8)), np.full((11, 8), np.nan), np.zeros((11, 8), np.float32), np.zeros((11, 8), "S1")],
    ids=["shape", "NaN", "type", "text"],
)
def test_an_invalid_saved_fold_in_is_refused(wrong: Any) -> None:
    rng = np.random.default_rng(0)
    model = CMFH(8, random_state=0, max_iter=2).fit({"image": rng.random((20, 6)), "text": rng.random((20, 5))})
    config, arrays = model._to_parts()
    assert arrays["fitted/fold_in_"].shape == (11, 8)
    with pytest.raises(ValueError, match=r"its array 'fold_in_' has the wrong type or shape"):
        hasher_from_parts(config, arrays | {"fitted/fold_in_": wrong})
