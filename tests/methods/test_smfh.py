"""SMFH: the label graph and the iterations equal the dense ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from dlfh._mathematics.rotation import signs
from dlfh.codes import unpack
from dlfh.datasets import Paired, make_paired
from dlfh.methods import SMFH
from dlfh.methods.smfh import _Graph
from tests.methods.small_data import small, unit_labels
from tests.strategies import Problem, problems


@given(problems(max_points=30))
def test_graph_products_equal_those_of_the_dense_laplacian(problem: Problem) -> None:
    sets = problem.labels
    G = sets.unit_rows()[sets.set_of_point]
    S = (G @ G.T).toarray()
    degrees = S.sum(axis=1)
    V, X = problem.rng.random((len(S), 3)), problem.rng.random((len(S), 4))
    graph = _Graph(G)
    np.testing.assert_allclose(graph.degrees, degrees, atol=1e-9)
    np.testing.assert_allclose(graph.neighbours(V), S @ V, atol=1e-9)
    np.testing.assert_allclose(graph.laplacian(V), V.T @ (np.diag(degrees) - S) @ V, atol=1e-8)
    root = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    normalised = np.diag(root) @ (np.diag(degrees) - S) @ np.diag(root)
    np.testing.assert_allclose(graph.smoothness(X), X.T @ normalised @ X, atol=1e-8)


def test_a_diverging_iteration_is_undone() -> None:
    data = make_paired(300, n_labels=4, image_features=20, text_features=30, random_state=0)
    model = SMFH(64, orthogonality=1e3, tol=0, max_iter=80, random_state=0).fit(data.modalities, data.labels)
    assert model.n_iter_ < 80
    assert not model.objective_[-1] <= 2 * model.objective_[-2]
    for name in ("image", "text"):
        assert np.isfinite(model.project(name, data.modalities[name])).all()


def dense_reference(model: SMFH, data: Paired, n_iter: int) -> tuple[np.ndarray, list[np.ndarray], list[float]]:
    """Run the iterations with dense matrices; return V, P and the objectives."""
    rng = np.random.default_rng(model.random_state)
    X = []
    for matrix in (data.modalities["image"].astype(np.float64), data.modalities["text"].toarray().astype(np.float64)):
        rows = np.hstack([np.maximum(matrix, 0), np.maximum(-matrix, 0)]) if matrix.min() < 0 else matrix
        X.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    n, c, a = len(X[0]), model.n_bits, (model.modality_weight, 1 - model.modality_weight)
    U = [rng.random((x.shape[1], c)) for x in X]
    P = [rng.random((c, x.shape[1])) for x in X]
    V = rng.random((n, c))
    lengths = np.linalg.norm(V, axis=0)
    V, U[0] = V / lengths, U[0] * lengths
    history = []
    for _ in range(n_iter):
        R = rng.permutation(n)[: model.sample_size]
        k = len(R) ** -0.1
        S = unit_labels(data)[R] @ unit_labels(data)[R].T
        D = np.diag(S.sum(axis=1))
        top = 4 * model.orthogonality * V + sum(
            w * x @ u + model.mu * x @ p.T for w, x, u, p in zip(a, X, U, P, strict=True)
        )
        bottom = sum(w * V @ u.T @ u for w, u in zip(a, U, strict=True)) + 2 * model.mu * V
        bottom = bottom + 4 * model.orthogonality * V @ V.T @ V
        top[R] += model.alpha * k * S @ V[R]
        bottom[R] += model.alpha * k * D @ V[R]
        V = V * top / np.maximum(bottom, 1e-10)
        U = [u * (x.T @ V) / np.maximum(u @ V.T @ V, 1e-10) for x, u in zip(X, U, strict=True)]
        lengths = np.linalg.norm(V, axis=0)
        V, U[0] = V / lengths, U[0] * lengths
        root = np.diag(1 / np.sqrt(np.diag(D)))
        P = [
            V.T
            @ x
            @ np.linalg.inv(
                x.T @ x + model.eta * k * x[R].T @ root @ (D - S) @ root @ x[R] + model.gamma * np.eye(x.shape[1])
            )
            for x in X
        ]
        norm = np.linalg.norm
        value = sum(w * norm(x - V @ u.T) for w, x, u in zip(a, X, U, strict=True))
        value += model.alpha * norm(V[R].T @ (D - S) @ V[R]) + model.gamma * sum(norm(p) for p in P)
        history.append(float(value + model.mu * sum(norm(V - x @ p.T) for x, p in zip(X, P, strict=True))))
    return V, P, history


def test_iterations_equal_the_dense_reference() -> None:
    data = small(4)
    model = SMFH(
        6, sample_size=70, max_iter=4, tol=0, alpha=3.0, eta=0.5, gamma=0.01, orthogonality=0.3, random_state=5
    )
    V, P, history = dense_reference(model, data, 4)
    model.fit(data.modalities, data.labels)
    np.testing.assert_allclose(model.objective_, history, rtol=1e-4)
    assert np.mean(unpack(model.codes_["image"], 6) == signs(V - V.mean(axis=0))) > 0.995
    for name, expected in zip(("image", "text"), P, strict=True):
        weights = model.hash_functions_[name].function.weights  # type: ignore[attr-defined]
        np.testing.assert_allclose(weights, expected.T, rtol=1e-2, atol=1e-4)


def test_stop_code_returns_the_previous_iteration() -> None:
    data = small(4)
    model = SMFH(6, stop="code", max_iter=50, random_state=5).fit(data.modalities, data.labels)
    assert model.n_iter_ == 6  # with few bits the graph term is below 100 at once
    V, _, _ = dense_reference(model, data, 5)
    assert np.mean(unpack(model.codes_["image"], 6) == signs(V - V.mean(axis=0))) > 0.995
