"""Filters of columns agree with filters of single items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh.index import Index
from dlfh.index.where import names_of, parse_where
from tests.index.plain_where import FILTERS, METADATA, VALUES, matches

ITEMS = st.lists(METADATA, max_size=8)


def index_of(metadata: list[dict[str, Any] | None]) -> Index:
    index = Index(n_bits=8, modalities=["image"])
    codes = np.arange(len(metadata), dtype=np.uint8)[:, None]
    index.add([f"{row}" for row in range(len(metadata))], {"image": codes}, metadata=metadata)
    return index


@given(ITEMS, FILTERS)
def test_columns_agree_with_the_reference(metadata: list[dict[str, Any] | None], where: dict[str, Any]) -> None:
    expected = [matches(where, item) for item in metadata]
    assert index_of(metadata).matches(where).tolist() == expected


@given(ITEMS, FILTERS, FILTERS)
def test_filters_obey_boolean_logic(
    metadata: list[dict[str, Any] | None], one: dict[str, Any], other: dict[str, Any]
) -> None:
    index = index_of(metadata)
    first, second = index.matches(one), index.matches(other)
    assert np.array_equal(index.matches({"not": one}), ~first)
    assert np.array_equal(index.matches({"and": [one, other]}), first & second)
    assert np.array_equal(index.matches({"or": [one, other]}), first | second)
    assert index.matches({}).all()


@given(ITEMS, st.data())
def test_a_search_finds_exactly_the_matching_items(metadata: list[dict[str, Any] | None], data: st.DataObject) -> None:
    index = index_of(metadata)
    where = data.draw(FILTERS)
    query = np.zeros((1, 1), np.uint8)
    expected = [name for name, found in zip(index.ids(), index.matches(where), strict=True) if found]
    hits = index.search("image", query, k=100, where=where)
    assert sorted(hits.ids[0]) == expected
    ids = expected[::2]
    assert (
        index.search("image", query, k=100, ids=ids).ids
        == index.search("image", query, k=100, ids=ids, where=where).ids
    )
    assert index.search_radius("image", query, 8, where=where)[0].ids == hits.ids


@given(ITEMS, ITEMS, FILTERS)
def test_filters_follow_changes(
    first: list[dict[str, Any] | None], then: list[dict[str, Any] | None], where: dict[str, Any]
) -> None:
    index = index_of(first)
    index.matches(where)  # fills the cache of columns
    names = [f"{row + len(first) // 2}" for row in range(len(then))]
    index.put(names, {"image": np.zeros((len(then), 1), np.uint8)}, metadata=then)
    items = list(index.items())
    assert index.matches(where).tolist() == [matches(where, item.metadata) for item in items]
    index.remove([item.id for item in items[::2]])
    assert index.matches(where).tolist() == [matches(where, item.metadata) for item in items[1::2]]


@given(VALUES, VALUES)
def test_types_are_distinct_but_numbers_are_equal(one: Any, other: Any) -> None:
    same = isinstance(one, (str, bool)) == isinstance(other, (str, bool)) and type(one) is type(other)
    numbers = not isinstance(one, (str, bool)) and not isinstance(other, (str, bool))
    expected = float(one) == float(other) if numbers else same and one == other
    assert index_of([{"a": one}]).matches({"a": other}).tolist() == [expected]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([], "a filter must be a dict"),
        ({"a": {"~": 3}}, "the filter on 'a' must have one of the operators"),
        ({"a": {"<": None}}, "takes strings"),
        ({"a": {"<": True}}, "takes a number or a string, got True"),
        ({"a": {"<": [1]}}, "takes one value"),
        ({"a": {"in": 1}}, "takes a list of values"),
        ({"a": {"all": 1}}, "takes a list of values"),
        ({"a": {"all": [1] * 256}}, "at most 256 conditions"),
        ({"and": [{"a": {"all": []}}] * 257}, "at most 256 conditions"),
        ({"a": float("nan")}, "finite numbers"),
        ({"a": "x\0"}, "without NUL"),
        ({"a": "\ud800"}, "takes strings"),
        ({"a": "x" * 1001}, "at most 1,000 characters"),
        ({"a": [[1]]}, "takes strings"),
        ({"a": 10**400}, "an integer of more than 100 digits"),
        ({3: 1}, "names in a filter must be strings of valid Unicode, got 3"),
        ({"\ud800": 1}, r"names in a filter must be strings of valid Unicode, got '\\ud800'"),
        ({"not": {"a\udfff": None}}, "names in a filter must be strings of valid Unicode"),
        ({"or": {"a": 1}}, "'or' in a filter takes a list of filters"),
        ({"not": [1]}, "a filter must be a dict"),
        ({"a": [1.0] * 10_001}, "at most 10,000 values"),
        ({"and": [{"a": [1.0] * 5_000}, {"b": [1.0] * 5_001}]}, "at most 10,000 values"),
        ({"or": [{"a": 1}] * 257}, "at most 256 conditions"),
        ({"or": [{"and": [{"a": 1}] * 16}] * 17}, "at most 256 conditions"),
        ({"and": [{}] * 257}, "at most 256 conditions"),
        ({"and": [{"or": []}] * 257}, "at most 256 conditions"),
        ({"a": {"<": 1, ">": 0}, "or": [{"a": 1}] * 255}, "at most 256 conditions"),
    ],
)
def test_invalid_filters_are_refused(where: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_where(where)


def test_a_filter_may_have_256_conditions() -> None:
    assert index_of([{"a": 1}, {"a": 2}]).matches({"or": [{"a": 1}] * 256}).tolist() == [True, False]


def test_an_endless_filter_is_refused() -> None:
    where: dict[str, Any] = {"a": 1}
    for _ in range(100_000):
        where = {"not": where}
    with pytest.raises(InputError, match="at most 16 deep"):
        parse_where(where)
    while where:
        where = where.pop("not", {})  # avoids recursion when it is deleted


def test_names_of_a_filter() -> None:
    assert names_of(parse_where({"a": {"<": 1, ">": 0}, "or": [{"b": None}, {"not": {"c": [1, None]}}]})) == {
        "a",
        "b",
        "c",
    }
    assert names_of(parse_where({})) == set()
