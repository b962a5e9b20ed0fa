"""CRH: differences of convex functions, and rounds that never increase the objective."""

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
    """Return the problem of one bit for a few points, with a non-trivial whitening."""
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
def test_tau_is_the_difference_of_its_convex_parts(tau: Tau, d: float) -> None:
    d_ = np.array([d])
    np.testing.assert_allclose(tau(d_), tau.convex(d_)[0] - tau.subtracted(d_), rtol=1e-12, atol=1e-12)


@given(tau=taus)
def test_tau_decreases_continuously_from_its_maximum_to_zero_at_the_margin(tau: Tau) -> None:
    d = np.linspace(0, 2 * tau.margin, 4001)
    values = tau(d)
    step = d[1]
    assert values[0] == pytest.approx(tau.shape * tau.bend**2 / 2)
    assert (np.diff(values) <= 1e-12).all()
    assert np.abs(np.diff(values)).max() <= tau.margin * step  # the slope is steepest at the bend
    assert (values[d >= tau.margin] == 0).all()
    np.testing.assert_array_equal(tau(-d), values)


@given(tau=taus)
def test_the_convex_part_of_tau_is_convex_with_the_stated_slope(tau: Tau) -> None:
    d = np.linspace(-2 * tau.margin, 2 * tau.margin, 2001)
    values, slopes = tau.convex(d)
    assert (np.diff(slopes) >= -1e-12).all()
    # The slope is continuous and piecewise linear: the trapezoidal rule is exact except at a few corners.
    integral = values[0] + np.concatenate([[0], np.cumsum((slopes[1:] + slopes[:-1]) / 2 * np.diff(d))])
    np.testing.assert_allclose(integral, values, atol=20 * (d[1] - d[0]) ** 2)


@given(seed=seeds, m=st.sampled_from([0, 1]))
def test_gradient_of_the_surrogate_matches_finite_differences(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    surrogate = problem.surrogate(random_weights(rng), m)
    u = random_weights(rng)[m]
    # A small step and a tolerance, since a random point may be close to a kink.
    slope = scipy.optimize.approx_fprime(u, lambda v: surrogate(v)[0], 1e-7)
    np.testing.assert_allclose(surrogate(u)[1], slope, rtol=1e-4, atol=1e-4)


@given(seed=seeds, m=st.sampled_from([0, 1]))
def test_the_surrogate_is_a_tight_upper_bound_of_the_objective(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    weights = random_weights(rng)
    surrogate = problem.surrogate(weights, m)
    gap = surrogate(weights[m])[0] - problem.objective(weights)
    for length in (0.0, 0.1, 1.0, 10.0):
        moved = list(weights)
        moved[m] = weights[m] + length * random_weights(rng)[m]
        # The gap is the part of the objective that depends on the other modality only; it must not shrink.
        assert surrogate(moved[m])[0] - problem.objective(moved) >= gap - 1e-9


@given(seed=seeds, gamma=st.sampled_from([0.1, 5.0, 1000.0]))
def test_rounds_never_increase_the_objective(seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, gamma)
    weights, objective = problem.descend(random_weights(rng), max_iter=6, tol=0.0)
    assert objective.shape == (7,)
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(objective))
    assert objective[-1] < objective[0]
    assert problem.objective(weights) == objective[-1]


def test_a_fit_records_an_objective_that_never_increases() -> None:
    data = make_paired(n_points=300, random_state=0)
    model = CRH(5, max_iter=4, n_pairs=2000, random_state=0).fit(data.modalities, data.labels)
    assert model.objective_.shape == (5, 5)
    assert (np.diff(model.objective_, axis=1) <= 1e-9).all()
    assert (model.objective_[:, -1] < model.objective_[:, 0]).all()


def test_more_restarts_are_never_worse_for_the_first_bit() -> None:
    data = make_paired(n_points=300, random_state=0)
    models = [CRH(1, n_restarts=n, n_pairs=2000, random_state=0).fit(data.modalities, data.labels) for n in (1, 2, 6)]
    one, two, six = (model.objective_[0, -1] for model in models)
    assert one >= two >= six


def test_codes_do_not_depend_on_the_scale_of_a_modality() -> None:
    data = make_paired(n_points=200, random_state=0)
    model = CRH(4, n_pairs=2000, random_state=0)
    codes = [
        model.fit(data.modalities | {"image": scale * data.modalities["image"]}, data.labels).codes_
        for scale in (1, 1e-3, 1e4)
    ]
    for scaled in codes[1:]:
        for name in ("image", "text"):
            assert (np.unpackbits(scaled[name]) == np.unpackbits(codes[0][name])).mean() > 0.99


@pytest.mark.parametrize("shape", [1, 0.5])
def test_shape_must_be_above_one(shape: float) -> None:
    data = make_paired(n_points=50, random_state=0)
    with pytest.raises(ValueError, match="shape must be greater than 1"):
        CRH(4, shape=shape).fit(data.modalities, data.labels)
