"""Hash functions and label probabilities, fitted together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, RealTargets, Targets
from dlfh._parallel import Workers
from dlfh._probabilities.fit import LabelFit
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.hashing.base import FitContext, SummedLearner

LEARNERS = [LinearRidge(), LinearRidge(scaling="standard"), KernelRidge(40), KernelRidge(40, scaling="root")]


def problem(n: int = 150, sparse: bool = False) -> tuple[Any, LabelSets, BlockTargets]:
    rng = np.random.default_rng(0)
    labels = (rng.random((n, 5)) < 0.4).astype(np.int8)
    features: Any = (labels @ rng.random((5, 12)) + 0.3 * rng.random((n, 12))).astype(np.float64)
    sets = LabelSets.from_labels(labels, allow_empty=True)
    codes = pack(rng.standard_normal((sets.n_sets, 8)))
    targets = BlockTargets.in_memory(Targets(codes, sets.set_of_point, 8), sets)
    return sp.csr_array(features) if sparse else features, sets, targets


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_hash_function_is_that_of_codes_alone(learner: SummedLearner) -> None:
    features, _, targets = problem()
    with Workers(1) as workers:
        fits = LabelFit(8, FitContext(workers, 0))
        together = fits.fit(learner, in_one_block(features, "x"), targets, "x")
        alone = learner.fit_blocks(in_one_block(features, "x"), targets, "x", FitContext(workers, 0))
        found, expected = (function.project(features, "x", workers) for function in (together, alone))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert fits.model(("x",))() is not None


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_left_out_probabilities_come_from_regressions_without_the_point(learner: SummedLearner) -> None:
    features, sets, targets = problem()
    with Workers(1) as workers:
        fits = LabelFit(8, FitContext(workers, 0))
        fits.fit(learner, in_one_block(features, "x"), targets, "x")
        scores = fits.fitted.functions["x"].scores
        labels = sets.rows().toarray()[sets.set_of_point]
        reference = learner.leave_one_out(scores, features, RealTargets(labels, np.arange(len(labels)), 5))
    assert reference is not None
    expected: Any = fits.fitted.functions["x"].curves(reference)
    np.testing.assert_allclose(fits.fitted.left_out["x"].probabilities, expected, atol=1e-4)


def test_more_features_than_points_have_label_probabilities_too() -> None:
    features, sets, targets = problem(n=60)
    wide = np.hstack([features, np.random.default_rng(1).random((60, 100))])
    with Workers(1) as workers:
        fits = LabelFit(8, FitContext(workers, 0))
        fits.fit(LinearRidge(), in_one_block(wide, "x"), targets, "x")
    labels = sets.rows().toarray()[sets.set_of_point]
    assert ((fits.fitted.left_out["x"].probabilities - labels) ** 2).mean() < labels.var()


def test_sparse_and_dense_features_have_the_same_probabilities() -> None:
    found = []
    for sparse in (False, True):
        features, _, targets = problem(sparse=sparse)
        with Workers(1) as workers:
            fits = LabelFit(8, FitContext(workers, 0))
            fits.fit(LinearRidge(0.1), in_one_block(features, "x"), targets, "x")
        found.append(fits.fitted.left_out["x"].probabilities)
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
