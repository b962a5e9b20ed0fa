"""CMSSH: exact cuts along principal directions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics.centred import Centred
from dlfh.datasets import make_paired
from dlfh.methods.cmssh import CMSSH, best_cut, principal_directions
from tests.strategies import seeds


@given(values=st.lists(st.integers(-4, 4), min_size=1, max_size=12), seed=seeds, spread=st.sampled_from([1.0, 1e-300]))
def test_best_cut_is_the_best_of_all_cuts_between_different_values(values: list[int], seed: int, spread: float) -> None:
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
def test_a_cut_separates_neighbouring_floats(low: float) -> None:
    values = np.array([low, np.nextafter(low, np.inf)])
    offset, value = best_cut(values, np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(values + offset > 0, [False, True])
    assert value == 2


def test_principal_directions_have_unit_variance_and_hold_the_given_share() -> None:
    X = np.random.default_rng(0).standard_normal((500, 6)) * [10, 5, 1, 0.5, 0.1, 0.01]
    centred = Centred(X, "image")
    V = principal_directions(centred.gram / 500, share=0.99)
    assert V.shape == (6, 3)
    np.testing.assert_allclose(np.cov(X @ V, rowvar=False, bias=True), np.eye(3), atol=1e-10)
    assert principal_directions(centred.gram / 500, share=1.0).shape == (6, 6)


def test_points_on_a_line_have_one_principal_direction() -> None:
    X = np.outer(np.arange(10.0), [1, 2, 3])
    assert principal_directions(Centred(X, "image").gram, share=1.0).shape == (3, 1)


def test_agreement_is_above_chance_and_matches_the_first_bit() -> None:
    data = make_paired(n_points=400, random_state=0)
    model = CMSSH(8, random_state=0).fit(data.modalities, data.labels)
    assert (model.agreement_ > 0).all()
    bits = [model.project(name, data.modalities[name])[:, 0] > 0 for name in ("image", "text")]
    similar = (data.labels @ data.labels.T).toarray() > 0
    correct = (bits[0][:, None] == bits[1]) == similar
    # Over all pairs instead of a sample; similar and dissimilar pairs have half of the weight each.
    r = correct[similar].mean() + correct[~similar].mean() - 1
    assert model.agreement_[0] == pytest.approx(r, abs=0.03)


def test_after_a_unit_step_weak_bits_repeat_with_the_opposite_sign() -> None:
    data = make_paired(n_points=1000, noise=4.0, random_state=0)
    bits = {}
    for step in ("unit", "adaptive"):
        model = CMSSH(2, step=step, random_state=0).fit(data.modalities, data.labels)
        projected = [np.sign(model.project(name, data.modalities[name])) for name in ("image", "text")]
        bits[step] = [float((each[:, 0] * each[:, 1]).mean()) for each in projected]
    assert np.prod(bits["unit"]) < -0.5
    assert abs(np.prod(bits["adaptive"])) < 0.2
