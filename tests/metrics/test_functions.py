"""Single measures against independent implementations and brute force."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score

from dlfh import InputError
from dlfh.codes import pack, random_codes, unpack
from dlfh.metrics import (
    average_precisions,
    mean_average_precision,
    ndcg,
    precision_at,
    precision_recall_by_radius,
    precision_recall_by_rank,
    recall_at,
)
from tests.metrics.scenes import scene
from tests.strategies import seeds

METRICS: dict[str, Any] = {
    "map": mean_average_precision,
    "map at 3": lambda *a, **k: mean_average_precision(*a, k=3, **k),
    "map at 3 of possible": lambda *a, **k: mean_average_precision(*a, k=3, normalize="possible", **k),
    "precision at 3": lambda *a, **k: precision_at(*a, k=3, **k),
    "recall at 3": lambda *a, **k: recall_at(*a, k=3, **k),
    "ndcg": ndcg,
    "ndcg at 3": lambda *a, **k: ndcg(*a, k=3, **k),
    "linear ndcg": lambda *a, **k: ndcg(*a, gain="linear", **k),
}


def plain_average_precision(ranked: np.ndarray) -> float:
    """Follow the definition: the mean, over relevant items, of the precision at their rank."""
    precisions = [ranked[: rank + 1].mean() for rank in np.flatnonzero(ranked)]
    return float(np.mean(precisions)) if precisions else 0.0


@given(seeds)
def test_map_follows_its_definition_with_ties_in_database_order(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    expected = []
    for query, labels in zip(unpack(queries, 10).astype(int), query_labels, strict=True):
        order = np.argsort(-(unpack(items, 10) @ query), kind="stable")
        expected.append(plain_average_precision((item_labels @ labels > 0)[order]))
    assert mean_average_precision(queries, items, query_labels, item_labels) == pytest.approx(
        np.mean(expected), abs=1e-12
    )


@given(seeds)
def test_asymmetric_map_without_ties_agrees_with_scikit_learn(seed: int) -> None:
    _, items, query_labels, item_labels = scene(seed, n_bits=24)
    projections = np.random.default_rng(seed).standard_normal((5, 24)).astype(np.float32)
    scores = projections.astype(float) @ unpack(items, 24).T
    expected = [
        average_precision_score(item_labels @ labels > 0, row) if (item_labels @ labels > 0).any() else 0.0
        for labels, row in zip(query_labels, scores, strict=True)
    ]
    value = mean_average_precision(projections, items, query_labels, item_labels)
    assert value == pytest.approx(np.mean(expected), abs=1e-9)


@given(seeds)
def test_asymmetric_ranking_by_the_code_itself_is_hamming_ranking(seed: int) -> None:
    queries, items, *labels = scene(seed)
    as_projections = unpack(queries, 10).astype(np.float32)
    for ties in ("order", "expected"):
        for metric in METRICS.values():
            assert metric(queries, items, *labels, ties=ties) == pytest.approx(
                metric(as_projections, items, *labels, ties=ties), abs=1e-12
            )


@given(seeds)
def test_ndcg_with_averaged_ties_agrees_with_scikit_learn(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    grades = query_labels @ item_labels.T
    scores = unpack(queries, 10).astype(float) @ unpack(items, 10).T
    assert ndcg(queries, items, query_labels, item_labels, ties="expected", gain="linear") == pytest.approx(
        ndcg_score(grades, scores), abs=1e-9
    )
    gains = 2.0**grades - 1
    expected = [dcg_score([g], [s], k=7) / dcg_score([g], [g], k=7) for g, s in zip(gains, scores, strict=True)]
    assert ndcg(queries, items, query_labels, item_labels, ties="expected", k=7) == pytest.approx(
        np.mean(expected), abs=1e-9
    )


@settings(max_examples=25)
@given(seeds, st.sampled_from(sorted(METRICS)), st.booleans())
def test_expected_ties_are_the_mean_over_all_orders_of_the_database(seed: int, name: str, asymmetric: bool) -> None:
    rng = np.random.default_rng(seed)
    items = pack(rng.choice([-1, 1], size=(5, 2)))
    queries: Any = pack(rng.choice([-1, 1], size=(2, 2)))
    if asymmetric:
        queries = np.array([[0.5, 2.0], [1.0, 0.0]], np.float32)
    query_labels, item_labels = rng.integers(0, 2, (2, 3)), rng.integers(0, 2, (5, 3))
    query_labels[0, 0] = item_labels[0, 0] = 1
    metric = METRICS[name]
    orders = [list(order) for order in permutations(range(5))]
    values = [metric(queries, items[order], query_labels, item_labels[order], n_jobs=1) for order in orders]
    expected = metric(queries, items, query_labels, item_labels, ties="expected")
    assert expected == pytest.approx(np.mean(values), abs=1e-10)


@given(seeds, st.sampled_from(sorted(METRICS)))
def test_expected_ties_do_not_depend_on_the_order_of_the_database(seed: int, name: str) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    order = np.random.default_rng(seed).permutation(len(items))
    metric = METRICS[name]
    assert metric(queries, items, query_labels, item_labels, ties="expected") == pytest.approx(
        metric(queries, items[order], query_labels, item_labels[order], ties="expected"), abs=1e-12
    )


@given(seeds, st.sampled_from(sorted(METRICS)), st.sampled_from(["order", "expected"]))
def test_one_mask_in_queries_and_database_changes_nothing(seed: int, name: str, ties: str) -> None:
    queries, items, *labels = scene(seed)
    mask = random_codes(np.random.default_rng(seed), 1, 10)
    metric = METRICS[name]
    assert metric(queries, items, *labels, ties=ties) == metric(queries ^ mask, items ^ mask, *labels, ties=ties)


@given(seeds, st.sampled_from(sorted(METRICS)))
def test_threads_and_blocks_change_nothing(seed: int, name: str) -> None:
    queries, items, *labels = scene(seed)
    metric = METRICS[name]
    assert metric(queries, items, *labels, n_jobs=1) == metric(queries, items, *labels, n_jobs=3)


def test_block_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlfh.metrics import ranking as ranking

    queries, items, *labels = scene(3)
    whole = {name: metric(queries, items, *labels) for name, metric in METRICS.items()}
    monkeypatch.setattr(ranking, "_BLOCK_ITEMS", 1)
    assert whole == {name: metric(queries, items, *labels) for name, metric in METRICS.items()}


@given(seeds, st.sampled_from(["order", "expected"]))
def test_precision_and_recall_follow_their_definition(seed: int, ties: Any) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    relevant = (query_labels @ item_labels.T) > 0
    curve = precision_recall_by_rank(queries, items, query_labels, item_labels, ties=ties, k=range(1, 61))
    np.testing.assert_allclose(curve.precision[-1], relevant.mean())
    np.testing.assert_allclose(curve.recall[-1], relevant.any(axis=1).mean())
    assert np.all(np.diff(curve.recall) >= -1e-12)
    for k in (1, 7, 60):
        assert precision_at(queries, items, query_labels, item_labels, k=k, ties=ties) == pytest.approx(
            curve.precision[k - 1]
        )
        assert recall_at(queries, items, query_labels, item_labels, k=k, ties=ties) == pytest.approx(
            curve.recall[k - 1]
        )


@given(seeds)
def test_precision_recall_by_radius_follows_its_definition(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    relevant = (query_labels @ item_labels.T) > 0
    distances = (10 - unpack(queries, 10).astype(int) @ unpack(items, 10).T) // 2
    curve = precision_recall_by_radius(queries, items, query_labels, item_labels, n_bits=10)
    for radius in range(11):
        within = distances <= radius
        hits = (within & relevant).sum(axis=1)
        np.testing.assert_allclose(curve.precision[radius], np.mean(hits / np.maximum(within.sum(axis=1), 1)))
        np.testing.assert_allclose(curve.recall[radius], np.mean(hits / np.maximum(relevant.sum(axis=1), 1)))


@given(seeds)
def test_relevance_matrix_gives_what_labels_give(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    overlap = query_labels @ item_labels.T
    for name, metric in METRICS.items():
        expected = metric(queries, items, query_labels, item_labels)
        for relevance in (overlap, sp.csr_array(overlap), overlap.astype(float)):
            assert metric(queries, items, relevance=relevance) == pytest.approx(expected), name


@given(seeds)
def test_label_forms_give_the_same_metrics(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    names = "fedcba"
    lists = [[[names[j] for j in np.flatnonzero(row)] for row in each] for each in (query_labels, item_labels)]
    for metric in METRICS.values():
        assert metric(queries, items, query_labels, item_labels) == metric(queries, items, *lists)


def test_queries_without_a_relevant_item_count_as_zero_or_are_skipped() -> None:
    queries, items = pack([[1, 1], [1, 1]]), pack([[1, 1], [1, -1]])
    labels = (["a", "z"], ["a", "b"])
    assert mean_average_precision(queries, items, *labels) == 0.5
    assert mean_average_precision(queries, items, *labels, empty="skip") == 1.0
    np.testing.assert_array_equal(average_precisions(queries, items, *labels), [1.0, np.nan])
    assert ndcg(queries, items, *labels) == 0.5
    assert precision_at(queries, items, *labels, k=2) == 0.25
    assert recall_at(queries, items, *labels, k=2) == 0.5
    assert recall_at(queries, items, *labels, k=2, empty="skip") == 1.0
    with pytest.raises(InputError, match="no query has a relevant item"):
        mean_average_precision(queries, items, ["y", "z"], ["a", "b"], empty="skip")
    assert mean_average_precision(queries, items, ["y", "z"], ["a", "b"]) == 0.0


def test_queries_or_items_without_any_label_are_relevant_to_nothing() -> None:
    queries, items = pack([[1, 1]]), pack([[1, 1], [1, -1]])
    nothing: list[Any] = [[[]], np.zeros((1, 3)), sp.csr_array((1, 3))]
    for none in nothing:
        labels = [["a"], ["b"]] if isinstance(none, list) else np.eye(2, 3)
        assert mean_average_precision(queries, items, none, labels) == 0.0
    assert mean_average_precision(queries, items, [["a"]], [[], []]) == 0.0


def test_the_scale_of_projections_does_not_matter() -> None:
    _, items, *labels = scene(5)
    projections = np.random.default_rng(5).standard_normal((5, 10))
    expected = mean_average_precision(projections, items, *labels)
    for factor in (1e-200, 1e-30, 2.0, 1e30, 1e200):
        assert mean_average_precision(factor * projections, items, *labels) == pytest.approx(expected, abs=1e-6)


def test_extreme_grades() -> None:
    queries, items = pack([[1, 1]]), pack([[1, 1], [1, -1]])
    with pytest.raises(InputError, match='too large for gain="exponential"'):
        ndcg(queries, items, relevance=np.array([[2000.0, 1.0]]))
    assert ndcg(queries, items, relevance=np.array([[1e-17, 0.0]]), gain="linear") == 1.0


def test_two_meanings_of_a_cut_ranking() -> None:
    queries, items = pack([[1, 1, 1]]), pack([[1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1]])
    labels = (["a"], ["a", "b", "a", "a"])
    assert mean_average_precision(queries, items, *labels, k=2) == 1.0
    assert mean_average_precision(queries, items, *labels, k=2, normalize="possible") == 0.5
    assert mean_average_precision(queries, items, *labels) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.zeros((2, 2), np.uint8)}, "queries have codes of 2 bytes but the database has 1"),
        ({"queries": np.zeros((2, 9), np.float32)}, r"projections of shape \(2, 9\), but the database has codes of 1"),
        ({"queries": np.full((2, 8), np.nan)}, "NaN or infinity in row 0"),
        ({"queries": np.zeros((2, 1), np.int64)}, "queries must be packed codes"),
        ({"database": np.zeros((3, 1))}, "database must be packed codes"),
        ({"database": np.zeros((0, 1), np.uint8)}, "nothing to evaluate: 2 queries and 0 database items"),
        ({"query_labels": ["a"]}, "query_labels has 1 rows but there are 2 queries"),
        ({"database_labels": ["a"]}, "database_labels has 1 rows but there are 3 database items"),
        ({"query_labels": None}, "pass query_labels and database_labels, or relevance"),
        ({"relevance": np.ones((2, 3))}, "pass either labels or relevance, not both"),
        ({"ties": "random"}, "ties must be one of 'order', 'expected', got 'random'"),
        ({"empty": "drop"}, "empty must be one of 'zero', 'skip', got 'drop'"),
        ({"k": 0}, "k must be a whole number at least 1, got 0"),
        ({"normalize": "all"}, "normalize must be one of"),
        ({"n_jobs": 0}, "n_jobs must be a whole number from 1 to 1024"),
    ],
)
def test_bad_input_gets_one_clear_sentence(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "queries": np.zeros((2, 1), np.uint8),
        "database": np.zeros((3, 1), np.uint8),
        "query_labels": ["a", "b"],
        "database_labels": ["a", "b", "a"],
    } | change
    with pytest.raises(InputError, match=message):
        mean_average_precision(**arguments)


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        (np.ones((3, 2)), r"relevance must have shape \(2, 3\)"),
        (-np.ones((2, 3)), "finite numbers of at least 0"),
        (np.full((2, 3), np.nan), "finite numbers of at least 0"),
        (np.full((2, 3), "x"), "finite numbers of at least 0"),
    ],
)
def test_bad_relevance(relevance: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mean_average_precision(np.zeros((2, 1), np.uint8), np.zeros((3, 1), np.uint8), relevance=relevance)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_cut_beyond_the_database_is_refused_by_every_function(name: str) -> None:
    queries, items, query_labels, item_labels = scene(0)
    if name in ("map", "ndcg", "linear ndcg"):  # whole rankings: no cut
        METRICS[name](queries, items[:2], query_labels, item_labels[:2])
        return
    with pytest.raises(InputError, match="@3 cuts rankings at k = 3, but the database has only 2 items"):
        METRICS[name](queries, items[:2], query_labels, item_labels[:2])


def test_curves_refuse_cuts_that_are_not_there() -> None:
    with pytest.raises(InputError, match="cuts rankings at k = 61, but the database has only 60 items"):
        precision_recall_by_rank(*scene(0), k=[1, 61])
    with pytest.raises(InputError, match="cuts rankings at k = 61, but the database has only 60 items"):
        recall_at(*scene(0), k=[61])
    with pytest.raises(InputError, match="no k is given"):
        precision_at(*scene(0), k=[])
    with pytest.raises(InputError, match="n_bits must be a whole number at least 1, got 0"):
        precision_recall_by_radius(*scene(0), n_bits=0)
    with pytest.raises(InputError, match="a Hamming radius of 17, but codes have only 16 bits"):
        precision_recall_by_radius(*scene(0), n_bits=17)
