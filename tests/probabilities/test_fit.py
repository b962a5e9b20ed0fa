"""Hash functions and label probabilities, fitted together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.special import expit

from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, RealTargets, Targets
from dlfh._parallel import Workers
from dlfh._probabilities.fit import (
    LabelFit,
    LeftOut,
    by_centroid,
    fit_label_curves,
    fit_match_curve,
    matching,
    sample_pairs,
    sum_tables,
)
from dlfh._probabilities.model import LabelCurves, MatchCurves
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.hashing.base import FitContext, SummedLearner
from tests.strategies import seeds

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
        fits.fitted.calibrate()
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
        fits.fitted.calibrate()
    labels = sets.rows().toarray()[sets.set_of_point]
    assert ((fits.fitted.left_out["x"].probabilities - labels) ** 2).mean() < labels.var()


def test_sparse_and_dense_features_have_the_same_probabilities() -> None:
    found = []
    for sparse in (False, True):
        features, _, targets = problem(sparse=sparse)
        with Workers(1) as workers:
            fits = LabelFit(8, FitContext(workers, 0))
            fits.fit(LinearRidge(0.1), in_one_block(features, "x"), targets, "x")
            fits.fitted.calibrate()
        found.append(fits.fitted.left_out["x"].probabilities)
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


def fitted(seed: int, n: int, shares: np.ndarray) -> tuple[LabelCurves, np.ndarray, np.ndarray, np.ndarray]:
    """Return curves fitted to labels drawn from known log-odds, and scores, true probabilities and labels."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, len(shares))).astype(np.float32)
    truth = expit(2.5 * scores + np.log(shares / (1 - shares)))
    labels = rng.random(truth.shape) < truth
    with Workers(1) as workers:
        curves = fit_label_curves(scores, sp.csr_array(labels.astype(float)), workers)
    return curves, scores, truth, labels


def test_probabilities_are_those_that_the_labels_were_drawn_with() -> None:
    curves, scores, truth, _ = fitted(0, 6000, np.array([0.05, 0.2, 0.5]))
    assert np.abs(curves(scores) - truth).max() < 0.06


def test_rare_labels_take_their_slope_from_frequent_ones() -> None:
    curves, scores, _, labels = fitted(1, 3000, np.array([0.2] * 6 + [0.0004] * 6))
    assert 0 < labels[:, 6:].sum(axis=0).min() <= labels[:, 6:].sum(axis=0).max() < 40
    np.testing.assert_allclose(curves.slope, 2.5, rtol=0.35)
    prior = labels.mean(axis=0)
    log_losses = [-np.where(labels, np.log(p), np.log1p(-p))[:, 6:].sum() for p in (curves(scores), prior)]
    assert log_losses[0] < 0.8 * log_losses[1]


def test_the_mean_probability_of_a_label_that_scores_separate_is_its_share() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random((4000, 4)) < np.array([0.01, 0.2, 0.2, 0.2])
    scores = rng.standard_normal(labels.shape) + labels
    has, scores[:, 0] = labels[:, 0], rng.standard_normal(4000) / 20
    scores[has, 0] = np.linspace(0.33, 0.97, has.sum())
    scores[np.argmin(has), 0] = 0.325
    with Workers(1) as workers:
        curves = fit_label_curves(scores.astype(np.float32), sp.csr_array(labels.astype(float)), workers)
    np.testing.assert_allclose(curves(scores).mean(axis=0), labels.mean(axis=0), rtol=0.02)


def test_labels_without_points_and_constant_scores_have_their_prior() -> None:
    scores = np.zeros((50, 3), np.float32)
    scores[:, 2] = np.linspace(-1, 1, 50)
    labels = np.zeros((50, 3))
    labels[:10, 0] = 1
    with Workers(1) as workers:
        curves = fit_label_curves(scores, sp.csr_array(labels), workers)
    np.testing.assert_allclose(curves(scores)[:, 0], 0.2, rtol=1e-6)
    assert not curves(scores)[:, 1:].any()


def test_exclusive_labels_have_probabilities_that_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 500)
    labels = np.eye(4)[classes]
    with Workers(1) as workers:
        curves = fit_label_curves(
            (labels + rng.standard_normal(labels.shape)).astype(np.float32), sp.csr_array(labels), workers
        )
    assert curves.exclusive
    np.testing.assert_allclose(curves(labels).sum(axis=1), 1, rtol=1e-5)


def test_number_of_threads_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((400, 300)).astype(np.float32)
    labels = sp.csr_array((scores + rng.standard_normal(scores.shape) > 1).astype(float))
    found = []
    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            found.append(fit_label_curves(scores, labels, workers)(scores))
    np.testing.assert_array_equal(found[0], found[1])


def curve_of(parameters: np.ndarray) -> MatchCurves:
    return MatchCurves(((),), np.broadcast_to(parameters, (2, 1, 1, len(parameters))))


def test_probabilities_are_those_that_matches_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    queries = rng.random((400, 5)).astype(np.float32)
    scores = (rng.gamma(1, 1, (400, 300)) + queries.max(axis=1)[:, None]).astype(np.float32)
    truth = 1 / (1 + np.exp(3 - 2 * np.log(scores) - queries.sum(axis=1)[:, None]))
    happened = rng.random(truth.shape) < truth
    found = curve_of(fit_match_curve(scores, queries, happened, 0))(scores, queries, "any", (), ())
    assert np.abs(found - truth).mean() < 0.03
    first = np.argsort(-scores, axis=1)[:, :10]
    assert abs(np.take_along_axis(found - truth, first, axis=1).mean()) < 0.02


@given(seeds)
def test_a_higher_score_is_never_less_probable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 20, 2)
    scores = rng.integers(0, 4, (n, k)).astype(np.float32)  # with many ties
    queries = rng.random((n, 3)).astype(np.float32)
    curve = curve_of(fit_match_curve(scores, queries, rng.random((n, k)) < 0.3, 0))
    found = curve(np.linspace(-1, 5, 50)[None].repeat(n, axis=0), queries, "all", (), ())
    assert (np.diff(found, axis=1) >= -1e-12).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_matches_are_shared_labels_or_all_labels() -> None:
    queries, items = np.array([[1, 1, 0]], bool), np.array([[1, 0, 0], [1, 1, 1], [0, 0, 1]], bool)
    assert matching(queries, items.T, "any").tolist() == [[True, True, False]]
    assert matching(queries, items.T, "all").tolist() == [[False, True, False]]


def test_scores_are_sums_over_bytes() -> None:
    rng = np.random.default_rng(0)
    tables, codes = rng.random((2, 3, 256)).astype(np.float32), rng.integers(0, 256, (4, 3)).astype(np.uint8)
    expected = [[sum(table[byte, item[byte]] for byte in range(3)) for item in codes] for table in tables]
    np.testing.assert_allclose(sum_tables(by_centroid(tables), codes), expected, rtol=1e-6)


def test_no_point_is_both_query_and_item_from_any_source() -> None:
    points = {("a",): np.arange(0, 90, 2), ("b",): np.arange(30, 90), (): np.arange(90)}
    left_out = {
        source: LeftOut(each, np.zeros((len(each), 2), np.float32), np.zeros((len(each), 2), bool))
        for source, each in points.items()
    }
    queries, items = sample_pairs(left_out, 0)
    asked, stored = (np.concatenate([each.points for each in parts.values()]) for parts in (queries, items))
    assert not np.intersect1d(asked, stored).size
    assert all(len(queries[source].points) > 5 for source in points)
    assert all(len(items[source].points) > 15 for source in points)
