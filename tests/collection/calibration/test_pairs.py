"""Regressions have non-negative weights and recover known coefficients; ties count as half a rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.calibration.model import Fit, Pattern, probability
from dlfh.collection.calibration.pairs import MIN_WORD_WEIGHT, Pairs, fit_logistic, reciprocal_rank

TEXT = ("text",)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.floats(0.02, 0.98))
def test_weights_are_never_negative(seed: int, n_features: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=200) for _ in range(n_features)]
    fit = fit_logistic(features, rng.random(200) < share)
    assert min(fit.weights) >= 0
    assert np.isfinite([*fit.weights, fit.bias]).all()


def test_a_fit_recovers_the_coefficients_and_the_mean_probability() -> None:
    rng = np.random.default_rng(0)
    features = [rng.normal(size=50_000) for _ in range(2)]
    chance = probability(Fit((1.5, 0.5), -1.0).log_odds(features))
    fit = fit_logistic(features, rng.random(50_000) < chance)
    assert (*fit.weights, fit.bias) == pytest.approx((1.5, 0.5, -1.0), abs=0.05)
    assert float(probability(fit.log_odds(features)).mean()) == pytest.approx(float(chance.mean()), abs=0.01)


def test_an_offset_is_a_feature_with_known_weight() -> None:
    rng = np.random.default_rng(0)
    known, other = rng.normal(size=(2, 20_000))
    relevant = rng.random(20_000) < probability(2 * known + other - 1)
    fit = fit_logistic([other], relevant, offset=2 * known)
    assert (*fit.weights, fit.bias) == pytest.approx((1.0, -1.0), abs=0.06)


def test_a_pair_counts_as_often_as_its_weight() -> None:
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=500), rng.integers(0, 4, 500)
    relevant = rng.random(500) < probability(values)
    repeated = fit_logistic([np.repeat(values, counts)], np.repeat(relevant, counts))
    weighted = fit_logistic([values], relevant, weights=counts.astype(float))
    assert (*weighted.weights, weighted.bias) == pytest.approx((*repeated.weights, repeated.bias), abs=1e-6)


def test_fits_to_one_class_and_to_separable_pairs_are_finite() -> None:
    assert np.isfinite(fit_logistic([np.arange(9.0)], np.zeros(9, bool)).bias)
    separable = fit_logistic([np.arange(9.0)], np.arange(9) > 4)
    assert np.isfinite([*separable.weights, separable.bias]).all()


def test_the_minimum_word_weight_holds_and_the_mean_probability_stays() -> None:
    rng = np.random.default_rng(0)
    relevant = rng.random((30, 200)) < 0.3
    similarities, words = relevant - 0.5 + 0.1 * rng.normal(size=relevant.shape), 0.3 * rng.random(relevant.shape)
    pairs = Pairs({"text": similarities}, {TEXT: words * ~relevant}, relevant, np.ones(relevant.shape, bool))
    pattern = Pattern("learned", TEXT, True)
    for weight in (MIN_WORD_WEIGHT, 8.0):
        fit = pairs.fit(pattern, min_word_weight=weight)
        assert fit.weights[-1] == weight  # misleading words get no more than the minimum
        mean = float(probability(pairs.log_odds(pattern, fit)).mean())
        assert mean == pytest.approx(float(relevant.mean()), abs=1e-3)


def test_a_tie_counts_as_half_a_rank() -> None:
    same = np.zeros((3, 3))
    searched = {"hashed": Pairs({"text": same}, {TEXT: same}, np.eye(3, dtype=bool), np.ones((3, 3), bool))}
    assert reciprocal_rank({Pattern("hashed", TEXT, True): Fit((1.0, 1.0), 0.0)}, searched) == pytest.approx(1 / 2)
