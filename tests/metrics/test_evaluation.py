"""`evaluate` against independent implementations, brute force and laws."""

from __future__ import annotations

from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score

from dlfh import InputError, _kernels
from dlfh.codes import pack, random_codes, unpack
from dlfh.metrics import evaluate, mean_average_precision, ranking
from dlfh.metrics.evaluation import Evaluation
from dlfh.metrics.measures import AP, PR, PRH, P, R, nDCG
from tests.metrics.scenes import scene
from tests.strategies import seeds

NUMBERS = [AP, AP @ 3, AP(normalize="possible") @ 3, P @ 3, R @ 3, nDCG, nDCG @ 3, nDCG(gain="linear")]
CURVES = [PR, PR(ranks=(9, 2)), PRH @ 10]
either_ties = st.sampled_from(["order", "expected"])


def values(*arguments: Any, measures: Any = NUMBERS, **options: Any) -> np.ndarray:
    """Return the means of measures that are single numbers."""
    result = evaluate(*arguments, measures=measures, **options)
    return np.array([result[each] for each in measures])


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
    found = mean_average_precision(queries, items, query_labels, item_labels)
    assert found == pytest.approx(np.mean(expected), abs=1e-12)
    assert found == evaluate(queries, items, query_labels, item_labels)["AP"]


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


@given(seeds, either_ties)
def test_asymmetric_ranking_by_the_code_itself_is_hamming_ranking(seed: int, ties: Any) -> None:
    queries, items, *labels = scene(seed)
    as_projections = unpack(queries, 10).astype(np.float32)
    hamming, asymmetric = (values(each, items, *labels, ties=ties) for each in (queries, as_projections))
    assert hamming == pytest.approx(asymmetric, abs=1e-12)


@given(seeds)
def test_ndcg_with_expected_ties_agrees_with_scikit_learn(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    grades = query_labels @ item_labels.T
    scores = unpack(queries, 10).astype(float) @ unpack(items, 10).T
    gains = 2.0**grades - 1
    cut = [dcg_score([g], [s], k=7) / dcg_score([g], [g], k=7) for g, s in zip(gains, scores, strict=True)]
    found = evaluate(
        queries, items, query_labels, item_labels, measures=['nDCG(gain="linear")', "nDCG@7"], ties="expected"
    )
    assert found['nDCG(gain="linear")'] == pytest.approx(ndcg_score(grades, scores), abs=1e-9)
    assert found["nDCG@7"] == pytest.approx(np.mean(cut), abs=1e-9)


@settings(max_examples=25)
@given(seeds, st.booleans())
def test_expected_ties_are_the_mean_over_all_orders_of_the_database(seed: int, asymmetric: bool) -> None:
    rng = np.random.default_rng(seed)
    items = pack(rng.choice([-1, 1], size=(4, 2)))
    queries: Any = pack(rng.choice([-1, 1], size=(2, 2)))
    if asymmetric:
        queries = np.array([[0.5, 2.0], [1.0, 0.0]], np.float32)
    query_labels, item_labels = rng.integers(0, 2, (2, 3)), rng.integers(0, 2, (4, 3))
    query_labels[0, 0] = item_labels[0, 0] = 1
    orders = [list(order) for order in permutations(range(4))]
    by_order = [values(queries, items[order], query_labels, item_labels[order], n_jobs=1) for order in orders]
    expected = values(queries, items, query_labels, item_labels, ties="expected")
    assert expected == pytest.approx(np.mean(by_order, axis=0), abs=1e-10)


@given(seeds)
def test_expected_ties_do_not_depend_on_the_order_of_the_database(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    order = np.random.default_rng(seed).permutation(len(items))
    assert values(queries, items, query_labels, item_labels, ties="expected") == pytest.approx(
        values(queries, items[order], query_labels, item_labels[order], ties="expected"), abs=1e-12
    )


@given(seeds, either_ties)
def test_xor_with_one_mask_changes_nothing(seed: int, ties: Any) -> None:
    queries, items, *labels = scene(seed)
    mask = random_codes(np.random.default_rng(seed), 1, 10)
    np.testing.assert_array_equal(
        values(queries, items, *labels, ties=ties), values(queries ^ mask, items ^ mask, *labels, ties=ties)
    )


@given(seeds)
def test_threads_change_nothing(seed: int) -> None:
    queries, items, *labels = scene(seed)
    np.testing.assert_array_equal(values(queries, items, *labels, n_jobs=1), values(queries, items, *labels, n_jobs=3))


def test_batch_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, items, *labels = scene(3)
    whole = values(queries, items, *labels)
    monkeypatch.setattr(ranking, "_BATCH_ITEMS", 1)
    np.testing.assert_array_equal(values(queries, items, *labels), whole)


@given(seeds, either_ties)
def test_precision_and_recall_follow_their_definition(seed: int, ties: Any) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    relevant = (query_labels @ item_labels.T) > 0
    curve_at = PR(ranks=range(1, 61))
    cuts = [measure @ k for measure in (P, R) for k in (1, 7, 60)]
    found = evaluate(queries, items, query_labels, item_labels, ties=ties, measures=[curve_at, *cuts])
    curve = found[curve_at]
    np.testing.assert_allclose(curve.precision[-1], relevant.mean())
    np.testing.assert_allclose(curve.recall[-1], relevant.any(axis=1).mean())
    assert np.all(np.diff(curve.recall) >= -1e-12)
    for k in (1, 7, 60):
        assert found[P @ k] == pytest.approx(curve.precision[k - 1])
        assert found[R @ k] == pytest.approx(curve.recall[k - 1])


@given(seeds)
def test_precision_and_recall_by_radius_follow_their_definition(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    relevant = (query_labels @ item_labels.T) > 0
    distances = (10 - unpack(queries, 10).astype(int) @ unpack(items, 10).T) // 2
    curve = evaluate(queries, items, query_labels, item_labels, measures=PRH @ 10)[PRH @ 10]
    for radius in range(11):
        within = distances <= radius
        hits = (within & relevant).sum(axis=1)
        np.testing.assert_allclose(curve.precision[radius], np.mean(hits / np.maximum(within.sum(axis=1), 1)))
        np.testing.assert_allclose(curve.recall[radius], np.mean(hits / np.maximum(relevant.sum(axis=1), 1)))


@given(seeds)
def test_a_relevance_matrix_and_labels_give_the_same_values(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    overlap = query_labels @ item_labels.T
    expected = values(queries, items, query_labels, item_labels)
    for relevance in (overlap, sp.csr_array(overlap), overlap.astype(float)):
        assert values(queries, items, relevance=relevance) == pytest.approx(expected)


@given(seeds)
def test_label_forms_give_the_same_values(seed: int) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    names = "fedcba"
    lists = [[[names[j] for j in np.flatnonzero(row)] for row in each] for each in (query_labels, item_labels)]
    np.testing.assert_array_equal(values(queries, items, query_labels, item_labels), values(queries, items, *lists))


@settings(max_examples=40)
@given(
    seeds,
    st.lists(st.sampled_from(NUMBERS + CURVES), min_size=1, unique=True),
    either_ties,
    st.sampled_from(["labels", "matrix", "sparse"]),
)
def test_measures_computed_together_equal_those_computed_alone(
    seed: int, measures: list[Any], ties: Any, form: str
) -> None:
    queries, items, *labels = scene(seed)
    judgements: dict[str, Any] = {"query_labels": labels[0], "database_labels": labels[1]}
    if form != "labels":
        overlap = 0.5 * (labels[0] @ labels[1].T)
        judgements = {"relevance": overlap if form == "matrix" else sp.csr_array(overlap)}
    together = evaluate(queries, items, measures=measures, ties=ties, **judgements)
    assert list(together) == list(map(str, measures))
    for each in measures:
        alone = evaluate(queries, items, measures=each, ties=ties, **judgements)
        np.testing.assert_array_equal(together.per_query[each], alone.per_query[each])
        np.testing.assert_array_equal(np.ravel(together[each]), np.ravel(alone[each]))


@given(seeds, either_ties)
def test_permuted_queries_have_permuted_values(seed: int, ties: Any) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    order = np.random.default_rng(seed).permutation(len(queries))
    measures = NUMBERS + CURVES
    before = evaluate(queries, items, query_labels, item_labels, measures=measures, ties=ties)
    after = evaluate(queries[order], items, query_labels[order], item_labels, measures=measures, ties=ties)
    for each in measures:
        np.testing.assert_array_equal(before.per_query[each][order], after.per_query[each])


@given(seeds, st.booleans())
def test_one_query_has_the_same_values_alone_and_among_others(seed: int, asymmetric: bool) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    if asymmetric:
        queries = np.random.default_rng(seed).standard_normal((5, 10))
    measures = [*NUMBERS, PR]
    together = evaluate(queries, items, query_labels, item_labels, measures=measures, ties="expected").per_query
    for i in range(len(queries)):
        alone = evaluate(
            queries[[i]], items, query_labels[[i]], item_labels, measures=measures, ties="expected"
        ).per_query
        for each in measures:
            np.testing.assert_allclose(alone[each][0], together[each][i], rtol=1e-12)


def test_the_database_is_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = mock.Mock(side_effect=_kernels.rank_by_distance)
    monkeypatch.setattr(_kernels, "rank_by_distance", rank)
    evaluate(*scene(0), measures=NUMBERS + CURVES, n_jobs=1)
    assert rank.call_count == 1


def test_queries_without_a_relevant_item_are_nan_per_query_and_zero_or_skipped_in_means() -> None:
    queries, items, labels = pack([[1, 1], [1, 1]]), pack([[1, 1], [1, -1]]), (["a", "z"], ["a", "b"])
    measures = [AP, P @ 2, R @ 2, nDCG, PR(ranks=(1,)), PRH]
    result = evaluate(queries, items, *labels, measures=measures)
    for each in measures:
        assert not np.isnan(result.per_query[each][0]).any()
        assert np.isnan(result.per_query[each][1]).all()
    assert (result[AP], result[P @ 2], result[R @ 2], result[nDCG]) == (0.5, 0.25, 0.5, 0.5)
    skipped = evaluate(queries, items, *labels, measures=measures, empty="skip")
    assert (skipped[AP], skipped[P @ 2], skipped[R @ 2], skipped[nDCG]) == (1, 0.5, 1, 1)
    with pytest.raises(InputError, match="no query has a relevant item"):
        evaluate(queries, items, ["y", "z"], ["a", "b"], empty="skip")
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
        evaluate(queries, items, relevance=np.array([[2000.0, 1.0]]), measures=nDCG)
    linear = nDCG(gain="linear")
    assert evaluate(queries, items, relevance=np.array([[1e-17, 0.0]]), measures=linear)[linear] == 1.0


def test_both_normalisations_of_a_cut_ranking() -> None:
    queries, items = pack([[1, 1, 1]]), pack([[1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1]])
    labels = (["a"], ["a", "b", "a", "a"])
    assert mean_average_precision(queries, items, *labels, k=2) == 1.0
    assert mean_average_precision(queries, items, *labels, k=2, normalize="possible") == 0.5
    assert mean_average_precision(queries, items, *labels) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_results_are_indexed_by_measure_or_name_print_and_convert() -> None:
    result = evaluate(*scene(1), measures=["AP@50", nDCG(gain="linear") @ 10, "PR"])
    assert isinstance(result, Evaluation)
    assert result["AP@50"] == result[AP @ 50] == result.to_dict()["AP@50"]
    assert "AP@50" in result
    assert result["AP @ 50"] == result["AP@50"]
    assert "AP" not in result
    assert "nonsense" not in result
    assert len(result) == 3
    assert result.per_query["AP@50"].shape == (5,)
    lines = str(result).splitlines()
    assert lines[0] == "5 queries, 60 items"
    assert lines[1] == f"AP@50                   {result['AP@50']:.4f}"
    assert lines[2] == f'nDCG(gain="linear")@10  {result[nDCG(gain="linear") @ 10]:.4f}'
    assert lines[3].startswith("PR                      precision ")
    with pytest.raises(InputError, match=r'AP was not computed; .*: AP@50, nDCG\(gain="linear"\)@10, PR'):
        result["AP"]


def test_repeated_measures_are_computed_once_and_ap_is_the_default() -> None:
    assert list(evaluate(*scene(1), measures=["AP", AP, "AP"])) == ["AP"]
    assert list(evaluate(*scene(1), measures="P@3")) == ["P@3"]
    assert list(evaluate(*scene(1))) == ["AP"]
    with pytest.raises(InputError, match="measures is empty"):
        evaluate(*scene(1), measures=[])


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int64, np.float16, np.float32])
def test_the_type_of_relevance_does_not_matter(dtype: Any) -> None:
    queries, items, query_labels, item_labels = scene(2)
    overlap = np.minimum(query_labels @ item_labels.T, 1 if dtype is bool else 9)
    measures = NUMBERS + CURVES
    expected = evaluate(queries, items, relevance=overlap.astype(float), measures=measures)
    found = evaluate(queries, items, relevance=overlap.astype(dtype), measures=measures)
    for each in measures:
        np.testing.assert_array_equal(found.per_query[each], expected.per_query[each])


def test_more_shared_labels_than_a_byte_can_count() -> None:
    n_labels = 300
    query_labels, item_labels = np.ones((1, n_labels), int), np.tri(40, n_labels, 259, int)
    queries, items = pack([[1, 1, 1]]), pack(np.random.default_rng(0).choice([-1, 1], (40, 3)))
    measures = [AP, nDCG(gain="linear"), nDCG @ 5]
    by_labels = evaluate(queries, items, query_labels, item_labels, measures=measures)
    by_grades = evaluate(queries, items, relevance=query_labels @ item_labels.T, measures=measures)
    assert by_labels.to_dict() == by_grades.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.zeros((2, 2), np.uint8)}, "queries have codes of 2 bytes but the database has 1"),
        ({"queries": np.zeros((2, 9), np.float32)}, r"projections of shape \(2, 9\), but the database has 1 bytes"),
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
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"normalize": "all"}, "normalize must be one of"),
        ({"n_jobs": 0}, "n_jobs must be an integer from 1 to 1024"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, Any], message: str) -> None:
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
        (-np.ones((2, 3)), "finite, non-negative numbers"),
        (np.full((2, 3), np.nan), "finite, non-negative numbers"),
        (np.full((2, 3), "x"), "finite, non-negative numbers"),
    ],
)
def test_invalid_relevance_is_described(relevance: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mean_average_precision(np.zeros((2, 1), np.uint8), np.zeros((3, 1), np.uint8), relevance=relevance)
