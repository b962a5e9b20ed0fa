"""Scores of queries and items by their label probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from dlfh._labels import LabelSets
from dlfh._probabilities.scores import MATCHES, Match, label_scores, probability_of, redundancy_weights
from tests.strategies import seeds


@given(seeds)
def test_scores_are_probabilities_of_independent_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, p = rng.random((2, 3)).astype(np.float32) * 0.98
    shared = has_all = 0.0
    for asked in itertools.product((0, 1), repeat=3):
        for has in itertools.product((0, 1), repeat=3):
            weight = np.prod(np.where(asked, q, 1 - q)) * np.prod(np.where(has, p, 1 - p))
            shared += weight * bool(np.any(np.array(asked) & np.array(has)))
            has_all += weight * bool(np.all(np.array(has) >= np.array(asked)))
    matches: list[tuple[Match, float]] = [("any", shared), ("all", has_all)]
    for match, expected in matches:
        score = label_scores(q[None], p[None], np.ones(3), match, exclusive=False).sum(axis=2)
        np.testing.assert_allclose(probability_of(score, match, exclusive=False), expected, rtol=1e-4)


@given(seeds)
def test_exclusive_labels_match_if_they_are_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, p = (row / row.sum() for row in rng.random((2, 4)).astype(np.float32))
    for match in MATCHES:
        score = label_scores(q[None], p[None], np.ones(4), match, exclusive=True).sum(axis=2)
        np.testing.assert_allclose(probability_of(score, match, exclusive=True), q @ p, rtol=1e-5)


@pytest.mark.parametrize("match", MATCHES)
def test_more_probable_labels_never_lower_a_score(match: Match) -> None:
    rng = np.random.default_rng(0)
    q, p = rng.random((2, 1, 5)).astype(np.float32)
    more = np.minimum(p + rng.random(p.shape).astype(np.float32), 1)
    before, after = (label_scores(q, each, np.ones(5), match, exclusive=False).sum() for each in (p, more))
    assert after >= before


@given(seeds)
def test_the_lift_of_all_keeps_scores_below_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, p = rng.random((2, 6, 4)).astype(np.float32)
    terms = label_scores(q, p, rng.random(4), "all", exclusive=False, prior=rng.random(4), lift=3 * rng.random())
    assert (terms <= 0).all()


def test_the_lift_prefers_labels_that_the_query_has_more_than_other_points() -> None:
    q, p = np.array([[0.3, 0.3]], np.float32), np.array([[0.6, 0], [0, 0.6]], np.float32)
    for match in MATCHES:
        for exclusive in (False, True):
            frequent, rare = label_scores(
                q, p, np.ones(2), match, exclusive=exclusive, prior=np.array([0.5, 0.1]), lift=1.0
            ).sum(axis=2)[0]
            assert rare > frequent


def test_a_label_under_three_names_counts_once() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 4000)) < 0.3
    labels = np.stack([one, one, one, other], axis=1).astype(np.int8)
    weights = redundancy_weights(LabelSets.from_labels(labels))
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 1], atol=0.02)


@given(seeds)
def test_redundancy_weights_are_those_of_the_correlation_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = (rng.random((60, 6)) < rng.random(6)).astype(np.int8)
    labels[0], labels[1] = 0, 1
    correlation = np.corrcoef(labels.T)
    expected = 1 / (correlation**2).sum(axis=1)
    np.testing.assert_allclose(redundancy_weights(LabelSets.from_labels(labels)), expected, rtol=1e-6)
