"""Conjugate gradients find what the Gram matrix gives, on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import DLFH
from dlfh._mathematics import conjugate, ridge
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.codes import pack
from dlfh.hashing import LinearRidge
from dlfh.hashing.base import FitContext
from dlfh.metrics import mean_average_precision
from tests.strategies import seeds


def words(rng: np.random.Generator, n: int, d: int, dtype: Any = np.float64) -> sp.csr_array:
    """Return texts of words of which few are frequent, one is in all texts and one in none."""
    dense = rng.random((n, d)) < 1 / np.arange(1, d + 1)
    dense[:, 0], dense[:, -1] = True, False
    return sp.csr_array((dense * rng.integers(1, 4, (n, d))).astype(dtype))


def solve(features: Any, targets: Targets, ridge: Any, n_jobs: int = 2, scaling: Any = "none") -> Any:
    with Workers(n_jobs) as workers:
        return LinearRidge(ridge, scaling=scaling).fit(features, targets, "text", FitContext(workers, seed=0))


def both_ways(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Return the function by products with the features, and by the matrix."""
    with monkeypatch.context() as patch:
        patch.setattr(ridge, "_LARGEST_MATRIX", 0)
        by_products = solve(*arguments, **options)
    return by_products, solve(*arguments, **options)


@given(
    seeds,
    st.integers(2, 80),
    st.integers(2, 80),
    st.sampled_from([0.5, 10.0, "auto"]),
    st.sampled_from([np.float64, np.float32, np.int8]),
    st.sampled_from(["none", "root", "standard"]),
)
def test_the_weights_are_those_of_the_gram_matrix(
    seed: int, n: int, d: int, ridge: Any, dtype: Any, scaling: str
) -> None:
    rng = np.random.default_rng(seed)
    features = words(rng, n, d, dtype)
    targets = Targets(pack(rng.standard_normal((n, 20)) + 0.5), np.arange(n), 20)
    with pytest.MonkeyPatch.context() as patch:
        ours, expected = both_ways(patch, features, targets, ridge, scaling=scaling)
    assert ours.ridge == pytest.approx(expected.ridge, rel=1e-9)
    largest = np.abs(expected.weights).max() + 1e-30
    np.testing.assert_allclose(ours.weights / largest, expected.weights / largest, atol=5e-5)
    np.testing.assert_allclose(ours.offset, expected.offset, atol=1e-4)


@given(seeds, st.integers(2, 60), st.integers(1, 30))
def test_a_bit_has_the_same_weights_whatever_the_threads_and_the_other_bits(seed: int, n: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    features, values = words(rng, n, 40), rng.standard_normal((n, n_bits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge, "_LARGEST_MATRIX", 0)
        alone, together = (
            solve(features, Targets(pack(values), np.arange(n), n_bits), 1.0, n_jobs).weights for n_jobs in (1, 3)
        )
        first = solve(features, Targets(pack(values[:, :1]), np.arange(n), 1), 1.0).weights
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_allclose(first[:, 0], together[:, 0], rtol=1e-5, atol=1e-6)


def test_without_a_ridge_repeated_words_converge_to_the_fit_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    once = words(rng, 100, 30)
    features = sp.csr_array(sp.hstack([once, once]))
    targets = Targets(pack(rng.standard_normal((100, 8))), np.arange(100), 8)
    ours, expected = both_ways(monkeypatch, features, targets, 0.0)
    np.testing.assert_allclose(features @ ours.weights, features @ expected.weights, atol=2e-3)


def test_constant_words_and_codes_weigh_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features = sp.csr_array(np.column_stack([np.full(50, 3.0), rng.random(50) < 0.3]))
    values = np.column_stack([np.ones(50), rng.standard_normal(50)])
    ours, _ = both_ways(monkeypatch, features, Targets(pack(values), np.arange(50), 2), 1.0)
    assert ours.weights[0].tolist() == [0, 0]
    assert ours.weights[1, 0] == 0 != ours.weights[1, 1]
    assert ours.intercept[0] == 1


def test_map_is_that_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlfh.datasets import make_paired

    train, test = make_paired(900, n_labels=8, text_features=300, random_state=0).split(test_size=200, random_state=0)

    def score() -> float:
        model = DLFH(32, hash_function="linear", random_state=0).fit(train.modalities, train.labels)
        codes = model.encode("text", test.modalities["text"])
        return mean_average_precision(codes, model.codes_["image"], test.labels, train.labels)

    expected = score()
    monkeypatch.setattr(ridge, "_LARGEST_MATRIX", 16)
    assert score() == pytest.approx(expected, abs=2e-3)


def test_wide_data_has_no_leave_one_out_predictions() -> None:
    rng = np.random.default_rng(0)
    features = words(rng, 30, 20)
    targets = Targets(pack(rng.standard_normal((30, 4))), np.arange(30), 4)
    function = solve(features, targets, 1.0)
    learner = LinearRidge(1.0)
    assert learner.leave_one_out(function, features, targets) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge, "_LARGEST_MATRIX", 10)
        assert learner.leave_one_out(function, features, targets) is None


def test_converged_bits_do_not_change_while_others_continue() -> None:
    """Bits of one group converge at different times; none is spoilt by steps of 0 / 0."""
    rng = np.random.default_rng(1)
    X = sp.csr_array(np.eye(6))
    codes = np.column_stack([np.zeros(6), np.r_[1.0, -1, 0, 0, 0, 0], rng.standard_normal(6)])
    codes -= codes.mean(axis=0)
    squares = np.full(6, 1 - 1 / 6)
    with Workers(2) as workers:
        weights = conjugate._System(X, np.full(6, 1 / 6), 1 / (squares + 0.5), 0.5, workers).solve(codes)
    np.testing.assert_allclose(weights, codes / 1.5, atol=1e-6)
