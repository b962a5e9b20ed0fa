"""CMSSH and CRH: exact cuts, differences of convex functions, rounds that never rise, boosting."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from dlfh._progress import Bar
from dlfh.datasets import make_paired
from dlfh.mathematics._boosting import WeightedPairs, adaptive_factor, boost
from dlfh.mathematics._centred import Centred
from dlfh.mathematics._correlation import Whitening
from dlfh.methods._cmssh import CMSSH, best_cut, principal_directions
from dlfh.methods._crh import CRH, BitProblem, Tau
from tests.strategies import seeds

taus = st.builds(Tau, margin=st.floats(0.1, 5), shape=st.floats(1.1, 10))


def random_pairs(rng: np.random.Generator, n_points: int = 12, n_pairs: int = 40) -> WeightedPairs:
    first, second = rng.integers(n_points, size=(2, n_pairs))
    pairs = WeightedPairs(first, second, rng.random(n_pairs) < 0.5)
    pairs.weights = rng.dirichlet(np.ones(n_pairs))
    return pairs


def random_problem(rng: np.random.Generator, gamma: float = 5.0) -> BitProblem:
    """A bit's problem of few points, with a whitening that is not the identity."""
    pairs = random_pairs(rng)
    penalties, points = [], []
    for rows, d in zip(pairs.rows, (4, 3), strict=True):
        X = rng.standard_normal((len(rows), d)) * rng.uniform(0.2, 2, d)
        white = Whitening(X.T @ X / len(X), ridge=0.01)
        points.append(white.whiten(X.T).T)
        penalties.append(0.3 * white.whiten(white.directions(np.eye(d))))
    return BitProblem(pairs, points, penalties, gamma, Tau(1.0, 3.7))


def random_weights(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal(4), rng.standard_normal(3)]


# CMSSH


@given(values=st.lists(st.integers(-4, 4), min_size=1, max_size=12), seed=seeds, spread=st.sampled_from([1.0, 1e-300]))
def test_the_scan_finds_the_best_of_all_cuts_between_different_values(
    values: list[int], seed: int, spread: float
) -> None:
    z = np.array(values) * spread
    gains = np.random.default_rng(seed).standard_normal(len(z))
    offset, value = best_cut(z, gains)
    bits = z + offset > 0
    assert value == pytest.approx(np.where(bits, gains, -gains).sum())
    every_cut = [np.where(z > cut, gains, -gains).sum() for cut in np.unique(z)[:-1]]
    if every_cut:
        assert value == pytest.approx(max(every_cut))
        assert bits.any()
        assert not bits.all()


@given(low=st.floats(-1e3, 1e3))
def test_a_cut_parts_neighbouring_floats(low: float) -> None:
    values = np.array([low, np.nextafter(low, np.inf)])
    offset, value = best_cut(values, np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(values + offset > 0, [False, True])
    assert value == 2


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
    np.testing.assert_allclose(pairs.cross(x, y), C, atol=1e-12)


def test_principal_directions_have_variance_one_and_hold_the_wanted_share() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6)) * [10, 5, 1, 0.5, 0.1, 0.01]
    centred = Centred(X, "image")
    V = principal_directions(centred.gram / 500, share=0.99)
    assert V.shape == (6, 3)
    np.testing.assert_allclose(np.cov(X @ V, rowvar=False, bias=True), np.eye(3), atol=1e-10)
    assert principal_directions(centred.gram / 500, share=1.0).shape == (6, 6)


def test_points_on_a_line_have_one_principal_direction() -> None:
    X = np.outer(np.arange(10.0), [1, 2, 3])
    assert principal_directions(Centred(X, "image").gram, share=1.0).shape == (3, 1)


def test_each_bits_agreement_is_above_chance_and_the_first_ones_is_the_codes() -> None:
    data = make_paired(n_points=400, random_state=0)
    model = CMSSH(8, random_state=0).fit(data.modalities, data.labels)
    assert (model.agreement_ > 0).all()
    bits = [model.project(name, data.modalities[name])[:, 0] > 0 for name in ("image", "text")]
    similar = (data.labels @ data.labels.T).toarray() > 0
    correct = (bits[0][:, None] == bits[1]) == similar
    # Over all pairs instead of a sample, each kind with half of the weight.
    r = correct[similar].mean() + correct[~similar].mean() - 1
    assert model.agreement_[0] == pytest.approx(r, abs=0.03)


def test_after_a_unit_step_weak_bits_come_back_with_the_opposite_sign() -> None:
    data = make_paired(n_points=1000, noise=4.0, random_state=0)
    bits = {}
    for step in ("unit", "adaptive"):
        model = CMSSH(2, step=step, random_state=0).fit(data.modalities, data.labels)  # type: ignore[arg-type]
        projected = [np.sign(model.project(name, data.modalities[name])) for name in ("image", "text")]
        bits[step] = [float((each[:, 0] * each[:, 1]).mean()) for each in projected]
    assert np.prod(bits["unit"]) < -0.5
    assert abs(np.prod(bits["adaptive"])) < 0.2


# CRH


@given(tau=taus, d=st.floats(-20, 20))
def test_tau_is_the_difference_of_its_parts(tau: Tau, d: float) -> None:
    d_ = np.array([d])
    np.testing.assert_allclose(tau(d_), tau.convex(d_)[0] - tau.subtracted(d_), rtol=1e-12, atol=1e-12)


@given(tau=taus)
def test_tau_falls_from_its_peak_to_nothing_at_the_margin_without_a_jump(tau: Tau) -> None:
    d = np.linspace(0, 2 * tau.margin, 4001)
    values = tau(d)
    step = d[1]
    assert values[0] == pytest.approx(tau.shape * tau.bend**2 / 2)
    assert (np.diff(values) <= 1e-12).all()
    assert np.abs(np.diff(values)).max() <= tau.margin * step  # no slope is steeper than the bend's
    assert (values[d >= tau.margin] == 0).all()
    np.testing.assert_array_equal(tau(-d), values)


@given(tau=taus)
def test_the_convex_part_of_tau_is_convex_and_has_the_slope_it_says(tau: Tau) -> None:
    d = np.linspace(-2 * tau.margin, 2 * tau.margin, 2001)
    values, slopes = tau.convex(d)
    assert (np.diff(slopes) >= -1e-12).all()
    # The slope is continuous and piecewise linear, so the trapezium's error is a few corners'.
    integral = values[0] + np.concatenate([[0], np.cumsum((slopes[1:] + slopes[:-1]) / 2 * np.diff(d))])
    np.testing.assert_allclose(integral, values, atol=20 * (d[1] - d[0]) ** 2)


@given(seed=seeds, own=st.sampled_from([0, 1]))
def test_the_surrogates_gradient_is_its_slope(seed: int, own: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    surrogate = problem.surrogate(random_weights(rng), own)
    u = random_weights(rng)[own]
    # Random points are not at a kink, but may be close to one: a small step, and room for a single point's jump.
    slope = scipy.optimize.approx_fprime(u, lambda each: surrogate(each)[0], 1e-7)
    np.testing.assert_allclose(surrogate(u)[1], slope, rtol=1e-4, atol=1e-4)


@given(seed=seeds, own=st.sampled_from([0, 1]))
def test_the_surrogate_lies_above_the_objective_and_touches_it(seed: int, own: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    weights = random_weights(rng)
    surrogate = problem.surrogate(weights, own)
    gap = surrogate(weights[own])[0] - problem.objective(weights)
    for length in (0.0, 0.1, 1.0, 10.0):
        moved = list(weights)
        moved[own] = weights[own] + length * random_weights(rng)[own]
        # The gap is what the objective has of the other modality alone: it must not shrink.
        assert surrogate(moved[own])[0] - problem.objective(moved) >= gap - 1e-9


@given(seed=seeds, gamma=st.sampled_from([0.1, 5.0, 1000.0]))
def test_rounds_never_raise_the_objective(seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, gamma)
    weights, objective = problem.descend(random_weights(rng), max_iter=6, tol=0.0)
    assert objective.shape == (7,)
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(objective))
    assert objective[-1] < objective[0]
    assert problem.objective(weights) == objective[-1]


def test_a_fit_tells_its_objective_and_it_never_rises() -> None:
    data = make_paired(n_points=300, random_state=0)
    model = CRH(5, max_iter=4, random_state=0).fit(data.modalities, data.labels)
    assert model.objective_.shape == (5, 5)
    assert (np.diff(model.objective_, axis=1) <= 1e-9).all()
    assert (model.objective_[:, -1] < model.objective_[:, 0]).all()


def test_more_starts_are_never_worse_for_the_first_bit() -> None:
    data = make_paired(n_points=300, random_state=0)
    last = [CRH(1, n_restarts=n, random_state=0).fit(data.modalities, data.labels).objective_[0, -1] for n in (1, 2, 6)]
    assert last[0] >= last[1] >= last[2]


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_the_scale_of_a_modality_does_not_matter_to_crh(scale: float) -> None:
    data = make_paired(n_points=300, random_state=0)
    scaled = data.modalities | {"image": data.modalities["image"] * scale}
    a = CRH(8, random_state=0).fit(data.modalities, data.labels)
    b = CRH(8, random_state=0).fit(scaled, data.labels)
    for name in ("image", "text"):
        assert (np.unpackbits(a.codes_[name]) == np.unpackbits(b.codes_[name])).mean() > 0.99


@pytest.mark.parametrize("shape", [1, 0.5])
def test_the_shape_must_be_above_one(shape: float) -> None:
    data = make_paired(n_points=50, random_state=0)
    with pytest.raises(ValueError, match="shape must be above 1"):
        CRH(4, shape=shape).fit(data.modalities, data.labels)


# Boosting


@given(seed=seeds, n_steps=st.integers(1, 300), factor=st.sampled_from([0.0001, 0.2, 0.9]))
def test_weights_stay_a_distribution(seed: int, n_steps: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng)
    for _ in range(n_steps):
        pairs.reweight(rng.random(len(pairs)) < 0.6, factor)
        assert (pairs.weights >= 0).all()
        assert pairs.weights.sum() == pytest.approx(1)


@given(seed=seeds)
def test_with_the_adaptive_factor_the_bit_just_learned_is_as_good_as_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng)
    correct = rng.random(len(pairs)) < 0.7
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
    script, drawn = [0.2, 0.5, 0.9, 0.3, 0.1], []

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
