"""Scores of queries and items by their label probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from dlfh._labels import LabelSets
from dlfh._probabilities.scores import (
    MATCHES,
    N_CENTROIDS,
    LabelQuantizer,
    Match,
    label_scores,
    probability_of,
    redundancy_weights,
    score_tables,
)
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


def probabilities(n: int, n_labels: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.beta(0.2, 1.0, (n, n_labels)).astype(np.float32)


@pytest.mark.parametrize(("n_labels", "n_bytes"), [(1, 1), (3, 8), (10, 4), (40, 2)])
def test_tables_score_the_decoded_probabilities(n_labels: int, n_bytes: int) -> None:
    items, queries = probabilities(700, n_labels), probabilities(5, n_labels, 1)
    quantizer = LabelQuantizer.fit(items, 8 * n_bytes, 0)
    codes = quantizer.encode(items)
    assert codes.shape == (700, n_bytes)
    order, items = quantizer.order, quantizer.centroids[:, quantizer.order] ** 2
    tables = score_tables(queries[:, order], items, np.ones(n_labels), "any", quantizer.parts, exclusive=True)
    scores = sum(tables[:, byte, codes[:, byte]] for byte in range(quantizer.n_groups))
    np.testing.assert_allclose(scores, queries @ quantizer.decode(codes).T, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_tables_are_sums_of_terms(match: Match, exclusive: bool) -> None:
    rng = np.random.default_rng(0)
    queries, items, weights = probabilities(9, 60), probabilities(11, 60, 1), rng.uniform(0.3, 1, 60)
    queries[0], queries[1] = 0, queries[1] > 0.5
    queries[2] *= 0.02
    parts = [slice(0, 1), slice(1, 30), slice(30, 60)]
    terms = label_scores(queries, items, weights, match, exclusive=exclusive).astype(np.float64)
    expected = np.stack([terms[:, :, part].sum(axis=2) for part in parts], axis=1)
    found = score_tables(queries, items, weights, match, parts, exclusive=exclusive)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_few_distinct_points_are_stored_exactly() -> None:
    items = (probabilities(900, 6) > 0.3).astype(np.float32)
    quantizer = LabelQuantizer.fit(items, 16, 0)
    np.testing.assert_array_equal(quantizer.decode(quantizer.encode(items)), items)


def test_more_bytes_lose_less() -> None:
    items = probabilities(3000, 24)
    errors = []
    for n_bytes in (1, 4, 12, 24):
        quantizer = LabelQuantizer.fit(items, 8 * n_bytes, 0)
        errors.append(np.abs(quantizer.decode(quantizer.encode(items)) - items).mean())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01


def test_groups_differ_by_one_label_at_most() -> None:
    sizes = np.bincount(LabelQuantizer.fit(probabilities(400, 43), 64, 0).group)
    assert len(sizes) == 8
    assert sizes.max() - sizes.min() <= 1


def test_each_point_has_its_nearest_centroid() -> None:
    items = probabilities(1000, 5)
    quantizer = LabelQuantizer.fit(items, 8, 0)
    distances = np.linalg.norm(np.sqrt(items)[:, None] - quantizer.centroids, axis=2)
    chosen = distances[np.arange(1000), quantizer.encode(items)[:, 0]]
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-3)
    assert quantizer.centroids.shape == (N_CENTROIDS, 5)


@pytest.mark.parametrize("n_bits", [1, 5, 12, 20])
def test_unused_bits_are_zero_as_in_codes(n_bits: int) -> None:
    items = probabilities(700, 10)
    quantizer = LabelQuantizer.fit(items, n_bits, 0)
    codes = quantizer.encode(items)
    assert not np.unpackbits(codes, axis=1)[:, n_bits:].any()
    nearest = LabelQuantizer(8 * codes.shape[1], quantizer.group, quantizer.centroids)  # no bit is unused
    np.testing.assert_array_equal(quantizer.decode(codes), nearest.decode(nearest.encode(items)))
    assert len(np.unique(codes[:, -1])) > 1
