"""Rotations, and quantization by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.mathematics._rotation import closest_rotation, iterative_quantization, random_rotation, signs
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
