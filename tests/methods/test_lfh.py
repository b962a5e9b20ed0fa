"""LFH: monotone row updates, and one code for any number of modalities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from dlfh import InputError, load
from dlfh._labels import LabelSets
from dlfh.datasets import Paired, make_paired
from dlfh.methods import LFH
from dlfh.methods.lfh import Factors
from tests.strategies import seeds


@st.composite
def models(draw: st.DrawFn) -> tuple[Factors, np.ndarray]:
    """Return random factors of points with random labels, and S with a zero diagonal."""
    rng = np.random.default_rng(draw(seeds))
    n_points, n_labels, n_bits = draw(st.integers(2, 40)), draw(st.integers(1, 8)), draw(st.integers(1, 12))
    indicator = (rng.random((n_points, n_labels)) < draw(st.floats(0.02, 0.9))).astype(np.int8)
    indicator[rng.integers(n_points), rng.integers(n_labels)] = 1
    U = draw(st.sampled_from([1e-3, 1.0, 20.0])) * rng.standard_normal((n_points, n_bits))
    beta = 10.0 ** draw(st.floats(-2, 4))
    S = (indicator @ indicator.T > 0) & ~np.eye(n_points, dtype=bool)
    return Factors(LabelSets.from_labels(indicator), U, beta), S


def terms(S: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of each pair of different points, as in the paper."""
    Theta = U @ U.T / 2
    return np.where(np.eye(len(U)), 0, S * Theta - np.logaddexp(0, Theta))


def objective(factors: Factors, S: np.ndarray, U: np.ndarray | None = None) -> float:
    U = factors.U if U is None else U
    return float(terms(S, U).sum() - (U**2).sum() / (2 * factors.beta))


def assert_not_lower(after: float, before: float, message: str = "") -> None:
    assert after >= before - 1e-9 * abs(before), message


@given(models())
def test_the_objective_follows_its_definition(model: tuple[Factors, np.ndarray]) -> None:
    factors, S = model
    everyone = np.arange(len(factors.U))
    assert factors.log_posterior(everyone) == pytest.approx(objective(factors, S), rel=1e-9)
    # Estimates from single points are right on average.
    estimates = [factors.log_posterior(everyone[i : i + 1]) for i in everyone]
    assert np.mean(estimates) == pytest.approx(objective(factors, S), rel=1e-9)
    assert factors.log_posterior(everyone, dtype=np.float32) == pytest.approx(objective(factors, S), rel=1e-4, abs=1e-4)
    # Estimate from the pairs with every second point.
    prior = (factors.U**2).sum() / (2 * factors.beta)
    seen = terms(S, factors.U)[:, ::2]
    assert factors.log_posterior(everyone, step=2) == pytest.approx(len(everyone) / seen.shape[1] * seen.sum() - prior)


@given(models(), st.data())
def test_gradient_matches_finite_differences(model: tuple[Factors, np.ndarray], data: st.DataObject) -> None:
    factors, S = model
    factors.U /= max(1.0, np.abs(factors.U).max())  # finite differences of steep functions are inexact
    i = data.draw(st.integers(0, len(factors.U) - 1))

    def of_row(row: np.ndarray) -> float:
        U = factors.U.copy()
        U[i] = row
        return objective(factors, S, U)

    expected = approx_fprime(factors.U[i], of_row, 1e-6)
    scale = 1 + np.abs(expected).max() + abs(of_row(factors.U[i]))
    point = np.array([i])
    np.testing.assert_allclose(factors.gradients(point, factors.similar(point))[0], expected, atol=1e-5 * scale)


@given(models())
def test_no_row_update_decreases_the_objective(model: tuple[Factors, np.ndarray]) -> None:
    factors, S = model
    for i in range(len(factors.U)):
        before, others = objective(factors, S), np.delete(factors.U, i, axis=0)
        factors._update_each(np.array([i]), factors.similar(np.array([i])))
        assert_not_lower(objective(factors, S), before, f"row {i}")
        np.testing.assert_array_equal(np.delete(factors.U, i, axis=0), others)


@given(models())
def test_no_full_sweep_decreases_the_objective(model: tuple[Factors, np.ndarray]) -> None:
    factors, S = model
    for _ in range(3):
        before = objective(factors, S)
        factors.sweep()
        assert_not_lower(objective(factors, S), before)


@given(models(), st.data())
def test_no_stochastic_sweep_decreases_the_objective_of_its_pairs(
    model: tuple[Factors, np.ndarray], data: st.DataObject
) -> None:
    factors, S = model
    n = len(factors.U)
    sample = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)))
    seen = np.isin(np.arange(n), sample)

    def observed() -> float:
        pairs = terms(S, factors.U)[seen[:, None] | seen]
        return float(pairs.sum() - (factors.U**2).sum() / (2 * factors.beta))

    before = observed()
    factors.sample_sweep(sample)
    assert_not_lower(observed(), before)


@given(models())
def test_a_sample_of_all_points_is_a_full_sweep(model: tuple[Factors, np.ndarray]) -> None:
    factors, _ = model
    other = Factors(factors.labels, factors.U.copy(), factors.beta)
    factors.sweep()
    other.sample_sweep(np.arange(len(other.U)))
    np.testing.assert_array_equal(factors.U, other.U)


@pytest.fixture(scope="module")
def data() -> Paired:
    return make_paired(n_points=400, n_labels=6, random_state=0)


def test_full_solver_increases_the_objective_until_convergence(data: Paired) -> None:
    model = LFH(8, solver="full", max_iter=200, tol=0.02, track_objective=True, random_state=0)
    model.fit(data.modalities, data.labels)
    assert (np.diff(model.objective_) >= 0).all()
    assert 1 < model.n_iter_ < 200
    np.testing.assert_allclose(model.changes_, np.diff(model.objective_) / -model.objective_[1:], rtol=1e-9)
    assert model.changes_[-1] < 0.02
    assert (model.changes_[:-1] >= 0.02).all()


@pytest.mark.parametrize("solver", ["full", "stochastic"])
def test_learned_codes_separate_similar_points_from_others(data: Paired, solver: Any) -> None:
    model = LFH(16, solver=solver, random_state=0).fit(data.modalities, data.labels)
    bits = np.unpackbits(model.codes_["image"], axis=1, count=16).astype(int)
    distances = (bits[:, None] != bits).sum(axis=2)
    similar = (data.labels @ data.labels.T).toarray() > 0
    assert distances[similar].mean() + 4 < distances[~similar].mean()


def test_one_modality_is_enough(data: Paired, tmp_path: Path) -> None:
    X = data.modalities["image"]
    model = LFH(12, random_state=0).fit({"image": X}, data.labels)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded, LFH)
    assert loaded.n_iter_ == model.n_iter_ > 0
    np.testing.assert_array_equal(loaded.encode("image", X), model.encode("image", X))
    np.testing.assert_array_equal(loaded.codes_["image"], model.codes_["image"])


def test_codes_do_not_depend_on_the_number_of_modalities(data: Paired) -> None:
    both = LFH(12, random_state=0).fit(data.modalities, data.labels)
    alone = LFH(12, random_state=0).fit({"text": data.modalities["text"]}, data.labels)
    np.testing.assert_array_equal(both.codes_["image"], both.codes_["text"])
    np.testing.assert_array_equal(both.codes_["text"], alone.codes_["text"])
    np.testing.assert_array_equal(
        both.encode("text", data.modalities["text"]), alone.encode("text", data.modalities["text"])
    )


def test_hash_functions_are_ridge_regressions_of_the_factors_or_of_the_codes(data: Paired) -> None:
    X = data.modalities["image"]
    centred = X - X.mean(axis=0)
    learned = {
        kind: LFH(8, ridge=3.0, regress_on=kind, random_state=0).fit({"image": X}, data.labels)
        for kind in ("factors", "codes")
    }
    codes = 2.0 * np.unpackbits(learned["codes"].codes_["image"], axis=1, count=8) - 1
    weights = np.linalg.solve(centred.T @ centred + 3 * np.eye(X.shape[1]), centred.T @ codes)
    np.testing.assert_allclose(learned["codes"].project("image", X), centred @ weights, atol=1e-4)
    # The factors are not stored, but are larger than their signs.
    real = learned["factors"].project("image", X)
    assert np.abs(real).mean() > 1.5 * np.abs(centred @ weights).mean()
    np.testing.assert_array_equal(learned["factors"].codes_["image"], learned["codes"].codes_["image"])


def test_hash_functions_have_an_optional_intercept(data: Paired) -> None:
    plain, shifted = (
        LFH(8, fit_intercept=each, random_state=0).fit(data.modalities, data.labels) for each in (False, True)
    )
    mean = data.modalities["image"].mean(axis=0, keepdims=True)
    np.testing.assert_allclose(plain.project("image", mean), 0, atol=1e-5)
    assert np.abs(shifted.project("image", mean)).max() > 0.01


def test_tracking_the_objective_changes_no_code(data: Paired) -> None:
    watched = LFH(8, track_objective=True, random_state=0).fit(data.modalities, data.labels)
    plain = LFH(8, random_state=0).fit(data.modalities, data.labels)
    assert len(watched.objective_) == watched.n_iter_ + 1
    assert len(plain.objective_) == 0
    np.testing.assert_array_equal(watched.codes_["image"], plain.codes_["image"])


def test_stochastic_solver_refuses_a_sample_larger_than_the_data(data: Paired) -> None:
    with pytest.raises(InputError, match="sample_size is 401 but there are only 400 points"):
        LFH(8, sample_size=401).fit(data.modalities, data.labels)
    LFH(8, sample_size=401, solver="full", max_iter=1).fit(data.modalities, data.labels)
