"""Algorithm 1 as printed in the paper, and its equivalence with the solver."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh import DLFH
from dlfh._factorization import paper
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import LabelRows, factorize, random_start
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.datasets import make_paired

N_ITERATIONS = 5


@pytest.mark.parametrize("sample_size", [None, 7, 60])
@pytest.mark.parametrize(("n_bits", "scale"), [(1, 1.0), (8, 3.0), (24, 8.0), (67, 11.0)])
def test_solver_and_paper_give_the_same_codes_from_the_same_start_and_samples(
    sample_size: int | None, n_bits: int, scale: float
) -> None:
    indicator = make_paired(120, n_labels=6, random_state=1).labels.toarray()
    labels = LabelSets.from_labels(indicator)
    n = labels.n_points
    S = (indicator @ indicator.T > 0).astype(np.float64)
    start = random_start(n, 2, n_bits, np.random.default_rng(2))
    with Workers(1) as workers:
        learned = factorize(
            LatentFactorModel(n_bits, scale),
            LabelRows.of_points(labels),
            start,
            max_iter=N_ITERATIONS,
            sample_size=sample_size,
            rng=np.random.default_rng(3),
            workers=workers,
        )
    # The solver draws points in the order of their label sets.
    rng, order = np.random.default_rng(3), np.argsort(labels.set_of_point, kind="stable")

    def sample() -> np.ndarray:
        return np.arange(n) if sample_size is None else order[rng.choice(n, sample_size, replace=False)]

    U, V = (unpack(codes, n_bits).astype(np.float64) for codes in start)
    paper.learn(U, V, S, scale, [(sample(), sample()) for _ in range(N_ITERATIONS)])
    for index, expected in enumerate((U, V)):
        np.testing.assert_array_equal(unpack(learned.codes_of_points(index), n_bits), expected)


def test_the_papers_loop_never_decreases_the_objective() -> None:
    rng = np.random.default_rng(0)
    S = (rng.random((40, 40)) < 0.3).astype(np.float64)
    U, V = np.where(rng.random((2, 40, 12)) < 0.5, -1.0, 1.0)
    values = [paper.log_likelihood(U, V, S, 5.0)]
    for _ in range(4):
        paper.update(U, V, S, 5.0)
        values.append(paper.log_likelihood(U, V, S, 5.0))
        paper.update(V, U, S.T, 5.0)
        values.append(paper.log_likelihood(U, V, S, 5.0))
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] > values[0]


def test_dlfh_paper_has_the_settings_of_the_paper() -> None:
    model = DLFH.paper(24, random_state=0)
    assert (model.n_bits, model.scale, model.max_iter, model.sample_size) == (24, 8.0, 30, 24)
    assert (model.init, model.solver, model.ridge, model.fit_intercept) == ("random", "stochastic", 1e-6, False)
    assert DLFH.paper(24, solver="full").solver == "full"
