"""Measures over a database in blocks equal those over the whole database."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import random_codes, unpack
from dlfh.errors import InputError
from dlfh.metrics import evaluate, ranking
from dlfh.metrics.evaluation import Evaluation
from dlfh.metrics.measures import AP, PR, PRH, P, R, nDCG
from dlfh.metrics.ranking import byte_tables
from tests.strategies import seeds

N_ITEMS = 50
BY_LABELS = [P(match="all"), P(match="all") @ 4]
MEASURES = [
    *(AP, AP @ 7, AP(normalize="possible") @ 7, P, P @ 5, R, R @ 9),
    *(nDCG, nDCG @ 6, nDCG(gain="linear"), nDCG(gain="linear") @ 49),
    *(PR, PR @ 20, PR(ranks=(30, 2, 2)), PRH, PRH @ 2),
]
ties = st.sampled_from(["order", "expected"])
cuts = st.lists(st.integers(0, N_ITEMS), max_size=5).map(lambda inner: [0, *sorted(inner), N_ITEMS])


def codes_and_labels(seed: int, n_queries: int, n_bits: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    labels = [(rng.random((n, 4)) < 0.3).astype(np.int8) for n in (n_queries, N_ITEMS)]
    labels[1][::7] = labels[0][0]
    return random_codes(rng, n_queries, n_bits), random_codes(rng, N_ITEMS, n_bits), labels


def assert_same(ours: Evaluation, whole: Evaluation) -> None:
    assert (list(ours), ours.n_queries, ours.n_items) == (list(whole), whole.n_queries, whole.n_items)
    for each in whole:
        np.testing.assert_allclose(ours.per_query[each], whole.per_query[each], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(np.ravel(ours[each]), np.ravel(whole[each]), rtol=1e-12, atol=1e-15)


def in_form(labels: Any, form: str) -> Any:
    """Return rows of 0 and 1 in another form; class ids are the number of labels."""
    if form == "classes":
        return labels.sum(axis=1)
    lists = [[f"label {i}" for i in np.flatnonzero(row)] for row in labels]
    return {"indicator": labels, "sparse": sp.csr_array(labels), "lists": lists}[form]


@settings(max_examples=30)
@given(
    seeds,
    st.integers(1, 70),
    cuts,
    st.sampled_from([3, 16, 20, 70]),
    st.sampled_from(["indicator", "classes", "sparse", "lists"]),
    ties,
)
def test_any_division_into_blocks_gives_the_values_of_the_whole(
    seed: int, n_queries: int, starts: list[int], n_bits: int, form: str, ties: Any
) -> None:
    queries, database, labels = codes_and_labels(seed, n_queries, n_bits)
    query_labels, item_labels = (in_form(each, form) for each in labels)
    measures = [*MEASURES, *BY_LABELS]
    whole = evaluate(queries, database, query_labels, item_labels, measures=measures, ties=ties)
    blocks: Any = ArrayBlocks(database, starts, "database")
    assert_same(evaluate(queries, blocks, query_labels, item_labels, measures=measures, ties=ties), whole)
    if form != "lists":
        in_blocks = ArrayBlocks(item_labels, [0, N_ITEMS], "labels")
        assert_same(evaluate(queries, blocks, query_labels, in_blocks, measures=measures, ties=ties), whole)


@given(seeds, cuts, st.sampled_from([bool, np.uint8, np.int64, np.float32]), st.booleans(), ties)
def test_a_relevance_matrix_is_divided_like_the_database(
    seed: int, starts: list[int], dtype: Any, sparse: bool, ties: Any
) -> None:
    queries, database, (query_labels, item_labels) = codes_and_labels(seed, 9, 12)
    grades = (query_labels.astype(int) @ item_labels.T * (100 if dtype is np.int64 else 1)).astype(dtype)
    relevance: Any = sp.csc_array(grades) if sparse else grades
    blocks: Any = ArrayBlocks(database, starts, "database")
    options: Any = {"relevance": relevance, "measures": MEASURES, "ties": ties}
    assert_same(evaluate(queries, blocks, **options), evaluate(queries, database, **options))


@given(seeds, st.lists(st.sampled_from([*MEASURES, *BY_LABELS]), min_size=1, max_size=3), ties)
def test_any_selection_of_measures_gives_the_values_of_the_whole(seed: int, measures: Any, ties: Any) -> None:
    queries, database, labels = codes_and_labels(seed, 5, 8)
    blocks: Any = ArrayBlocks(database, [0, 20, N_ITEMS], "database")
    whole = evaluate(queries, database, *labels, measures=measures, ties=ties)
    assert_same(evaluate(queries, blocks, *labels, measures=measures, ties=ties), whole)


def test_queries_whose_counts_exceed_the_memory_limit_take_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, database, labels = codes_and_labels(2, 11, 16)
    blocks: Any = ArrayBlocks(database, [0, 20, N_ITEMS], "database")
    monkeypatch.setattr(ranking, "_COUNT_BYTES", 3 * 24 * blocks.n_blocks * 17)  # three queries a pass
    passes = mock.Mock(side_effect=ArrayBlocks.read_ahead)
    monkeypatch.setattr(ArrayBlocks, "read_ahead", lambda *blocks, **options: passes(*blocks, **options))
    for ties, n_passes in (("order", 8), ("expected", 1)):
        options: Any = {"measures": [*MEASURES, *BY_LABELS], "ties": ties}
        whole = evaluate(queries, database, *labels, **options)
        passes.reset_mock()
        assert_same(evaluate(queries, blocks, *labels, **options), whole)
        assert passes.call_count == n_passes


@pytest.mark.parametrize("ties", ["order", "expected"])
def test_dask_arrays_give_the_values_of_the_whole(ties: Any) -> None:
    da = pytest.importorskip("dask.array")
    queries, database, (query_labels, item_labels) = codes_and_labels(3, 20, 16)
    measures = [*MEASURES, *BY_LABELS]
    whole = evaluate(queries, database, query_labels, item_labels, measures=measures, ties=ties)
    chunked, chunks = da.from_array(database, chunks=(8, -1)), da.from_array(item_labels, chunks=(8, -1))
    for labels in (item_labels, chunks):
        assert_same(evaluate(queries, chunked, query_labels, labels, measures=measures, ties=ties), whole)
    by_grades: Any = {"relevance": query_labels.astype(int) @ item_labels.T, "measures": MEASURES, "ties": ties}
    assert_same(evaluate(queries, chunked, **by_grades), evaluate(queries, database, **by_grades))


def test_only_ndcg_needs_whole_number_grades() -> None:
    queries, database, (query_labels, item_labels) = codes_and_labels(5, 6, 16)
    blocks: Any = ArrayBlocks(database, [0, 20, N_ITEMS], "database")
    relevance = 0.3 * (query_labels.astype(int) @ item_labels.T)
    measures = [each for each in MEASURES if each.name != "nDCG"]
    whole = evaluate(queries, database, relevance=relevance, measures=measures)
    assert_same(evaluate(queries, blocks, relevance=relevance, measures=measures), whole)
    with pytest.raises(InputError, match="needs integer grades from 0 to 1000"):
        evaluate(queries, blocks, relevance=relevance, measures="nDCG@5")


def test_invalid_arguments_are_named() -> None:
    rng = np.random.default_rng(0)
    codes, classes = random_codes(rng, 20, 16), rng.integers(0, 3, 20)
    blocks: Any = ArrayBlocks(codes, [0, 12, 20], "database")
    good: dict[str, Any] = {
        "queries": codes,
        "database": blocks,
        "query_labels": classes,
        "database_labels": classes,
        "measures": "AP",
    }
    for changes, message in (
        ({"measures": "AP@50"}, "the database has only 20 items"),
        ({"measures": "PRH@17"}, "codes have only 16 bits"),
        ({"ties": "random"}, "ties must be one of 'order', 'expected', got 'random'"),
        ({"relevance": np.ones((20, 20))}, "pass either labels or relevance, not both"),
        ({"query_labels": None}, "pass query_labels and database_labels, or relevance"),
        ({"query_labels": None, "database_labels": None, "relevance": np.ones((20, 3))}, "relevance must have shape"),
        ({"database_labels": classes.tolist()[1:]}, "database_labels has 19 rows but there are 20 database items"),
        (
            {"database_labels": ArrayBlocks(classes[1:], [0, 19], "item labels")},
            "item labels has 19 rows but database has 20",
        ),
        ({"queries": codes[:, :1]}, "queries have codes of 1 bytes but the database has 2"),
        ({"queries": np.ones((20, 16))}, "queries must be packed codes .* got real numbers"),
        ({"database": ArrayBlocks(np.ones((20, 2)), [0, 20], "database")}, "database must be packed codes"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(**(good | changes))


@given(seeds, st.integers(1, 40))
def test_byte_tables_add_up_the_inner_product(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    projections = rng.integers(-9, 10, (3, n_bits)).astype(np.float32)
    codes = random_codes(rng, 5, n_bits)
    found = byte_tables(projections)[:, np.arange(codes.shape[1]), codes].sum(axis=2)
    np.testing.assert_array_equal(found, projections @ unpack(codes, n_bits).T)
