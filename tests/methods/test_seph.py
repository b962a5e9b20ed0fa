"""SePH: the divergence and its gradient, over points and label sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._mathematics.rotation import signs
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.methods import SePH
from dlfh.methods import seph as seph_module
from dlfh.methods.seph import Divergence, descend
from tests.methods.small_data import small
from tests.strategies import Problem, problems


@settings(max_examples=20)
@given(problems(max_points=25), st.integers(1, 6))
def test_objective_and_gradient_equal_the_dense_formulas(problem: Problem, n_bits: int) -> None:
    L = problem.indicator / np.sqrt(np.maximum(problem.indicator.sum(axis=1), 1))[:, None]
    n, H = len(L), problem.rng.standard_normal((len(L), n_bits))
    P = L @ L.T
    np.fill_diagonal(P, 0)
    with Workers(1) as workers:
        if P.sum() == 0:
            with pytest.raises(InputError, match="no two points do"):
                Divergence(LabelRows.of_points(problem.labels), 0.5, workers)
            return
        divergence = Divergence(LabelRows.of_points(problem.labels), 0.5, workers)
        value, gradient = divergence(H)
    P /= P.sum()

    def objective(H: np.ndarray) -> float:
        Q = 1 / (1 + np.sum((H[:, None] - H) ** 2, axis=2) / 4)
        np.fill_diagonal(Q, 0)
        Q /= Q.sum()
        inside = P > 0
        return float(
            np.sum(P[inside] * np.log(P[inside] / Q[inside])) + 0.5 / (n * n_bits) * np.sum((np.abs(H) - 1) ** 2)
        )

    assert value == pytest.approx(objective(H), rel=1e-4, abs=1e-5)
    i, k, h = int(problem.rng.integers(n)), int(problem.rng.integers(n_bits)), 1e-5
    up, down = H.copy(), H.copy()
    up[i, k] += h
    down[i, k] -= h
    assert gradient[i, k] == pytest.approx((objective(up) - objective(down)) / (2 * h), abs=1e-4)


@given(problems(max_points=40))
def test_label_sets_and_points_with_equal_starts_give_the_same_objective(problem: Problem) -> None:
    sets, points = LabelRows.of_label_sets(problem.labels), LabelRows.of_points(problem.labels)
    H = problem.rng.standard_normal((len(sets), 5))
    with Workers(1) as workers:
        try:
            over_sets = Divergence(sets, 0.01, workers)
        except InputError:
            return
        value, gradient = over_sets(H)
        expected, by_point = Divergence(points, 0.01, workers)(H[sets.row_of_point])
    assert value == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(gradient[sets.row_of_point], by_point, atol=1e-5)


def test_objective_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = LabelSets.from_labels(small(3).labels)
    rows, H = LabelRows.of_points(labels), np.random.default_rng(0).standard_normal((150, 6))
    with Workers(2) as workers:
        value, gradient = Divergence(rows, 0.01, workers)(H)
        monkeypatch.setattr(seph_module, "_BLOCK_BYTES", 150 * 8 * 7)  # seven rows at a time
        blocked, same = Divergence(rows, 0.01, workers)(H)
    assert value == pytest.approx(blocked, rel=1e-6)
    np.testing.assert_allclose(gradient, same, atol=1e-7)


def test_descent_returns_the_lowest_objective() -> None:
    labels = LabelSets.from_labels(small(3).labels)
    with Workers(1) as workers:
        divergence = Divergence(LabelRows.of_label_sets(labels), 0.01, workers)
        start = 1e-4 * np.random.default_rng(0).standard_normal((labels.n_sets, 8))
        H, history = descend(divergence, start, 500.0, 60)
        assert divergence(H)[0] == pytest.approx(min(history), rel=1e-6)
    assert min(history) < history[0] - 0.1


def test_unified_code_follows_the_authors_rule() -> None:
    data = small()
    model = SePH(10, n_bases=40, random_state=0).fit(data.modalities, data.labels)
    p = [(model.project(name, data.modalities[name]).astype(np.float64) + 1) / 2 for name in ("image", "text")]
    prior = (unpack(model.codes_["image"], 10) > 0).mean(axis=0)
    varying = (prior > 0) & (prior < 1)
    rule = p[0] * p[1] / prior - (1 - p[0]) * (1 - p[1]) / (1 - prior) if varying.all() else None
    assert rule is not None
    assert np.mean(unpack(model.encode_unified(data.modalities), 10) == signs(rule)) > 0.999
