"""Measure names, and each measure against a plain loop."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from itertools import permutations
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import InputError
from dlfh.codes import pack, unpack
from dlfh.metrics import evaluate
from dlfh.metrics.measures import AP, MEASURES, PR, PRH, Measure, P, R, _harmonic, nDCG, parse_measure
from tests.metrics.scenes import scene
from tests.strategies import seeds

cuts = st.none() | st.integers(1, 20)
measures = st.one_of(
    st.builds(lambda m, k: m if k is None else m @ k, st.sampled_from([AP, P, R, nDCG, PR, PRH]), cuts),
    st.builds(lambda k: AP(normalize="possible") @ k, st.integers(1, 20)),
    st.builds(lambda k: nDCG(gain="linear") @ k, st.integers(1, 20)),
    st.builds(lambda k: P(match="all") @ k, st.integers(1, 20)),
    st.builds(lambda ranks: PR(ranks=ranks), st.lists(st.integers(1, 20), min_size=1, max_size=4)),
)


@given(measures)
def test_a_measure_can_be_parsed_from_its_printed_form(asked: Measure) -> None:
    assert parse_measure(str(asked)) == asked
    assert hash(parse_measure(str(asked))) == hash(asked)
    assert parse_measure(asked) is asked


def test_names_are_those_of_ir_measures() -> None:
    assert [str(each) for each in (AP, P @ 10, nDCG(gain="linear") @ 20)] == ["AP", "P@10", 'nDCG(gain="linear")@20']
    assert parse_measure(" nDCG( gain = 'linear' ) @ 20 ") == nDCG(gain="linear") @ 20
    assert AP(normalize="retrieved") == AP != AP @ 10
    assert parse_measure("P@10") != parse_measure("R@10")
    assert PR(ranks=[1, 5]) == parse_measure("PR(ranks=(1, 5))") == parse_measure("PR(ranks=(1,5,))")
    assert list(MEASURES) == [str(each) for each in MEASURES.values()]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("MAP", "unknown measure 'MAP'; available: AP, P, R, nDCG, PR, PRH, with a cut-off as in AP@50"),
        ("AP@", "unknown measure 'AP@'; available: AP, P"),
        ("AP@ten", "unknown measure 'AP@ten'"),
        ("AP@-1", "unknown measure 'AP@-1'"),
        ("AP@5@5", "unknown measure 'AP@5@5'"),
        ("", "unknown measure ''"),
        (7, "unknown measure 7"),
        ("AP(normalize)", "unknown measure"),
        ("PR(ranks=(1,,2))", "unknown measure"),
        ("nDCG(gain='linear', gain='linear')", "unknown measure"),
        ("AP@0", "k must be an integer of at least 1, got 0"),
        ("AP(rel=2)", "AP has no option 'rel' (available: normalize); write a cut-off as AP@10"),
        ("P(rel=2)", "P has no option 'rel' (available: match); write a cut-off as P@10"),
        ("AP(normalize='all')", "normalize must be one of 'retrieved', 'possible', got 'all'"),
        ("P(match='some')", "match must be one of 'any', 'all', got 'some'"),
        ("R(rel=2)", "R has no option 'rel' (it takes no options); write a cut-off as R@10"),
        ("nDCG(gain='log')", "gain must be one of 'exponential', 'linear', got 'log'"),
        ("PR(ranks=())", "PR needs at least one rank"),
        ("PR(ranks=(0, 1))", "each of ranks must be an integer of at least 1, got 0"),
        ("PR(ranks=(1, 2))@5", "PR takes either ranks or a cut-off, not both"),
    ],
)
def test_errors_for_invalid_measures(asked: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_measure(asked)
    assert message in str(error.value)


@given(st.text())
def test_any_text_parses_or_raises_input_error(text: str) -> None:
    with suppress(InputError):
        assert isinstance(parse_measure(text), Measure)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_cut_off_is_a_positive_integer(k: Any) -> None:
    with pytest.raises(InputError, match="k must be an integer of at least 1"):
        AP @ k


def test_cut_offs_beyond_the_database_are_refused() -> None:
    scene_of_60 = scene(0)
    for each in [*MEASURES.values(), AP(normalize="possible"), nDCG(gain="linear"), P(match="all")]:
        limit = "16 bits" if each == PRH else "60 items"
        with pytest.raises(InputError, match=f"@61 .*only {limit}"):
            evaluate(*scene_of_60, measures=[each @ 61])
    with pytest.raises(InputError, match=r"PR\(ranks=\(1, 61\)\) needs k = 61 ranks but the database has only 60"):
        evaluate(*scene_of_60, measures=PR(ranks=(1, 61)))
    evaluate(*scene_of_60, measures=[each @ 16 for each in MEASURES.values()])


def test_a_hamming_radius_requires_codes() -> None:
    _, items, *labels = scene(0)
    with pytest.raises(InputError, match="PRH needs queries as packed codes"):
        evaluate(np.zeros((5, 10)), items, *labels, measures=["PRH"])


def test_precision_without_a_cut_off_is_that_of_a_random_ranking() -> None:
    queries, items, query_labels, item_labels = scene(0)
    assert evaluate(queries, items, query_labels, item_labels, measures=P)[P] == pytest.approx(
        (query_labels @ item_labels.T > 0).mean()
    )


def plain(asked: Measure, grades: list[int]) -> Any:
    """Follow the definitions rank by rank; ``grades`` are in rank order and not all zero."""
    k = asked.k or len(grades)
    n_relevant = sum(grade > 0 for grade in grades)
    hits = [sum(grade > 0 for grade in grades[:rank]) for rank in range(len(grades) + 1)]
    if asked.name == "P":
        return Fraction(hits[k], k)
    if asked.name == "R":
        return Fraction(hits[k], n_relevant)
    if isinstance(asked, type(AP)):
        precisions = [Fraction(hits[rank], rank) for rank in range(1, k + 1) if grades[rank - 1] > 0]
        count = len(precisions) if asked.normalize == "retrieved" else min(k, n_relevant)
        return sum(precisions) / max(count, 1)
    if isinstance(asked, type(nDCG)):

        def total(ranked: list[int]) -> float:
            gains = [2**grade - 1 if asked.gain == "exponential" else grade for grade in ranked]
            return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains[:k], start=1))

        return total(grades) / total(sorted(grades, reverse=True))
    assert isinstance(asked, type(PR))
    ranks = asked.ranks or range(1, k + 1)
    return [Fraction(hits[rank], rank) for rank in ranks] + [Fraction(hits[rank], n_relevant) for rank in ranks]


def _within(asked: Measure, n_items: int) -> Measure:
    if isinstance(asked, type(PR)) and asked.ranks is not None:
        return asked(ranks=[1 + rank % n_items for rank in asked.ranks])
    return asked if asked.k is None else asked @ (1 + asked.k % n_items)


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(measures, min_size=1, max_size=4), st.sampled_from(["order", "expected"]), st.booleans())
def test_every_measure_equals_a_plain_loop(seed: int, asked: list[Measure], ties: Any, asymmetric: bool) -> None:
    """With expected ties, it equals the mean over all orders of the database."""
    rng = np.random.default_rng(seed)
    n_items = 20 if ties == "order" else 5
    asked = [_within(each, n_items) for each in asked if each.name != "PRH"]
    if not asked:
        return
    items, codes = pack(rng.choice([-1, 1], size=(n_items, 3))), pack(rng.choice([-1, 1], size=(3, 3)))
    queries: Any = unpack(codes, 3).astype(np.float32) * [1.0, 2.0, 1.0] if asymmetric else codes
    query_labels, item_labels = rng.integers(0, 2, (3, 4)), rng.integers(0, 2, (n_items, 4))
    grades = query_labels @ item_labels.T
    equal = np.all(query_labels[:, None] == item_labels, axis=2) & (query_labels.sum(axis=1, keepdims=True) > 0)
    scores = (queries if asymmetric else unpack(codes, 3).astype(int)) @ unpack(items, 3).T.astype(int)
    found = evaluate(queries, items, query_labels, item_labels, measures=asked, ties=ties).per_query
    orders = [range(n_items)] if ties == "order" else list(permutations(range(n_items)))
    for query in range(3):
        ranked = [sorted(order, key=lambda item: -scores[query, item]) for order in orders]
        for each in asked:
            judged = equal[query] if each == P(match="all") @ (each.k or 1) else grades[query]
            if not judged.any():
                assert np.isnan(found[each][query]).all()
                continue
            if each.name == "PR" and each.ranks is None:  # type: ignore[attr-defined]
                # About 100 ranks of at most 20 are all of them.
                assert found[each].shape[1] == 2 * (each.k or n_items)
            values = [plain(each, [int(judged[item]) for item in order]) for order in ranked]
            expected = np.mean(np.array(values, dtype=float), axis=0)
            np.testing.assert_allclose(found[each][query], expected, atol=1e-12)


@given(seeds, st.sampled_from(["order", "expected"]))
def test_precision_of_equal_label_sets_is_at_most_that_of_shared_labels(seed: int, ties: Any) -> None:
    found = evaluate(*scene(seed), measures=[P(match="all") @ 5, P @ 5], ties=ties).per_query
    strict, loose = found[P(match="all") @ 5], found["P@5"]
    some = ~np.isnan(strict)
    assert (strict[some] <= loose[some] + 1e-12).all()


def test_with_one_label_each_equal_label_sets_are_shared_labels() -> None:
    queries, items, *_ = scene(0)
    classes = np.arange(len(queries)) % 3, np.arange(len(items)) % 3
    result = evaluate(queries, items, *classes, measures=["P@7", 'P(match="all")@7'])
    assert result["P@7"] == result['P(match="all")@7']


def test_label_lists_are_compared_as_sets() -> None:
    queries, items = pack([[1, 1], [1, 1]]), pack([[1, 1], [1, 1], [1, 1]])
    lists = [["b", "a"], ["c"]], [["a", "b", "a"], ["a"], []]
    assert evaluate(queries, items, *lists, measures='P(match="all")@1').per_query['P(match="all")@1'][0] == 1
    # A query without labels, or whose label set no item has, counts as a query without a relevant item.
    empty = evaluate(queries, items, [["c"], []], lists[1], measures='P(match="all")@1')
    assert np.isnan(empty.per_query['P(match="all")@1']).all()


def test_comparing_label_sets_requires_labels() -> None:
    queries, items, *_ = scene(0)
    with pytest.raises(InputError, match="compares label sets: pass query_labels and database_labels"):
        evaluate(queries, items, relevance=np.ones((5, 60)), measures=[P(match="all")])


def test_harmonic_numbers() -> None:
    for n in (0, 1, 2, 10, 100_000):
        assert _harmonic(n) == pytest.approx(math.fsum(1 / i for i in range(1, n + 1)), rel=1e-14, abs=1e-15)
