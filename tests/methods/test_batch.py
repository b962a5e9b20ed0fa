"""BATCH: updates equal those with S as a dense matrix, and are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh.codes import pack, unpack
from dlfh.datasets import Paired
from dlfh.methods import BATCH
from dlfh.methods.batch import SharedCodes
from tests.methods.small_data import dense, kernel_features, small, unit_labels
from tests.strategies import seeds


class DenseReference:
    """BATCH with dense matrices, from the same random draws as the model."""

    def __init__(self, model: BATCH, data: Paired) -> None:
        rng = np.random.default_rng(model.random_state)
        X, Y = dense(data)
        self.model, self.c = model, model.n_bits
        self.X = [kernel_features(X, model.n_anchors, rng), kernel_features(Y, model.n_other_anchors, rng)]
        self.L, G = data.labels.toarray().astype(float), unit_labels(data)
        self.S = G @ G.T
        self.B = rng.choice([-1.0, 1.0], (len(X), self.c))
        self.V = rng.standard_normal(self.B.shape)

    def terms(self) -> list[tuple[float, np.ndarray]]:
        weight = self.model.feature_weight
        return [(weight, self.X[0]), (weight, self.X[1]), (self.model.label_weight, self.L)]

    def update(self) -> None:
        model, c, V = self.model, self.c, self.V
        self.U = [np.linalg.solve(V.T @ V + model.delta * np.eye(c), V.T @ M) for _, M in self.terms()]
        Z = c * self.S @ self.B + model.omega * self.B
        Z += sum(weight * M @ U.T for (weight, M), U in zip(self.terms(), self.U, strict=True))
        P, _, Q = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        self.V = np.sqrt(len(Z)) * P @ Q
        self.B = np.where(c * self.S @ self.V + model.omega * self.V >= 0, 1.0, -1.0)

    def objective(self, B: Any = None, V: Any = None, U: Any = None) -> float:
        B, V, U = (each if given is None else given for each, given in ((self.B, B), (self.V, V), (self.U, U)))
        value = np.sum((self.c * self.S - B @ V.T) ** 2) + self.model.omega * np.sum((B - V) ** 2)
        for (weight, M), each in zip(self.terms(), U, strict=True):
            value += weight * (np.sum((M - V @ each) ** 2) + self.model.delta * np.sum(each**2))
        return float(value)


def make(n_bits: int = 5, **parameters: Any) -> BATCH:
    return BATCH(n_bits, n_anchors=30, n_other_anchors=40, **{"random_state": 3, **parameters})


@pytest.mark.parametrize("feature_weight", [0.05, 2.0])
def test_updates_equal_the_dense_reference(feature_weight: float) -> None:
    data = small(4)
    model = make(feature_weight=feature_weight).fit(data.modalities, data.labels)
    expected = DenseReference(model, data)
    objective = []
    for _ in range(6):
        expected.update()
        objective.append(expected.objective())
    np.testing.assert_array_equal(model.codes_["text"], pack(expected.B))
    np.testing.assert_allclose(model.objective_, objective, rtol=1e-6)
    for name, X in zip(("image", "text"), expected.X, strict=True):
        W = np.linalg.solve(X.T @ X + 0.01 * np.eye(X.shape[1]), X.T @ expected.B)
        np.testing.assert_allclose(model.project(name, data.modalities[name]), X @ W, atol=1e-3)


@settings(max_examples=15)
@given(seeds, st.integers(1, 20), st.floats(-2, 2), st.floats(-2, 2))
def test_objective_never_increases(seed: int, n_bits: int, log_features: float, log_omega: float) -> None:
    data = small(seed, 80)
    model = make(n_bits, feature_weight=10**log_features, omega=10**log_omega, random_state=seed, max_iter=8)
    history = model.fit(data.modalities, data.labels).objective_
    assert np.all(np.diff(history) <= 1e-9 * np.abs(history[:-1]))


def test_no_change_of_a_single_block_decreases_the_objective() -> None:
    data, rng = small(2), np.random.default_rng(0)
    state = DenseReference(make(omega=5.0, feature_weight=3.0), data)
    state.update()
    value = state.objective()
    for _ in range(20):
        flipped = state.B.copy()
        flipped[rng.integers(len(flipped)), rng.integers(state.c)] *= -1
        assert state.objective(B=flipped) >= value - 1e-6
    V = state.V
    state.U = [np.linalg.solve(V.T @ V + state.model.delta * np.eye(state.c), V.T @ M) for _, M in state.terms()]
    value = state.objective()
    for scale in (1e-3, -1e-3, 0.1):
        moved = [U + scale * rng.standard_normal(U.shape) for U in state.U]
        assert state.objective(U=moved) > value


@settings(max_examples=20)
@given(seeds, st.integers(1, 3))
def test_label_sets_and_points_with_equal_starts_give_the_same_codes(seed: int, n_bits: int) -> None:
    labels, rng = LabelSets.from_labels(small(seed).labels), np.random.default_rng(seed)
    sets, points = LabelRows.of_label_sets(labels), LabelRows.of_points(labels)
    B, V = rng.choice([-1.0, 1.0], (len(sets), n_bits)), rng.standard_normal((len(sets), n_bits))
    model = BATCH(n_bits, feature_weight=0, omega=0.3)
    over_sets = SharedCodes(sets, [], B, V, model)
    over_points = SharedCodes(points, [], B[sets.row_of_point], V[sets.row_of_point], model)
    for _ in range(3):
        over_sets.update(None)
        over_points.update(None)
        assert over_sets.objective() == pytest.approx(over_points.objective(), rel=1e-6, abs=1e-6)
    np.testing.assert_array_equal(over_sets.B[sets.row_of_point], over_points.B)
    np.testing.assert_allclose(over_sets.V[sets.row_of_point], over_points.V, atol=1e-5)


def test_init_labels_gives_points_with_equal_labels_one_code() -> None:
    data = small()
    codes = make(8, init="labels", feature_weight=0).fit(data.modalities, data.labels).codes_["image"]
    sets = LabelSets.from_labels(data.labels).set_of_point
    assert len(np.unique(np.column_stack([sets, codes]), axis=0)) == len(np.unique(sets))


def test_codes_are_constant_within_a_class() -> None:
    data = small()
    classes = data.labels.toarray().argmax(axis=1)
    codes = make(8).fit(data.modalities, classes).codes_["image"]
    assert len(np.unique(np.column_stack([classes, codes]), axis=0)) == len(np.unique(classes))


def test_codes_permute_with_the_points_and_flip_with_the_start() -> None:
    labels, rng = LabelSets.from_labels(small().labels), np.random.default_rng(1)
    B, V = rng.choice([-1.0, 1.0], (150, 3)), rng.standard_normal((150, 3))
    model, order, flip = BATCH(3, feature_weight=0), rng.permutation(150), np.array([1.0, -1.0, 1.0])

    def learn(labels: LabelSets, B: np.ndarray, V: np.ndarray) -> np.ndarray:
        codes = SharedCodes(LabelRows.of_points(labels), [], B, V, model)
        for _ in range(4):
            codes.update(None)
        return codes.B

    learned = learn(labels, B, V)
    np.testing.assert_array_equal(learn(labels.take(order), B[order], V[order]), learned[order])
    np.testing.assert_array_equal(learn(labels, flip * B, flip * V), flip * learned)


def test_codes_are_invariant_to_shift_and_scale_of_features() -> None:
    data = small()
    moved = {"image": 3 * data.modalities["image"] + 5, "text": 7 * data.modalities["text"]}
    before, after = (make(16).fit(each, data.labels) for each in (data.modalities, moved))
    for name in ("image", "text"):
        np.testing.assert_array_equal(before.codes_[name], after.codes_[name])
        hashed = [
            unpack(model.encode(name, each[name]), 16) for model, each in ((before, data.modalities), (after, moved))
        ]
        assert np.mean(hashed[0] == hashed[1]) > 0.99


def test_intercept_is_the_mean_code() -> None:
    data = small()
    with_intercept = make(8, fit_intercept=True).fit(data.modalities, data.labels)
    without = make(8).fit(data.modalities, data.labels)
    shift = unpack(without.codes_["text"], 8).mean(axis=0)
    for name, matrix in data.modalities.items():
        difference = with_intercept.project(name, matrix) - without.project(name, matrix)
        np.testing.assert_allclose(difference, np.broadcast_to(shift, difference.shape), atol=1e-4)
