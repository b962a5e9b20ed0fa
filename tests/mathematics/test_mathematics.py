"""What methods share: centred features, canonical correlations, rotations, similarities of label sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._labels import LabelSets
from dlfh.hashing import LinearHash
from dlfh.hashing._unit import unit_rows
from dlfh.mathematics._centred import Centred
from dlfh.mathematics._correlation import Whitening, canonical_directions
from dlfh.mathematics._rotation import closest_rotation, iterative_quantization, random_rotation, signs
from tests.strategies import Problem, problems, seeds

DTYPES = [np.float64, np.float32, np.int8, bool]


def features(rng: np.random.Generator, n: int, d: int, dtype: Any, sparse: bool) -> tuple[Any, np.ndarray]:
    """Return a matrix of some type and storage, and the same as doubles."""
    dense = rng.integers(0, 2, (n, d)) if dtype is bool else rng.integers(-100, 100, (n, d))
    dense = dense * (rng.random((n, d)) < 0.5)
    matrix = dense.astype(dtype)
    return sp.csr_array(matrix) if sparse else matrix, dense.astype(np.float64)


@given(seeds, st.integers(2, 40), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_centred_features_multiply_as_a_dense_centred_matrix_does(
    seed: int, n: int, x_type: Any, y_type: Any, x_sparse: bool, y_sparse: bool
) -> None:
    rng = np.random.default_rng(seed)
    (x, X), (y, Y) = features(rng, n, 5, x_type, x_sparse), features(rng, n, 7, y_type, y_sparse)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    a, b = Centred(x, "a"), Centred(y, "b")
    W, Z = rng.standard_normal((5, 3)), rng.standard_normal((n, 4))
    for ours, expected in (
        (a.gram, X.T @ X),
        (a.cross(b), X.T @ Y),
        (b.cross(a), Y.T @ X),
        (a.times(W), X @ W),
        (a.transposed_times(Z), X.T @ Z),
        (a.transposed_times(sp.csr_array(Z)), X.T @ Z),
        (a.dense(), X),
        (np.concatenate([chunk for _, chunk in a.chunks()]), X),
    ):
        np.testing.assert_allclose(ours, expected, atol=1e-7)
    assert a.total_variance == pytest.approx(np.sum(X**2) / n, abs=1e-7)


def test_a_constant_feature_counts_as_nothing_however_large() -> None:
    X = np.column_stack([np.full(50, 1e9 / 3), np.arange(50.0)])
    centred = Centred(X, "image")
    assert centred.gram[0].tolist() == [0, 0]
    function = LinearHash.of_centred(centred, np.array([[1e3], [1.0]]))
    assert function.weights.ravel().tolist() == [0, 1]


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.floats(0, 1))
def test_canonical_directions_solve_the_generalised_eigenproblem(seed: int, dx: int, dy: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((60, dx)), rng.standard_normal((60, dy))
    Y[:, 0] += X[:, 0]
    Cxx, Cyy, Cxy = X.T @ X, Y.T @ Y, X.T @ Y
    found = canonical_directions(Whitening(Cxx, ridge), Whitening(Cyy, ridge), Cxy)
    Cxx, Cyy = Cxx + ridge * np.eye(dx), Cyy + ridge * np.eye(dy)
    squares = scipy.linalg.eigh(Cxy @ np.linalg.inv(Cyy) @ Cxy.T, Cxx, eigvals_only=True)[::-1]
    k = min(dx, dy)
    np.testing.assert_allclose(found.correlations**2, squares[:k], atol=1e-9)
    np.testing.assert_allclose(found.x.T @ Cxx @ found.x, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(found.y.T @ Cyy @ found.y, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(found.x.T @ Cxy @ found.y, np.diag(found.correlations), atol=1e-8)


def test_directions_beyond_the_last_that_correlates_are_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    Y = np.column_stack([X[:, :2], np.zeros(80)])
    directions = canonical_directions(Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6), X.T @ Y).first(9)
    assert directions.x.shape == (4, 9)
    assert np.count_nonzero(directions.correlations) == 2
    assert not directions.x[:, 2:].any()
    assert not directions.y[:, 2:].any()


@given(seeds, st.integers(1, 8))
def test_the_closest_rotation_is_closer_than_any_other(seed: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((c, c))
    best = closest_rotation(M)
    np.testing.assert_allclose(best.T @ best, np.eye(c), atol=1e-9)
    for _ in range(10):
        assert np.trace(best.T @ M) >= np.trace(random_rotation(c, rng).T @ M) - 1e-9


@given(seeds, st.integers(1, 12), st.integers(1, 80))
def test_quantization_errors_never_rise(seed: int, c: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n, c)) * rng.random(c)
    R, errors = iterative_quantization(E, random_rotation(c, rng), 20)
    assert len(errors) == 21
    assert np.all(np.diff(errors) <= 1e-9 * errors[0] + 1e-12)
    np.testing.assert_allclose(R.T @ R, np.eye(c), atol=1e-9)
    assert errors[-1] == pytest.approx(np.sum((signs(E @ R) - E @ R) ** 2))


def test_a_sign_of_zero_is_minus_one_as_in_codes() -> None:
    assert signs(np.array([-2.0, 0.0, 3.0])).tolist() == [-1, -1, 1]


@given(problems(max_points=40))
def test_label_sets_tell_similarities_and_cosines(problem: Problem) -> None:
    L, sets = problem.indicator.astype(np.float64), problem.labels
    points = sets.set_of_point
    np.testing.assert_array_equal(sets.similar(points, points[::2]), (L @ L[::2].T) > 0)
    unit = L / np.sqrt(np.maximum(L.sum(axis=1), 1))[:, None]
    np.testing.assert_allclose(sets.unit_rows()[points].toarray(), unit)


@given(problems(max_points=40))
def test_some_points_have_the_label_sets_they_had(problem: Problem) -> None:
    chosen = problem.rng.permutation(len(problem.indicator))[: problem.rng.integers(1, len(problem.indicator) + 1)]
    taken = problem.labels.take(chosen)
    expected = problem.indicator[chosen].astype(np.float64)
    found = (taken.unit_rows()[taken.set_of_point] > 0).toarray()
    np.testing.assert_array_equal(found, expected > 0)
    np.testing.assert_array_equal(taken.counts, np.bincount(taken.set_of_point))


@given(problems(max_points=40), st.integers(1, 300))
def test_sampled_pairs_are_what_they_are_said_to_be(problem: Problem, n_pairs: int) -> None:
    S = (problem.indicator @ problem.indicator.T) > 0
    off_diagonal = ~np.eye(len(S), dtype=bool)
    first, second, similar = problem.labels.sample_pairs(n_pairs, problem.rng)
    assert np.all(first != second)
    np.testing.assert_array_equal(S[first, second], similar)
    # Where neither kind is rare, there are as many as asked for, half of each kind.
    if 0.05 < S[off_diagonal].mean() < 0.95:
        assert len(first) == n_pairs
        assert similar.sum() == n_pairs // 2


def test_similar_pairs_alone_are_taken_where_all_points_are_similar() -> None:
    first, _, similar = LabelSets.from_labels([[0]] * 9).sample_pairs(40, np.random.default_rng(0))
    assert similar.all()
    assert len(first) == 40
    with pytest.raises(InputError, match="no pair of different points"):
        LabelSets.from_labels([[0]]).sample_pairs(40, np.random.default_rng(0))


@given(seeds, st.booleans(), st.booleans())
def test_unit_rows_have_length_one_and_lose_nothing(seed: int, split: bool, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 4)) * 10.0 ** rng.integers(-150, 150, (10, 1))
    X[3] = 0
    unit = unit_rows(sp.csr_array(X) if sparse else X, split=split)
    dense = unit.toarray() if sparse else unit
    lengths = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 3), 1)
    assert lengths[3] == 0
    if split:
        assert np.all(dense >= 0)
        dense = dense[:, :4] - dense[:, 4:]
    np.testing.assert_allclose(np.sum(dense * X, axis=1), np.linalg.norm(X, axis=1))
