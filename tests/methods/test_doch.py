"""DOCH: updates equal those computed bit by bit, and are monotone."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._factorization import paper
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import pack, unpack
from dlfh.datasets import Paired
from dlfh.methods import DOCH
from dlfh.methods.doch import sweep
from tests.methods.small_data import dense, small
from tests.strategies import Problem, problems

THREE = ((0, 60), (60, 68), (68, 150))  # one chunk has fewer points than anchors


def dense_reference(model: DOCH, data: Paired, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of three chunks and the last P, computing Theta for every bit."""
    L, c, theta = data.labels.toarray().astype(float), model.n_bits, model.theta
    old = np.empty((0, c))
    for number, (start, stop) in enumerate(THREE):
        rng = np.random.default_rng([cast(int, model.random_state), number])
        B = rng.choice(np.array([-1, 1], np.int8), (stop - start, c)).astype(float)
        P = rng.standard_normal((c, L.shape[1]))
        for _ in range(model.max_iter):
            for _ in range(model.n_sweeps):
                if number == 0:
                    drawn = rng.choice(stop, min(stop, model.n_anchors), replace=False)
                    A = B[drawn].copy()
                else:
                    sizes = [(first, last - first) for first, last in THREE[:number]]
                    drawn = np.concatenate(
                        [first + rng.choice(n, min(n, model.n_anchors), replace=False) for first, n in sizes]
                    )
                    A = old[drawn]
                S = (L[start:stop] @ L[drawn].T > 0).astype(float)
                for k in range(c):
                    Theta = scale * B @ A.T
                    likely = scale * (S - 1 / (1 + np.exp(-Theta))) @ A[:, k] + len(A) * scale**2 / 4 * B[:, k]
                    others = np.arange(c) != k
                    labels = 2 * (L[start:stop] @ P[k] - B[:, others] @ (P @ P.T)[others, k])
                    B[:, k] = np.where(likely + theta * labels >= 0, 1, -1)
            everything = np.concatenate([old, B])
            P = np.linalg.pinv(everything) @ L[:stop]
        old = np.concatenate([old, B])
    return old, P


@pytest.mark.parametrize(("scale", "theta"), [("auto", 0.1), (0.6, 2.0)])
def test_updates_equal_the_dense_reference(scale: Any, theta: float) -> None:
    data = small(4)
    model = DOCH(8, scale=scale, theta=theta, n_anchors=20, random_state=3)
    expected, P = dense_reference(model, data, 0.45 if scale == "auto" else scale)
    for start, stop in THREE:
        chunk = {name: matrix[start:stop] for name, matrix in data.modalities.items()}
        model.partial_fit(chunk, data.labels[start:stop])
    np.testing.assert_array_equal(model.codes_["text"], pack(expected))
    sums = model.stream_.sums
    np.testing.assert_allclose(sums["BB"], expected.T @ expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.pinv(sums["BB"]) @ sums["LB"].T, P, atol=1e-8)
    for name, X in zip(("image", "text"), dense(data), strict=True):
        W = np.linalg.lstsq(X, expected, rcond=None)[0]
        np.testing.assert_allclose(model.project(name, data.modalities[name]), X @ W, atol=1e-3)


@given(problems(max_points=30), st.integers(1, 10), st.floats(0.01, 2.0), st.floats(0.0, 3.0))
def test_objective_never_decreases_with_fixed_anchors(
    problem: Problem, n_bits: int, scale: float, theta: float
) -> None:
    labels, rng = problem.labels, problem.rng
    chunk = LabelRows.of_points(labels)
    signs = np.array([-1, 1], np.int8)
    B, A = rng.choice(signs, (labels.n_points, n_bits)), rng.choice(signs, (7, n_bits))
    P, anchors = rng.standard_normal((n_bits, labels.n_labels)), chunk.indicator[rng.integers(labels.n_points, size=7)]

    def value() -> float:
        Theta = scale * (B.astype(np.float64) @ A.T)
        terms = ((chunk.indicator @ anchors.T).toarray() > 0) * Theta - np.logaddexp(0, Theta)
        return float(terms.sum() - theta * np.sum((chunk.indicator.toarray() - B @ P) ** 2))

    values = [value()]
    with Workers(1) as workers:
        for _ in range(4):
            sweep(B, P, chunk, (A, anchors), workers, scale=scale, theta=theta)
            values.append(value())
    assert np.all(np.diff(values) >= -1e-6 * (1 + np.abs(values[:-1])))


@given(problems(max_points=40), st.integers(1, 8))
def test_label_sets_and_points_with_equal_starts_give_the_same_codes(problem: Problem, n_bits: int) -> None:
    labels, rng = problem.labels, problem.rng
    signs = np.array([-1, 1], np.int8)
    B, A = rng.choice(signs, (labels.n_sets, n_bits)), rng.choice(signs, (9, n_bits))
    P, weights = rng.standard_normal((n_bits, labels.n_labels)), {"scale": 0.4, "theta": 0.2}
    anchors, points = labels.rows()[rng.integers(labels.n_sets, size=9)], B[labels.set_of_point]
    order = rng.permutation(labels.n_points)
    permuted, shuffled = points[order], LabelRows.of_points(labels.take(order))
    with Workers(2) as workers:
        sweep(B, P, LabelRows.of_label_sets(labels), (A, anchors), workers, **weights)
        sweep(points, P, LabelRows.of_points(labels), (A, anchors), workers, **weights)
        sweep(permuted, P, shuffled, (A, anchors), workers, **weights)
    np.testing.assert_array_equal(points, B[labels.set_of_point])
    np.testing.assert_array_equal(permuted, points[order])


@settings(max_examples=20)
@given(problems(max_points=30), st.integers(1, 8))
def test_a_sweep_without_label_prediction_equals_dlfhs_update(problem: Problem, n_bits: int) -> None:
    labels, rng = problem.labels, problem.rng
    B = rng.choice(np.array([-1, 1], np.int8), (labels.n_points, n_bits))
    A = rng.choice(np.array([-1, 1], np.int8), (n_bits, n_bits))
    drawn = rng.integers(labels.n_points, size=n_bits)
    L = problem.indicator.astype(float)
    expected = B.astype(float)
    paper.update(expected, A.astype(float), (L @ L[drawn].T > 0).astype(float), 8.0)
    chunk, P = LabelRows.of_points(labels), np.zeros((n_bits, labels.n_labels))
    with Workers(1) as workers:
        sweep(B, P, chunk, (A, chunk.indicator[drawn]), workers, scale=8.0 / n_bits, theta=0.0)
    assert np.mean(expected == B) > 0.99  # rounding decides exact ties


def test_codes_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small(2)
    monkeypatch.setattr("dlfh.methods.doch._ROWS", 13)
    one, two = (DOCH(16, n_jobs=jobs, random_state=0).fit(data.modalities, data.labels) for jobs in (1, 2))
    np.testing.assert_array_equal(one.codes_["text"], two.codes_["text"])


def test_anchors_are_drawn_per_chunk_or_from_all_old_points() -> None:
    data = small(2)
    model = DOCH(16, chunk_size=50, per_chunk=False, n_anchors=30, random_state=0).fit(data.modalities, data.labels)
    rng = np.random.default_rng(0)
    assert len(model._draw_old(model.stream_, rng)) == 30
    model.set_params(per_chunk=True)
    drawn = model._draw_old(model.stream_, rng)
    assert np.bincount(drawn // 50).tolist() == [30, 30, 30]


@pytest.mark.parametrize(("n_bits", "scale"), [(8, 0.45), (16, 0.35), (24, 0.2915), (64, 0.15), (128, 0.1), (512, 0.1)])
def test_scale_depends_on_the_code_length(n_bits: int, scale: float) -> None:
    assert DOCH(n_bits)._scale() == pytest.approx(scale, abs=1e-4)


def test_init_labels_gives_points_with_equal_labels_one_code() -> None:
    data = small()
    codes = unpack(DOCH(8, init="labels", random_state=0).fit(data.modalities, data.labels).codes_["image"], 8)
    sets = LabelSets.from_labels(data.labels).set_of_point
    assert len(np.unique(np.column_stack([sets, codes]), axis=0)) == len(np.unique(sets))
