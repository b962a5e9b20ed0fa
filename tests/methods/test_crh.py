"""CRH: differences of convex functions, and rounds that never rise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.correlation import Whitening
from dlfh.datasets import make_paired
from dlfh.methods.crh import CRH, BitProblem, Tau
from tests.strategies import random_pairs, seeds

taus = st.builds(Tau, margin=st.floats(0.1, 5), shape=st.floats(1.1, 10))


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
