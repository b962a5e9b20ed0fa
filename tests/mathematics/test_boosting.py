"""Boosting over pairs: weights, steps, and bits that are no better than chance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.boosting import WeightedPairs, adaptive_factor, boost
from dlfh._progress import Bar
from tests.strategies import random_pairs, seeds


@given(seed=seeds)
def test_the_signed_cross_moment_is_the_sum_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng)
    x, y = rng.standard_normal((len(pairs.rows[0]), 4)) + 3, rng.standard_normal((len(pairs.rows[1]), 3)) - 2
    X, Y = x[pairs.index[0]], y[pairs.index[1]]
    C = np.zeros((4, 3))
    for k, w in enumerate(pairs.weights):
        s = 1 if pairs.similar[k] else -1
        C += w * s * np.outer(X[k] - pairs.weights @ X, Y[k] - pairs.weights @ Y)
    for first, second in itertools.product((x, sp.csr_array(x)), (y, sp.csr_array(y))):
        np.testing.assert_allclose(pairs.cross(first, second), C, atol=1e-12)


@given(seed=seeds, n_steps=st.integers(1, 300), factor=st.sampled_from([0.0001, 0.2, 0.9]))
def test_weights_stay_a_distribution(seed: int, n_steps: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng)
    for _ in range(n_steps):
        pairs.reweight(rng.random(len(pairs.similar)) < 0.6, factor)
        assert (pairs.weights >= 0).all()
        assert pairs.weights.sum() == pytest.approx(1)


@given(seed=seeds)
def test_with_the_adaptive_factor_the_bit_just_learned_is_as_good_as_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng)
    correct = rng.random(len(pairs.similar)) < 0.7
    correct[:2] = True, False
    pairs.reweight(correct, adaptive_factor(pairs.error(correct)))
    assert pairs.error(correct) == pytest.approx(1 / 2)


class Scripted:
    """A learner whose bits have the errors that a script says."""

    def __init__(self, script: list[float], number: int) -> None:
        self.pairs = WeightedPairs(np.arange(10), np.arange(10), np.ones(10, bool))
        self.script = script
        self.number = number

    def learn(self) -> tuple[int, Any]:
        error = self.script.pop(0)
        return self.number, np.arange(10) >= round(error * 10)


def test_a_bit_no_better_than_chance_is_learned_again_from_fresh_pairs() -> None:
    script = [0.2, 0.5, 0.9, 0.3, 0.1]
    drawn: list[Scripted] = []

    def draw() -> Scripted:
        drawn.append(Scripted(script, len(drawn)))
        return drawn[-1]

    bits = boost(draw, 3, lambda error: 1.0, Bar().counter("bits", 3))
    assert bits == [0, 2, 2]
    assert len(drawn) == 3


def test_boosting_ends_where_no_bit_is_better_than_chance() -> None:
    assert boost(lambda: Scripted([0.6], 7), 4, adaptive_factor, Bar().counter("bits", 4)) == [7, 7, 7, 7]


def test_a_bit_without_errors_leaves_the_weights_as_they_are() -> None:
    learner = Scripted([0.0, 0.0], 0)
    boost(lambda: learner, 2, adaptive_factor, Bar().counter("bits", 2))
    np.testing.assert_allclose(learner.pairs.weights, 0.1)
