"""Many measures from one ranking: the same as one by one, and laws over queries."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import InputError, _kernels, metrics
from dlfh.codes import pack
from dlfh.metrics import AP, PR, PRH, Evaluation, P, R, evaluate, nDCG
from dlfh.metrics.measures import Measure, PrecisionRecall
from tests.metrics.scenes import scene
from tests.strategies import seeds

#: Each single function, as the measure that it stands for.
SINGLE: dict[Measure, Any] = {
    AP: metrics.mean_average_precision,
    AP @ 7: lambda *a, **o: metrics.mean_average_precision(*a, k=7, **o),
    AP(normalize="possible") @ 7: lambda *a, **o: metrics.mean_average_precision(*a, k=7, normalize="possible", **o),
    P @ 3: lambda *a, **o: metrics.precision_at(*a, k=3, **o),
    R @ 9: lambda *a, **o: metrics.recall_at(*a, k=9, **o),
    nDCG: metrics.ndcg,
    nDCG @ 10: lambda *a, **o: metrics.ndcg(*a, k=10, **o),
    nDCG(gain="linear") @ 10: lambda *a, **o: metrics.ndcg(*a, k=10, gain="linear", **o),
    PR: metrics.precision_recall_by_rank,
    PR(ranks=(9, 2)): lambda *a, **o: metrics.precision_recall_by_rank(*a, k=[9, 2], **o),
    PRH @ 10: lambda *a, ties, **o: metrics.precision_recall_by_radius(*a, n_bits=10, **o),
}
some_measures = st.lists(st.sampled_from(list(SINGLE)), min_size=1, unique=True)


@settings(max_examples=40)
@given(seeds, some_measures, st.sampled_from(["order", "expected"]), st.sampled_from(["labels", "matrix", "sparse"]))
def test_one_pass_gives_bit_for_bit_what_single_functions_give(
    seed: int, asked: list[Measure], ties: str, judged_by: str
) -> None:
    queries, items, *labels = scene(seed)
    given: dict[str, Any] = {"query_labels": labels[0], "database_labels": labels[1]}
    if judged_by != "labels":
        overlap = 0.5 * (labels[0] @ labels[1].T)
        given = {"relevance": overlap if judged_by == "matrix" else sp.csr_array(overlap)}
    together = evaluate(queries, items, measures=asked, ties=ties, **given)  # type: ignore[arg-type]
    assert list(together) == asked
    for each in asked:
        alone, found = SINGLE[each](queries, items, ties=ties, **given), together[each]
        assert type(alone) is type(found)
        if isinstance(found, PrecisionRecall):
            for a, b in zip(found, alone, strict=True):
                np.testing.assert_array_equal(a, b)
        else:
            assert found == alone


@given(seeds, st.sampled_from(["order", "expected"]))
def test_permuted_queries_have_permuted_values(seed: int, ties: Any) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    order = np.random.default_rng(seed).permutation(len(queries))
    asked = list(SINGLE)
    before = evaluate(queries, items, query_labels, item_labels, measures=asked, ties=ties)
    after = evaluate(queries[order], items, query_labels[order], item_labels, measures=asked, ties=ties)
    for each in asked:
        np.testing.assert_array_equal(before.per_query[each][order], after.per_query[each])


@given(seeds, st.booleans())
def test_measures_of_queries_asked_alone_are_those_of_queries_asked_together(seed: int, asymmetric: bool) -> None:
    queries, items, query_labels, item_labels = scene(seed)
    if asymmetric:
        queries = np.random.default_rng(seed).standard_normal((5, 10))
    asked = [each for each in SINGLE if each.name != "PRH"]
    together = evaluate(queries, items, query_labels, item_labels, measures=asked, ties="expected").per_query
    for i in range(len(queries)):
        alone = evaluate(queries[[i]], items, query_labels[[i]], item_labels, measures=asked, ties="expected").per_query
        for each in asked:
            np.testing.assert_allclose(alone[each][0], together[each][i], rtol=1e-12)


def test_the_database_is_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = mock.Mock(side_effect=_kernels.rank_by_distance)
    monkeypatch.setattr(_kernels, "rank_by_distance", rank)
    evaluate(*scene(0), measures=list(SINGLE), n_jobs=1)
    assert rank.call_count == 1


def test_queries_without_a_relevant_item_are_nan_by_query_and_zero_or_left_out_of_means() -> None:
    queries, items, labels = pack([[1, 1], [1, 1]]), pack([[1, 1], [1, -1]]), (["a", "z"], ["a", "b"])
    asked = [AP, P @ 2, R @ 2, nDCG, PR(ranks=(1,)), PRH]
    result = evaluate(queries, items, *labels, measures=asked)
    for each in asked:
        assert not np.isnan(result.per_query[each][0]).any()
        assert np.isnan(result.per_query[each][1]).all()
    assert (result[AP], result[P @ 2], result[R @ 2], result[nDCG]) == (0.5, 0.25, 0.5, 0.5)
    skipped = evaluate(queries, items, *labels, measures=asked, empty="skip")
    assert (skipped[AP], skipped[P @ 2], skipped[R @ 2], skipped[nDCG]) == (1, 0.5, 1, 1)
    with pytest.raises(InputError, match="no query has a relevant item"):
        evaluate(queries, items, ["y", "z"], ["a", "b"], measures=["AP"], empty="skip")


def test_a_result_is_indexed_by_measure_or_name_prints_and_converts() -> None:
    result = evaluate(*scene(1), measures=["AP@50", nDCG(gain="linear") @ 10, "PR"])
    assert isinstance(result, Evaluation)
    assert result["AP@50"] == result[AP @ 50] == result.to_dict()["AP@50"]
    assert "AP@50" in result
    assert AP @ 50 in result
    assert "AP" not in result
    assert "nonsense" not in result
    assert len(result) == 3
    assert result.per_query["AP@50"].shape == (5,)
    lines = str(result).splitlines()
    assert lines[0] == "5 queries, 60 items"
    assert lines[1] == f"AP@50                   {result['AP@50']:.4f}"
    assert lines[2] == f'nDCG(gain="linear")@10  {result[nDCG(gain="linear") @ 10]:.4f}'
    assert lines[3].startswith("PR                      precision ")
    with pytest.raises(InputError, match=r'AP was not asked for: there are AP@50, nDCG\(gain="linear"\)@10, PR'):
        result["AP"]


def test_a_measure_asked_for_twice_is_there_once_and_none_is_refused() -> None:
    assert list(evaluate(*scene(1), measures=["AP", AP, "AP"])) == [AP]
    assert list(evaluate(*scene(1), measures="AP")) == [AP]
    with pytest.raises(InputError, match="no measure is asked for"):
        evaluate(*scene(1), measures=[])


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int64, np.float16, np.float32])
def test_relevance_of_any_type_means_the_same(dtype: Any) -> None:
    queries, items, query_labels, item_labels = scene(2)
    overlap = np.minimum(query_labels @ item_labels.T, 1 if dtype is bool else 9)
    asked = list(SINGLE)
    expected = evaluate(queries, items, relevance=overlap.astype(float), measures=asked)
    found = evaluate(queries, items, relevance=overlap.astype(dtype), measures=asked)
    for each in asked:
        np.testing.assert_array_equal(found.per_query[each], expected.per_query[each])


def test_more_shared_labels_than_a_byte_can_count() -> None:
    n_labels = 300
    query_labels, item_labels = np.ones((1, n_labels), int), np.tri(40, n_labels, 259, int)
    queries, items = pack([[1, 1, 1]]), pack(np.random.default_rng(0).choice([-1, 1], (40, 3)))
    asked = [AP, nDCG(gain="linear"), nDCG @ 5]
    by_labels = evaluate(queries, items, query_labels, item_labels, measures=asked)
    by_grades = evaluate(queries, items, relevance=query_labels @ item_labels.T, measures=asked)
    assert by_labels.to_dict() == by_grades.to_dict()
