"""Rotations, and quantization by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.rotation import closest_rotation, iterative_quantization, random_rotation, signs, uncorrelated
from dlfh.blocks.base import ArrayBlocks
from tests.strategies import seeds


@given(seeds, st.integers(1, 8))
def test_the_closest_rotation_is_closer_than_any_other(seed: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((c, c))
    best = closest_rotation(M)
    np.testing.assert_allclose(best.T @ best, np.eye(c), atol=1e-9)
    for _ in range(10):
        assert np.trace(best.T @ M) >= np.trace(random_rotation(c, rng).T @ M) - 1e-9


@given(seeds, st.integers(1, 12), st.integers(1, 80))
def test_quantization_errors_never_increase(seed: int, c: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n, c)) * rng.random(c)
    R, errors = iterative_quantization([ArrayBlocks(E, None, "points")], random_rotation(c, rng), 20)
    assert len(errors) == 21
    assert np.all(np.diff(errors) <= 1e-9 * errors[0] + 1e-12)
    np.testing.assert_allclose(R.T @ R, np.eye(c), atol=1e-9)
    assert errors[-1] == pytest.approx(np.sum((signs(E @ R) - E @ R) ** 2))


def test_the_sign_of_zero_is_minus_one_as_in_codes() -> None:
    assert signs(np.array([-2.0, 0.0, 3.0])).tolist() == [-1, -1, 1]


@given(seeds, st.integers(1, 6), st.integers(8, 30), st.booleans())
def test_uncorrelated_columns_keep_their_constraints_and_no_others_are_closer(
    seed: int, c: int, n: int, repeated: bool
) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, c)) * 10.0 ** rng.integers(-3, 9, c)
    if repeated:
        Z[:, -1] = Z[:, 0]  # a direction is missing, and is drawn
    V = uncorrelated(Z, rng=rng)
    np.testing.assert_allclose(V.T @ V / n, np.eye(c), atol=1e-9)
    np.testing.assert_allclose(V.sum(axis=0) / n, 0, atol=1e-9)
    centred = Z - Z.mean(axis=0)
    best = np.sqrt(n) * np.linalg.svd(centred, compute_uv=False).sum()
    assert np.sum(V * Z) == pytest.approx(best, rel=1e-9)
    for _ in range(5):
        assert np.sum(uncorrelated(rng.standard_normal((n, c))) * Z) <= best * (1 + 1e-9)


@given(seeds, st.integers(1, 4), st.integers(6, 12))
def test_uncorrelated_rows_with_weights_are_points_that_are_the_same(seed: int, c: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    Z, weights = rng.standard_normal((n, c)), rng.integers(1, 5, n)
    points = uncorrelated(np.repeat(Z, weights, axis=0))
    np.testing.assert_allclose(np.repeat(uncorrelated(Z, weights.astype(float)), weights, axis=0), points, atol=1e-8)


def test_uncorrelated_columns_are_as_many_as_rows_allow() -> None:
    rng = np.random.default_rng(0)
    V = uncorrelated(rng.standard_normal((4, 9)), rng=rng)
    assert np.linalg.matrix_rank(V) == 3
    np.testing.assert_allclose(V.sum(axis=0), 0, atol=1e-9)
    assert not uncorrelated(np.ones((5, 2))).any()


@given(seeds, st.integers(1, 5), st.lists(st.integers(0, 60), max_size=4))
def test_points_in_blocks_are_rotated_like_one_array(seed: int, c: int, inner: list[int]) -> None:
    rng = np.random.default_rng(seed)
    E, start = rng.standard_normal((100, c)), random_rotation(c, rng)
    blocks = [ArrayBlocks(E[:60], [0, *sorted(inner), 60], "image"), ArrayBlocks(E[60:], [0, 40], "text")]
    (R, errors), (expected, expected_errors) = (
        iterative_quantization(points, start, 5) for points in (blocks, [ArrayBlocks(E, None, "points")])
    )
    np.testing.assert_allclose(R, expected, atol=1e-9)
    np.testing.assert_allclose(errors, expected_errors, atol=1e-9)
