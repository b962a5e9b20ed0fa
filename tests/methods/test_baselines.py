"""The laws of the methods that DLFH is compared with, against formulas written out in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import pack, unpack
from dlfh.datasets import Paired, make_paired
from dlfh.factorization.label_rows import LabelRows
from dlfh.mathematics._centred import Centred
from dlfh.mathematics._correlation import Whitening, canonical_directions
from dlfh.mathematics._rotation import iterative_quantization, random_rotation, signs
from dlfh.methods import ACQ, CCAITQ, CMFH, CVH, MLBE, SCM, SMFH, SePH
from dlfh.methods import _seph as seph_module
from dlfh.methods._acq import co_quantize
from dlfh.methods._cca_itq import correlated_embeddings
from dlfh.methods._mlbe import Posterior, start_codes
from dlfh.methods._seph import Divergence, descend
from dlfh.methods._smfh import _Graph
from tests.strategies import Problem, problems, seeds


def centred(data: Paired) -> tuple[np.ndarray, np.ndarray]:
    X, Y = data.modalities["image"].astype(np.float64), data.modalities["text"].toarray().astype(np.float64)
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def small(seed: int = 0, n_points: int = 150) -> Paired:
    return make_paired(n_points, n_labels=4, image_features=6, text_features=9, random_state=seed)


def unit_labels(data: Paired) -> np.ndarray:
    L = data.labels.toarray().astype(np.float64)
    return L / np.sqrt(np.maximum(L.sum(axis=1), 1))[:, None]


# SCM


def test_scms_directions_are_those_of_the_similarity_matrix_written_out() -> None:
    data = small()
    X, Y = centred(data)
    S = 2 * unit_labels(data) @ unit_labels(data).T - 1
    expected = canonical_directions(Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6), X.T @ S @ Y)
    model = SCM(3, variant="orthogonal").fit(data.modalities, data.labels)
    for name, directions in (("image", expected.x), ("text", expected.y)):
        ours = model.hash_functions_[name].weights  # type: ignore[attr-defined]
        cosines = np.sum(ours * directions[:, :3], axis=0) / (
            np.linalg.norm(ours, axis=0) * np.linalg.norm(directions[:, :3], axis=0)
        )
        np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-4)


def test_scm_learns_each_bit_for_what_the_bits_before_left_of_the_similarity() -> None:
    data = small(1)
    X, Y = centred(data)
    n_bits = 16
    residual = n_bits * (2 * unit_labels(data) @ unit_labels(data).T - 1)
    whitening = Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6)
    model = SCM(n_bits).fit(data.modalities, data.labels)
    for bit in range(4):
        top = canonical_directions(*whitening, X.T @ residual @ Y).first(1)
        u, v = np.sign(X @ top.x), np.sign(Y @ top.y)
        residual = residual - u @ v.T
        for name, expected in (("image", u), ("text", v)):
            ours = unpack(model.codes_[name], n_bits)[:, bit]
            assert abs(np.mean(ours * expected[:, 0])) > 0.97, (bit, name)


def test_labels_that_say_nothing_leave_scm_with_the_pairs() -> None:
    data = small()
    model = SCM(4).fit(data.modalities, np.zeros(len(data), int))
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    plain = canonical_directions(Whitening(x.gram, 1e-6), Whitening(y.gram, 1e-6), x.cross(y)).first(4)
    agreement = np.abs(np.mean(signs(x.times(plain.x[:, ::-1])) * unpack(model.codes_["image"], 4), axis=0))
    assert np.all(agreement > 0.98)


# CCA-ITQ and ACQ


def test_cca_itq_reports_errors_that_never_rise() -> None:
    model = CCAITQ(12, random_state=0).fit(small().modalities)
    assert len(model.quantization_error_) == 52
    assert np.all(np.diff(model.quantization_error_) <= 1e-9 * model.quantization_error_[0])


@given(seeds, st.integers(1, 10), st.floats(0, 1))
def test_acqs_objective_never_rises(seed: int, c: int, coupling: float) -> None:
    rng = np.random.default_rng(seed)
    points = [rng.standard_normal((50, c)), rng.standard_normal((50, c))]
    rotations, history = co_quantize(points, random_rotation(c, rng), coupling, 15)
    assert np.all(np.diff(history) <= 1e-9 * history[0])
    rotated = [P @ R for P, R in zip(points, rotations, strict=True)]
    own, other = signs(rotated[0] + coupling * rotated[1]), signs(rotated[1] + coupling * rotated[0])
    expected = sum(np.sum((B - P) ** 2) for B, P in ((own, rotated[0]), (other, rotated[1])))
    expected += coupling * sum(np.sum((B - P) ** 2) for B, P in ((other, rotated[0]), (own, rotated[1])))
    assert history[-1] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_acqs_rotations_quantize_better_than_one_for_both(seed: int) -> None:
    data = make_paired(600, n_labels=8, image_features=20, text_features=40, random_state=seed)
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    points = [each.times(A) for each, A in zip((x, y), correlated_embeddings(x, y, 12, 1e-4), strict=True)]
    start = random_rotation(12, np.random.default_rng(seed))
    rotations, _ = co_quantize(points, start, 1.0, 50)
    shared, _ = iterative_quantization(np.concatenate(points), start, 50)

    def error(Rx: np.ndarray, Ry: np.ndarray) -> float:
        rotated = points[0] @ Rx, points[1] @ Ry
        B = signs(rotated[0] + rotated[1])
        return float(sum(np.sum((B - each) ** 2) for each in rotated))

    assert error(*rotations) <= error(shared, shared)


def test_acqs_unified_code_is_that_of_both_projections_together() -> None:
    data = small()
    model = ACQ(6, random_state=0).fit(data.modalities)
    projections = [model.project(name, data.modalities[name]) for name in ("image", "text")]
    np.testing.assert_array_equal(model.encode_unified(data.modalities), pack(projections[0] + projections[1]))
    with pytest.raises(InputError, match="coupling must be a number from 0 to 1"):
        ACQ(6, coupling=1.5).fit(data.modalities)


def test_cca_itq_takes_its_rotation_from_the_first_modality_or_from_both() -> None:
    data = small()
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    weights = correlated_embeddings(x, y, 5, 1e-4)
    start = random_rotation(5, np.random.default_rng(0))
    for rotation, points in (("first", [x.times(weights[0])]), ("both", [x.times(weights[0]), y.times(weights[1])])):
        R, _ = iterative_quantization(np.concatenate(points), start, 51)
        model = CCAITQ(5, rotation=rotation, random_state=0).fit(data.modalities)  # type: ignore[arg-type]
        expected = signs(y.times(weights[1]) @ R)
        assert np.mean(unpack(model.codes_["text"], 5) == expected) > 0.995


# CVH


def test_cvh_from_pairs_is_cca() -> None:
    data = small()
    X, Y = centred(data)
    expected = canonical_directions(Whitening(X.T @ X, 1e-4), Whitening(Y.T @ Y, 1e-4), X.T @ Y)
    model = CVH(5, similarity="pairs").fit(data.modalities)
    for name, projected in (("image", X @ expected.x[:, :5]), ("text", Y @ expected.y[:, :5])):
        agreement = np.abs(np.mean(signs(projected) * unpack(model.codes_[name], 5), axis=0))
        assert np.all(agreement > 0.98)


def test_cvhs_directions_minimise_the_objective_written_out() -> None:
    data = small(2)
    views = [*centred(data), centred(data)[0] ** 2]
    views[2] -= views[2].mean(axis=0)
    modalities = data.modalities | {"squares": views[2]}
    W = unit_labels(data) @ unit_labels(data).T
    D = np.diag(W.sum(axis=1))
    blocks = [
        [X.T @ (2 * (D - W) + 2 * D) @ X if X is Z else -X.T @ W @ Z for Z in views] for X in views
    ]  # K = 3 views
    constraint = scipy.linalg.block_diag(*[X.T @ X + 1e-4 * np.eye(X.shape[1]) for X in views])
    _, vectors = scipy.linalg.eigh(np.block(blocks), constraint)
    model = CVH(3, similarity="labels").fit(modalities, data.labels)
    stacked = np.concatenate([model.hash_functions_[name].weights for name in modalities])  # type: ignore[attr-defined]
    cosines = np.sum(stacked * vectors[:, :3], axis=0) / (
        np.linalg.norm(stacked, axis=0) * np.linalg.norm(vectors[:, :3], axis=0)
    )
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-4)


@pytest.mark.parametrize("similarity", ["pairs", "labels"])
def test_cvh_has_no_more_bits_than_directions_in_which_views_correlate(similarity: Any) -> None:
    rng = np.random.default_rng(0)
    data = small(1)
    X, Y = centred(data)
    views = {"image": X[:, :4] @ rng.standard_normal((4, 6)), "text": Y[:, :5] @ rng.standard_normal((5, 7))}
    model = CVH(12, similarity=similarity).fit(views, data.labels)
    for name in views:
        varying = np.ptp(unpack(model.codes_[name], 12), axis=0) > 0
        assert varying[:3].all()
        assert not varying[4:].any()


def test_cvh_asks_for_labels_where_it_is_to_learn_from_them() -> None:
    with pytest.raises(InputError, match="CVH learns from labels: pass labels to fit"):
        CVH(4, similarity="labels").fit(small().modalities)


# CMFH


@settings(max_examples=15)
@given(seeds, st.integers(1, 12), st.floats(0.05, 0.95), st.floats(-2, 3), st.floats(-3, 1))
def test_cmfhs_objective_never_rises(seed: int, n_bits: int, balance: float, log_mu: float, log_gamma: float) -> None:
    weights: Any = {"balance": balance, "mu": 10**log_mu, "gamma": 10**log_gamma}
    model = CMFH(n_bits, max_iter=20, tol=0, random_state=seed, **weights).fit(small(seed).modalities)
    assert model.n_iter_ == 20
    assert np.all(np.diff(model.objective_) <= 1e-9 * np.abs(model.objective_[:-1]))


@pytest.mark.parametrize("updates", ["exact", "code", "code-as-is"])
def test_cmfh_in_gram_matrices_is_cmfh_over_points(updates: Any) -> None:
    data = small()
    views, c, a, mu, gamma = centred(data), 5, (0.3, 0.7), 20.0, 0.1
    rng = np.random.default_rng(7)
    Y = rng.standard_normal((len(views[0]), c))
    W = [rng.standard_normal((X.shape[1], c)) for X in views]
    exact, eye = updates == "exact", np.eye(c)
    for _ in range(6):
        U = [
            np.linalg.solve(Y.T @ Y + (gamma / w if exact else gamma) * eye, Y.T @ X)
            for w, X in zip(a, views, strict=True)
        ]
        if exact:
            right = sum(w * X @ u.T + mu * X @ p for w, X, u, p in zip(a, views, U, W, strict=True))
            left = sum(w * u @ u.T for w, u in zip(a, U, strict=True)) + (2 * mu + gamma) * eye
        else:
            right = sum(w * X @ (u.T + mu * p) for w, X, u, p in zip(a, views, U, W, strict=True))
            left = sum(w * (u @ u.T + (mu + gamma) * eye) for w, u in zip(a, U, strict=True))
        Y = right @ np.linalg.inv(left)
        slip = mu**-2 if updates == "code-as-is" else 1.0
        W = [slip * np.linalg.solve(X.T @ X + gamma / mu * np.eye(X.shape[1]), X.T @ Y) for X in views]
    objective = sum(w * np.sum((X - Y @ u) ** 2) for w, X, u in zip(a, views, U, strict=True))
    objective += mu * sum(np.sum((Y - X @ p) ** 2) for X, p in zip(views, W, strict=True))
    objective += gamma * (np.sum(Y**2) + sum(np.sum(each**2) for each in (*U, *W)))
    model = CMFH(c, balance=0.3, mu=mu, gamma=gamma, updates=updates, max_iter=6, tol=0, random_state=7)
    model.fit(data.modalities)
    assert model.objective_[-1] == pytest.approx(objective, rel=1e-6)
    np.testing.assert_array_equal(model.codes_["image"], pack(Y))
    for name, expected in zip(("image", "text"), W, strict=True):
        np.testing.assert_allclose(model.hash_functions_[name].weights, expected, rtol=1e-3, atol=1e-6)  # type: ignore[attr-defined]


# SMFH


@given(problems(max_points=30))
def test_smfhs_graph_is_the_laplacian_written_out(problem: Problem) -> None:
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


def test_smfh_goes_back_from_an_iteration_that_diverges() -> None:
    data = make_paired(300, n_labels=4, image_features=20, text_features=30, random_state=0)
    model = SMFH(64, orthogonality=1e3, tol=0, max_iter=80, random_state=0).fit(data.modalities, data.labels)
    assert model.n_iter_ < 80
    assert not model.objective_[-1] <= 2 * model.objective_[-2]
    for name in ("image", "text"):
        assert np.isfinite(model.project(name, data.modalities[name])).all()


def smfh_written_out(model: SMFH, data: Paired, n_iter: int) -> tuple[np.ndarray, list[np.ndarray], list[float]]:
    """Run SMFH's iterations with dense matrices; return V, the P and the objectives."""
    rng = np.random.default_rng(model.random_state)
    X = []
    for matrix in (data.modalities["image"].astype(np.float64), data.modalities["text"].toarray().astype(np.float64)):
        rows = np.hstack([np.maximum(matrix, 0), np.maximum(-matrix, 0)]) if matrix.min() < 0 else matrix
        X.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    n, c, a = len(X[0]), model.n_bits, (model.balance, 1 - model.balance)
    U = [rng.random((each.shape[1], c)) for each in X]
    P = [rng.random((c, each.shape[1])) for each in X]
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


def test_smfhs_iterations_are_those_written_out() -> None:
    data = small(4)
    model = SMFH(
        6, sample_size=70, max_iter=4, tol=0, alpha=3.0, eta=0.5, gamma=0.01, orthogonality=0.3, random_state=5
    )
    V, P, history = smfh_written_out(model, data, 4)
    model.fit(data.modalities, data.labels)
    np.testing.assert_allclose(model.objective_, history, rtol=1e-4)
    assert np.mean(unpack(model.codes_["image"], 6) == signs(V - V.mean(axis=0))) > 0.995
    for name, expected in zip(("image", "text"), P, strict=True):
        weights = model.hash_functions_[name].function.weights  # type: ignore[attr-defined]
        np.testing.assert_allclose(weights, expected.T, rtol=1e-2, atol=1e-4)


def test_smfh_as_the_authors_code_returns_the_iteration_before_it_stops() -> None:
    data = small(4)
    model = SMFH(6, stop="code", max_iter=50, random_state=5).fit(data.modalities, data.labels)
    assert model.n_iter_ == 6  # few bits: the graph's part is below 100 at once
    V, _, _ = smfh_written_out(model, data, 5)
    assert np.mean(unpack(model.codes_["image"], 6) == signs(V - V.mean(axis=0))) > 0.995


def test_the_learned_codes_of_factorizations_and_of_seph_are_one_code_for_all_modalities() -> None:
    data = small()
    for model in (CMFH(8, random_state=0), SMFH(8, random_state=0), SePH(8, n_bases=20, random_state=0)):
        model.fit(data.modalities, data.labels)
        np.testing.assert_array_equal(model.codes_["image"], model.codes_["text"])


# SePH


@settings(max_examples=20)
@given(problems(max_points=25), st.integers(1, 6))
def test_sephs_objective_and_gradient_are_those_written_out(problem: Problem, n_bits: int) -> None:
    L = problem.indicator / np.sqrt(np.maximum(problem.indicator.sum(axis=1), 1))[:, None]
    n, H = len(L), problem.rng.standard_normal((len(L), n_bits))
    P = L @ L.T
    np.fill_diagonal(P, 0)
    with Workers(1) as workers:
        if P.sum() == 0:
            with pytest.raises(InputError, match="no two points similar"):
                Divergence(LabelRows.of_points(problem.labels), 0.5, workers)
            return
        divergence = Divergence(LabelRows.of_points(problem.labels), 0.5, workers)
        value, gradient = divergence(H)
    P /= P.sum()

    def objective(H: np.ndarray) -> float:
        Q = 1 / (1 + np.sum((H[:, None] - H) ** 2, axis=2) / 4)
        np.fill_diagonal(Q, 0)
        Q /= Q.sum()
        inside = P > 0
        return float(
            np.sum(P[inside] * np.log(P[inside] / Q[inside])) + 0.5 / (n * n_bits) * np.sum((np.abs(H) - 1) ** 2)
        )

    assert value == pytest.approx(objective(H), rel=1e-4, abs=1e-5)
    i, k, h = int(problem.rng.integers(n)), int(problem.rng.integers(n_bits)), 1e-5
    up, down = H.copy(), H.copy()
    up[i, k] += h
    down[i, k] -= h
    assert gradient[i, k] == pytest.approx((objective(up) - objective(down)) / (2 * h), abs=1e-4)


@given(problems(max_points=40))
def test_seph_over_label_sets_is_seph_over_points_that_start_together(problem: Problem) -> None:
    sets, points = LabelRows.of_label_sets(problem.labels), LabelRows.of_points(problem.labels)
    H = problem.rng.standard_normal((len(sets), 5))
    with Workers(1) as workers:
        try:
            over_sets = Divergence(sets, 0.01, workers)
        except InputError:
            return
        value, gradient = over_sets(H)
        expected, by_point = Divergence(points, 0.01, workers)(H[sets.row_of_point])
    assert value == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(gradient[sets.row_of_point], by_point, atol=1e-5)


def test_sephs_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = LabelSets.from_labels(small(3).labels)
    rows, H = LabelRows.of_points(labels), np.random.default_rng(0).standard_normal((150, 6))
    with Workers(2) as workers:
        value, gradient = Divergence(rows, 0.01, workers)(H)
        monkeypatch.setattr(seph_module, "_BLOCK_BYTES", 150 * 8 * 7)  # seven rows at a time
        blocked, same = Divergence(rows, 0.01, workers)(H)
    assert value == pytest.approx(blocked, rel=1e-6)
    np.testing.assert_allclose(gradient, same, atol=1e-7)


def test_seph_keeps_the_best_of_its_descent() -> None:
    labels = LabelSets.from_labels(small(3).labels)
    with Workers(1) as workers:
        divergence = Divergence(LabelRows.of_label_sets(labels), 0.01, workers)
        start = 1e-4 * np.random.default_rng(0).standard_normal((labels.n_sets, 8))
        H, history = descend(divergence, start, 500.0, 60)
        assert divergence(H)[0] == pytest.approx(min(history), rel=1e-6)
    assert min(history) < history[0] - 0.1


def test_sephs_unified_code_is_the_authors_rule() -> None:
    data = small()
    model = SePH(10, n_bases=40, random_state=0).fit(data.modalities, data.labels)
    p = [(model.project(name, data.modalities[name]).astype(np.float64) + 1) / 2 for name in ("image", "text")]
    prior = (unpack(model.codes_["image"], 10) > 0).mean(axis=0)
    varying = (prior > 0) & (prior < 1)
    rule = p[0] * p[1] / prior - (1 - p[0]) * (1 - p[1]) / (1 - prior) if varying.all() else None
    assert rule is not None
    assert np.mean(unpack(model.encode_unified(data.modalities), 10) == signs(rule)) > 0.999


# MLBE


def planted(seed: int, n: int, n_bits: int, noise: float) -> tuple[list[np.ndarray], LabelSets, np.ndarray]:
    """Return noisy similarities made from codes, labels that tell equal codes, and the codes."""
    rng = np.random.default_rng(seed)
    U = rng.choice([-1, 1], (n, n_bits))
    W = np.diag(1 + rng.random(n_bits)) / n_bits
    similarities = []
    for _ in range(2):
        errors = noise * rng.standard_normal((n, n))
        similarities.append((U @ W @ U.T + (errors + errors.T) / 2).astype(np.float32))
    return similarities, LabelSets.from_labels(U @ 2 ** np.arange(n_bits)), U


def start(similarities: list[np.ndarray], n_bits: int, seed: int, kind: str = "spectral") -> list[np.ndarray]:
    return start_codes(similarities, n_bits, kind, np.random.default_rng(seed))


@settings(max_examples=15)
@given(seeds, st.integers(2, 40), st.integers(1, 10), st.floats(0.1, 0.9), st.floats(1, 5), st.floats(0.01, 10))
def test_mlbes_log_posterior_never_falls(
    seed: int, n: int, n_bits: int, bit_prior: float, shape: float, rate: float
) -> None:
    similarities, labels, _ = planted(seed, n, n_bits, 0.3)
    priors: Any = {"bit_prior": bit_prior, "shape": shape, "rate": rate}
    with Workers(1) as workers:
        codes = start(similarities, n_bits, seed, "random" if seed % 2 else "spectral")
        posterior = Posterior(similarities, labels, codes, workers, **priors)
        history = posterior.ascend(6, 0.0)
    assert np.all(np.diff(history) >= -1e-6 * np.maximum(np.abs(history[:-1]), 1))


def test_mlbes_log_posterior_is_the_models_written_out() -> None:
    similarities, labels, _ = planted(0, 20, 4, 0.3)
    with Workers(1) as workers:
        posterior = Posterior(similarities, labels, start(similarities, 4, 0, "random"), workers)

        def written_out() -> float:
            U, V = (side.codes.astype(np.float64) for side in posterior.sides)
            S = labels.similar(labels.set_of_point, labels.set_of_point)
            theta = posterior.link * U @ V.T
            value = np.sum(S * theta - np.logaddexp(0, theta))
            value -= posterior.link**2 / (2 * posterior.phi) + np.log(posterior.phi) / 2 + 1 / posterior.phi
            for side in posterior.sides:
                error = side.S - side.codes.astype(np.float64) @ side.W @ side.codes.T
                value -= np.sum(error**2) / (4 * side.theta) + 400 / 4 * np.log(side.theta) + 1 / side.theta
                value -= np.sum(side.W**2) / (4 * side.phi) + 16 / 4 * np.log(side.phi) + 1 / side.phi
                value += side.codes.size * np.log(0.5)
            return float(value)

        assert posterior.log_posterior() == pytest.approx(written_out(), rel=1e-5, abs=1e-3)
        posterior.ascend(3, 0.0)
        assert posterior.log_posterior() == pytest.approx(written_out(), rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("n_bits", [2, 4, 6])
@pytest.mark.parametrize("seed", range(3))
def test_mlbe_recovers_planted_codes(seed: int, n_bits: int) -> None:
    similarities, labels, U = planted(seed, 200, n_bits, 0.2)
    with Workers(1) as workers:
        runs = []
        for restart in range(4):
            posterior = Posterior(similarities, labels, start(similarities, n_bits, restart), workers)
            runs.append((posterior.ascend(30, 1e-2)[-1], restart, posterior))
    _, _, best = max(runs)
    for side in best.sides:
        # Bits come in any order and with any sign.
        agreement = np.abs(side.codes.T @ U) / len(U)
        assert agreement.max(axis=0).min() > 0.99


def test_mlbe_trains_on_a_sample_and_encodes_the_rest() -> None:
    data = make_paired(300, n_labels=4, noise=1.0, random_state=0)
    model = MLBE(8, n_train=100, max_iter=5, random_state=0).fit(data.modalities, data.labels)
    assert model.codes_["image"].shape == (300, 1)
    encoded = model.encode("image", data.modalities["image"])
    assert (model.codes_["image"] == encoded).all(axis=1).sum() >= 200


def test_mlbe_says_how_much_memory_it_would_need() -> None:
    data = small()
    with pytest.raises(InputError, match="MLBE on 150 points needs"):
        MLBE(8, memory=1000).fit(data.modalities, data.labels)


def test_mlbes_sweep_over_new_points_follows_its_bit_rule() -> None:
    data = small()
    model = MLBE(6, encoding="sweep", max_iter=5, random_state=0).fit(data.modalities, data.labels)
    function: Any = model.hash_functions_["image"]
    K = function.kernel(data.modalities["image"][:20])
    for values, code in zip(K, unpack(model.encode("image", data.modalities["image"][:20]), 6), strict=True):
        u = function.start.astype(np.float64)
        for k in range(6):
            errors = []
            for bit in (1, -1):
                u[k] = bit
                errors.append(np.sum((values - function.embedded @ u) ** 2))
            u[k] = 1 if errors[0] < errors[1] else -1
        np.testing.assert_array_equal(u, code)
