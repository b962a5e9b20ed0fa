"""Probabilities of matches from scores."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from dlfh._probabilities.matches import LeftOut, MatchCurves, fit_match_curve, matching, sample_pairs, sum_tables
from tests.strategies import seeds


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
    assert matching(queries, items, "any").tolist() == [[True, True, False]]
    assert matching(queries, items, "all").tolist() == [[False, True, False]]


def test_scores_are_sums_over_bytes() -> None:
    rng = np.random.default_rng(0)
    tables, codes = rng.random((2, 3, 256)).astype(np.float32), rng.integers(0, 256, (4, 3)).astype(np.uint8)
    expected = [[sum(table[byte, item[byte]] for byte in range(3)) for item in codes] for table in tables]
    np.testing.assert_allclose(sum_tables(tables, codes), expected, rtol=1e-6)


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
