"""LEMON: updates equal those over all points with S as a dense matrix, and are exact."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._mathematics.rotation import random_rotation, uncorrelated
from dlfh.codes import pack, unpack
from dlfh.datasets import Paired
from dlfh.methods import LEMON
from dlfh.methods.lemon import EmbeddedChunk
from dlfh.methods.online import Stream
from tests.methods.small_data import dense, small, unit_labels
from tests.strategies import seeds

Bounds = tuple[tuple[int, int], ...]
THREE: Bounds = ((0, 60), (60, 110), (110, 150))


class DenseReference:
    """LEMON with dense matrices over all points so far, from the same random draws as the model."""

    def __init__(self, model: LEMON, data: Paired) -> None:
        self.model, self.c = model, model.n_bits
        self.L, self.G = data.labels.toarray().astype(float), unit_labels(data)
        self.B, self.V = np.empty((0, self.c)), np.empty((0, self.c))
        self.n_chunks = 0

    def begin(self, stop: int) -> np.random.Generator:
        """Append random rows for the next chunk."""
        rng = np.random.default_rng([cast(int, self.model.random_state), self.n_chunks])
        self.n_chunks += 1
        self.first, n = len(self.B), stop - len(self.B)
        self.B = np.concatenate([self.B, rng.choice([-1.0, 1.0], (n, self.c))])
        self.V = np.concatenate([self.V, rng.standard_normal((n, self.c))])
        self.R = random_rotation(self.c, rng)
        return rng

    @property
    def S(self) -> np.ndarray:
        G = self.G[: len(self.B)]
        return np.asarray(2 * G @ G.T - 1)

    def update(self, rng: np.random.Generator) -> None:
        m, c, new = self.model, self.c, slice(self.first, None)
        L = self.L[: len(self.B)]
        self.P = np.linalg.solve(self.V.T @ self.V + m.gamma * np.eye(c), self.V.T @ L)
        Z = self.B[new] @ self.R.T + m.beta * L[new] @ self.P.T + m.alpha * c * self.S[new] @ self.B
        self.V[new] = uncorrelated(Z, rng=rng)
        A, _, C = np.linalg.svd(self.B.T @ self.V)
        self.R = C.T @ A.T
        self.B[new] = np.where(m.alpha * c * self.S[new] @ self.V + self.V[new] @ self.R >= 0, 1.0, -1.0)

    def objective(self) -> float:
        m, L = self.model, self.L[: len(self.B)]
        value = m.alpha * np.sum((self.c * self.S - self.B @ self.V.T) ** 2)
        value += m.beta * (np.sum((L - self.V @ self.P) ** 2) + m.gamma * np.sum(self.P**2))
        return float(value + np.sum((self.B - self.V @ self.R) ** 2))


def parts(data: Paired, bounds: Bounds) -> list[tuple[dict[str, Any], Any]]:
    return [
        ({name: matrix[start:stop] for name, matrix in data.modalities.items()}, data.labels[start:stop])
        for start, stop in bounds
    ]


def learn(model: LEMON, data: Paired, bounds: Bounds = THREE) -> LEMON:
    for modalities, labels in parts(data, bounds):
        model.partial_fit(modalities, labels)
    return model


@pytest.mark.parametrize("weights", [{}, {"alpha": 0.3, "beta": 2.0, "gamma": 5.0}])
def test_updates_equal_the_dense_reference(weights: Any) -> None:
    data = small(4)
    expected = DenseReference(LEMON(3, random_state=2, **weights), data)
    for _, stop in THREE:
        rng = expected.begin(stop)
        for _ in range(5):
            expected.update(rng)
    model = learn(LEMON(3, random_state=2, **weights), data)
    np.testing.assert_array_equal(model.codes_["text"], pack(expected.B))
    sums = model.stream_.sums
    np.testing.assert_allclose(sums["VV"], len(expected.V) * np.eye(3), atol=1e-8)
    np.testing.assert_allclose(sums["BV"], expected.B.T @ expected.V, atol=1e-6)
    for name, rows, right in (("LV", expected.L, expected.V), ("GV", expected.G, expected.V)):
        np.testing.assert_allclose(sums[name], rows.T @ right, atol=1e-6)
    np.testing.assert_allclose(sums["GB"], expected.G.T @ unpack(model.codes_["text"], 3), atol=1e-9)


@settings(max_examples=15)
@given(seeds, st.integers(1, 12), st.floats(-2, 2), st.floats(-2, 2))
def test_objective_over_all_points_never_increases_within_a_chunk(
    seed: int, n_bits: int, log_alpha: float, log_beta: float
) -> None:
    model = LEMON(n_bits, alpha=10**log_alpha, beta=10**log_beta, random_state=seed)
    state = DenseReference(model, small(seed))
    for _, stop in THREE:
        rng, history = state.begin(stop), list[float]()
        for _ in range(6):
            state.update(rng)
            history.append(state.objective())
        assert np.all(np.diff(history) <= 1e-9 * np.abs(history[:-1]))
        V = state.V[state.first :]
        np.testing.assert_allclose(V.T @ V / len(V), np.eye(n_bits), atol=1e-9)
        np.testing.assert_allclose(V.sum(axis=0), 0, atol=1e-8)


def test_fit_equals_partial_fits_over_its_chunks() -> None:
    data = small(1)
    whole = LEMON(16, random_state=0).fit(data.modalities, data.labels)
    once = learn(LEMON(16, random_state=0), data, ((0, 150),))
    np.testing.assert_array_equal(whole.codes_["image"], once.codes_["image"])
    chunked = LEMON(16, chunk_size=45, random_state=0).fit(data.modalities, data.labels)  # 45, 45 and 60
    streamed = learn(LEMON(16, random_state=0), data, ((0, 45), (45, 90), (90, 150)))
    np.testing.assert_array_equal(chunked.codes_["image"], streamed.codes_["image"])
    for name, matrix in data.modalities.items():
        np.testing.assert_array_equal(chunked.project(name, matrix), streamed.project(name, matrix))


def empty(n_bits: int) -> Stream:
    return LEMON(n_bits)._empty_stream()


@settings(max_examples=20)
@given(seeds, st.integers(1, 3))
def test_label_sets_and_points_with_equal_starts_give_the_same_codes(seed: int, n_bits: int) -> None:
    labels, rng = LabelSets.from_labels(small(seed).labels), np.random.default_rng(seed)
    past, labels = empty(n_bits).with_labels(labels)
    B, V, R = rng.choice([-1.0, 1.0], (labels.n_sets, n_bits)), rng.random((labels.n_sets, n_bits)), np.eye(n_bits)
    of_sets, of_points = (make(labels) for make in (LabelRows.of_label_sets, LabelRows.of_points))
    model = LEMON(n_bits, alpha=0.5, beta=0.7)
    by_set = EmbeddedChunk(of_sets, past, B, V, R, model)
    by_point = EmbeddedChunk(of_points, past, B[labels.set_of_point], V[labels.set_of_point], R, model)
    for _ in range(3):
        by_set.update(None)
        by_point.update(None)
    np.testing.assert_array_equal(by_set.B[labels.set_of_point], by_point.B)
    np.testing.assert_allclose(by_set.V[labels.set_of_point], by_point.V, atol=1e-5)
    for name, each in by_set.sums().items():
        np.testing.assert_allclose(each, by_point.sums()[name], atol=1e-4)


def test_init_labels_gives_points_with_equal_labels_one_code() -> None:
    data = small()
    codes = LEMON(8, init="labels", random_state=0).fit(data.modalities, data.labels).codes_["image"]
    sets = LabelSets.from_labels(data.labels).set_of_point
    assert len(np.unique(np.column_stack([sets, codes]), axis=0)) == len(np.unique(sets))


def test_hash_functions_are_ridge_regressions_of_all_codes_on_all_features() -> None:
    data = small(3)
    model = learn(LEMON(6, ridge=0.7, random_state=1), data)
    centred = learn(LEMON(6, ridge=0.7, fit_intercept=True, random_state=1), data)
    B = unpack(model.codes_["text"], 6).astype(float)
    for name, X in zip(("image", "text"), dense(data), strict=True):
        W = np.linalg.solve(X.T @ X + 0.7 * np.eye(X.shape[1]), X.T @ B)
        np.testing.assert_allclose(model.project(name, data.modalities[name]), X @ W, atol=1e-4)
        X = X - X.mean(axis=0)
        W = np.linalg.solve(X.T @ X + 0.7 * np.eye(X.shape[1]), X.T @ B)
        np.testing.assert_allclose(centred.project(name, data.modalities[name]), X @ W + B.mean(axis=0), atol=1e-4)


def test_new_labels_do_not_change_earlier_results() -> None:
    data = small(5)
    indicator = data.labels.toarray()
    indicator[:60, 0] = 0  # the label is not in the first chunk
    words = np.array(["ant", "bee", "cat", "dog"])
    named = LEMON(6, random_state=0)
    columns = LEMON(6, random_state=0)
    for (modalities, _), (start, stop) in zip(parts(data, THREE), THREE, strict=True):
        named.partial_fit(modalities, [list(words[row > 0]) for row in indicator[start:stop]])
        columns.partial_fit(modalities, indicator[start:stop])
    assert named.stream_.label_names == ("bee", "cat", "dog", "ant")
    np.testing.assert_array_equal(named.codes_["text"], columns.codes_["text"])


def test_the_stream_does_not_grow_with_the_number_of_chunks() -> None:
    data = small(5)

    def size(model: LEMON) -> int:
        stream = model.stream_
        arrays = [
            *stream.sums.values(),
            *(getattr(each, part) for each in stream.features.values() for part in ("gram", "cross", "total")),
        ]
        return sum(each.nbytes for each in arrays) + stream.point_labels.nnz

    assert size(learn(LEMON(8), data)) == size(LEMON(8).fit(data.modalities, data.labels))


def test_chunks_too_small_to_balance_are_accepted() -> None:
    data = small(5)
    model = learn(LEMON(16, random_state=0), data, ((0, 140), (140, 145), (145, 146), (146, 150)))
    assert model.codes_["image"].shape == (150, 2)
    assert model.stream_.n_chunks == 4
