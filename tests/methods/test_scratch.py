"""SCRATCH: updates equal the dense ones, over points and over Gram matrices, and are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._mathematics.rotation import random_rotation
from dlfh.codes import pack, unpack
from dlfh.datasets import Paired
from dlfh.methods import SCRATCH
from dlfh.methods.anchors import AnchorFeatures
from dlfh.methods.scratch import LatentCodes
from tests.methods.small_data import dense, kernel_features, small
from tests.strategies import seeds


class DenseReference:
    """SCRATCH with dense matrices, from the same random draws as the model."""

    def __init__(self, model: SCRATCH, data: Paired) -> None:
        rng = np.random.default_rng(model.random_state)
        self.model, self.c = model, model.n_bits
        self.X, self.Y = (kernel_features(matrix, model.n_anchors, rng) for matrix in dense(data))
        self.L = data.labels.toarray().astype(float)
        self.V = rng.standard_normal((len(self.L), self.c))
        self.R = random_rotation(self.c, rng)

    def update(self) -> None:
        m, V, X, Y, L, eye = self.model, self.V, self.X, self.Y, self.L, np.eye(self.c)
        lx, ly = m.modality_weight, 1 - m.modality_weight
        self.B = B = np.where(V @ self.R.T >= 0, 1.0, -1.0)
        self.Ux = np.linalg.solve(lx * V.T @ V + m.gamma * eye, lx * V.T @ X)
        self.Uy = np.linalg.solve(ly * V.T @ V + m.gamma * eye, ly * V.T @ Y)
        self.G = np.linalg.solve(m.alpha * V.T @ V + m.gamma * eye, m.alpha * V.T @ L)
        self.Wx = np.linalg.solve(m.mu * X.T @ X + m.gamma * np.eye(X.shape[1]), m.mu * X.T @ V)
        self.Wy = np.linalg.solve(m.mu * Y.T @ Y + m.gamma * np.eye(Y.shape[1]), m.mu * Y.T @ V)
        M = lx * self.Ux @ self.Ux.T + ly * self.Uy @ self.Uy.T + m.alpha * self.G @ self.G.T
        M = M + (1 + 2 * m.mu + m.gamma) * eye
        right = lx * X @ self.Ux.T + ly * Y @ self.Uy.T + m.alpha * L @ self.G.T
        self.V = (right + m.mu * X @ self.Wx + m.mu * Y @ self.Wy + B @ self.R) @ np.linalg.inv(M)
        S1, _, S2 = np.linalg.svd(B.T @ self.V)
        self.R = S1 @ S2

    def objective(self, **changed: np.ndarray) -> float:
        m = self.model
        at = {name: changed.get(name, getattr(self, name)) for name in ("V", "B", "R", "Ux", "Uy", "G", "Wx", "Wy")}
        V = at["V"]
        value = m.modality_weight * np.sum((self.X - V @ at["Ux"]) ** 2)
        value += (1 - m.modality_weight) * np.sum((self.Y - V @ at["Uy"]) ** 2)
        value += m.alpha * np.sum((self.L - V @ at["G"]) ** 2) + np.sum((at["B"] - V @ at["R"].T) ** 2)
        value += m.mu * (np.sum((V - self.X @ at["Wx"]) ** 2) + np.sum((V - self.Y @ at["Wy"]) ** 2))
        return float(value + m.gamma * sum(np.sum(at[name] ** 2) for name in ("V", "Ux", "Uy", "G", "Wx", "Wy")))


def make(n_bits: int = 5, **parameters: Any) -> SCRATCH:
    return SCRATCH(n_bits, n_anchors=30, **{"random_state": 3, **parameters})


def test_updates_equal_the_dense_reference() -> None:
    data = small(4)
    model = make(modality_weight=0.3).fit(data.modalities, data.labels)
    expected = DenseReference(model, data)
    objective = []
    for _ in range(20):
        expected.update()
        objective.append(expected.objective())
    np.testing.assert_allclose(model.objective_, objective, rtol=1e-6)
    np.testing.assert_array_equal(model.codes_["text"], pack(expected.B))
    for name, X, W in (("image", expected.X, expected.Wx), ("text", expected.Y, expected.Wy)):
        hashed = model.project(name, data.modalities[name])
        np.testing.assert_allclose(hashed, X @ W @ expected.R.T, atol=1e-4)


def test_refresh_uses_the_latent_matrix_of_the_last_round() -> None:
    data = small(4)
    model = make(refresh=True).fit(data.modalities, data.labels)
    expected = DenseReference(model, data)
    for _ in range(20):
        expected.update()
    R = expected.R
    expected.update()
    np.testing.assert_array_equal(model.codes_["text"], pack(expected.B))
    hashed = model.project("image", data.modalities["image"])
    np.testing.assert_allclose(hashed, expected.X @ expected.Wx @ R.T, atol=1e-4)


@settings(max_examples=15)
@given(seeds, st.integers(1, 12), st.floats(0.05, 0.95), st.floats(-1, 3), st.floats(-1, 3), st.floats(-2, 1))
def test_objective_never_increases(
    seed: int, n_bits: int, modality_weight: float, log_alpha: float, log_mu: float, log_gamma: float
) -> None:
    data = small(seed, 80)
    weights: Any = {
        "modality_weight": modality_weight,
        "alpha": 10**log_alpha,
        "mu": 10**log_mu,
        "gamma": 10**log_gamma,
    }
    history = make(n_bits, random_state=seed, **weights).fit(data.modalities, data.labels).objective_
    assert np.all(np.diff(history) <= 1e-9 * np.abs(history[:-1]))


def test_no_change_of_a_single_block_decreases_the_objective() -> None:
    state, rng = DenseReference(make(), small(2)), np.random.default_rng(0)
    state.update()
    state.update()
    value = state.objective()
    np.testing.assert_allclose(state.R.T @ state.R, np.eye(5), atol=1e-12)
    for _ in range(5):
        assert state.objective(R=random_rotation(5, rng)) >= value
    # V is optimal for the previous R; U, G and W for the previous V; B for both.
    V, R = state.V, state.R
    state.update()
    state.V, state.R, last, rotated = V, R, state.V, state.R
    value = state.objective()
    for name in ("Ux", "Uy", "G", "Wx", "Wy"):
        each = getattr(state, name)
        for _ in range(3):
            assert state.objective(**{name: each + 0.01 * rng.standard_normal(each.shape)}) > value
    for i, k in zip(rng.integers(150, size=20), rng.integers(5, size=20), strict=True):
        flipped = state.B.copy()
        flipped[i, k] *= -1
        assert state.objective(B=flipped) >= value
    state.V = last
    value = state.objective()
    for _ in range(3):
        assert state.objective(V=last + 1e-3 * rng.standard_normal(last.shape)) > value
    state.R = rotated
    assert state.objective() <= value


def test_iterations_over_gram_matrices_equal_those_over_points() -> None:
    """V = F C + B D for F = [X Y L], so a round needs only F'F, F'B, B'B and signs."""
    state = DenseReference(make(modality_weight=0.4), small(3))
    m, (lx, ly), c = state.model, (0.4, 0.6), state.c
    state.update()
    gram_form = DenseReference(make(modality_weight=0.4), small(3))
    gram_form.update()
    F = np.hstack([gram_form.X, gram_form.Y, gram_form.L])
    FF, splits = F.T @ F, np.cumsum([gram_form.X.shape[1], gram_form.Y.shape[1]])
    # C and D of the first V after the random start.
    M = lx * gram_form.Ux @ gram_form.Ux.T + ly * gram_form.Uy @ gram_form.Uy.T + m.alpha * gram_form.G @ gram_form.G.T
    inverse = np.linalg.inv(M + (1 + 2 * m.mu + m.gamma) * np.eye(c))
    first = DenseReference(make(modality_weight=0.4), small(3))
    parts = [lx * gram_form.Ux.T + m.mu * gram_form.Wx, ly * gram_form.Uy.T + m.mu * gram_form.Wy]
    C, D = np.concatenate([*parts, m.alpha * gram_form.G.T]) @ inverse, first.R @ inverse
    B, R = gram_form.B, gram_form.R
    for _ in range(6):
        FB, BB = F.T @ B, B.T @ B
        FV, cross = FF @ C + FB @ D, C.T @ FB @ D
        VV = C.T @ FF @ C + cross + cross.T + D.T @ BB @ D
        B = np.where((F @ C + B @ D) @ R.T >= 0, 1.0, -1.0)
        XV, YV, LV = np.split(FV, splits)
        eye = np.eye(c)
        Ux = np.linalg.solve(lx * VV + m.gamma * eye, lx * XV.T)
        Uy = np.linalg.solve(ly * VV + m.gamma * eye, ly * YV.T)
        G = np.linalg.solve(m.alpha * VV + m.gamma * eye, m.alpha * LV.T)
        grams = [FF[part][:, part] for part in (slice(0, splits[0]), slice(splits[0], splits[1]))]
        Wx, Wy = (
            np.linalg.solve(m.mu * gram + m.gamma * np.eye(len(gram)), m.mu * right)
            for gram, right in zip(grams, (XV, YV), strict=True)
        )
        M = lx * Ux @ Ux.T + ly * Uy @ Uy.T + m.alpha * G @ G.T + (1 + 2 * m.mu + m.gamma) * eye
        inverse = np.linalg.inv(M)
        C = np.concatenate([lx * Ux.T + m.mu * Wx, ly * Uy.T + m.mu * Wy, m.alpha * G.T]) @ inverse
        D = R @ inverse
        S1, _, S2 = np.linalg.svd((F.T @ B).T @ C + B.T @ B @ D)
        R = S1 @ S2
        state.update()
    assert np.mean(state.B == B) > 0.995
    np.testing.assert_allclose(state.V, F @ C + B @ D, atol=1e-4)


@pytest.fixture(scope="module")
def views() -> list[AnchorFeatures]:
    rng = np.random.default_rng(0)
    return [AnchorFeatures(matrix, 30, "view", rng) for matrix in dense(small(6))]


def test_swapping_the_modalities_swaps_their_functions_and_keeps_the_codes(views: list[AnchorFeatures]) -> None:
    rng = np.random.default_rng(1)
    L, V, R = small(6).labels.astype(np.float64), rng.standard_normal((150, 4)), random_rotation(4, rng)
    states = [LatentCodes(each, L, V, R, make(4)) for each in (views, views[::-1])]
    for _ in range(5):
        for state in states:
            state.update()
    np.testing.assert_array_equal(states[0].B, states[1].B)
    for one, other in zip(states[0].W, states[1].W[::-1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_codes_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small(6)
    before = make(16).fit(data.modalities, data.labels)
    monkeypatch.setattr("dlfh.methods.anchors._ROWS", 17)
    after = make(16).fit(data.modalities, data.labels)
    assert np.mean(unpack(before.codes_["text"], 16) == unpack(after.codes_["text"], 16)) > 0.999
