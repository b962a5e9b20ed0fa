"""Search requests are validated, and results print, can be sliced, and convert to JSON and HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dlfh.collection import SearchOptions
from dlfh.collection.query import ResultItem, SearchResult, html_table, is_single
from dlfh.errors import InputError

ONE = [
    ("texts", "a red car"),
    ("texts", ""),
    ("texts", 3),
    ("texts", None),
    ("images", "car.jpg"),
    ("images", Path("car.jpg")),
    ("images", b"bytes"),
    ("images", bytearray(b"bytes")),
    ("images", Image.new("L", (2, 2))),
    ("images", np.zeros((9, 5))),
    ("images", np.zeros((9, 5, 3))),
    ("images", np.zeros((9, 5, 4))),
    ("vectors", [1.0, 2.0]),
    ("vectors", np.zeros(3)),
    ("vectors", "no vector"),
    ("vectors", sp.coo_array(np.ones(3))),
]
SEVERAL = [
    ("texts", ["a red car"]),
    ("texts", ("a", "b")),
    ("texts", np.array(["a", "b"])),
    ("texts", (text for text in ["a", "b"])),
    ("texts", []),
    ("images", ["car.jpg", np.zeros((9, 5))]),
    ("images", [Path("car.jpg")]),
    ("images", np.zeros((2, 9, 5, 3))),
    ("images", np.zeros((2, 9, 5))),
    ("images", np.array([Path("a"), Path("b")], object)),
    ("vectors", [[1.0, 2.0]]),
    ("vectors", [np.zeros(3), np.zeros(3)]),
    ("vectors", np.zeros((1, 3))),
    ("vectors", sp.csr_array(np.ones((2, 3)))),
]


@pytest.mark.parametrize(("takes", "value"), ONE)
def test_single_values(takes: str, value: Any) -> None:
    assert is_single(value, takes)


@pytest.mark.parametrize(("takes", "value"), SEVERAL)
def test_batches(takes: str, value: Any) -> None:
    assert not is_single(value, takes)


def test_options_are_validated_on_creation() -> None:
    for options, message in (
        ({"k": 0}, "k must be an integer of at least 1"),
        ({"modalities": []}, "modalities is empty"),
        ({"modalities": 3}, "modalities must be a list of strings, got int"),
        ({"ids": "a"}, "ids must be a list of strings, got str"),
        ({"ids": ["a", 3]}, "ids must be a list of strings, but it contains 3"),
        ({"match": "sounds"}, "match must be one of 'codes', 'words', 'both'"),
        ({"ranking": "best"}, "ranking must be one of 'all', 'any', 'asymmetric', 'hamming'"),
        ({"hashed_only": 1}, "hashed_only must be"),
        ({"min_probability": 1}, "min_probability must be a number greater than 0 and less than 1"),
        ({"radius": -1}, "radius must be an integer"),
        ({"where": {"price": {"~": 3}}}, "price"),
    ):
        with pytest.raises(InputError, match=message):
            SearchOptions(**options)
    assert SearchOptions(modalities=["a", "a"][:1], ids=["x"], where={}) == SearchOptions(modalities=("a",), ids=("x",))


def test_a_result_prints_and_can_be_sliced() -> None:
    items = [ResultItem(rank, f"{rank}.png", {"text": "x"}, learned=rank > 2) for rank in range(1, 5)]
    result = SearchResult(items, "00ff", modalities=("image",), warning="careful")
    assert result[0].rank == 1
    assert result[:2].ids == result.ids[:2]
    assert (result[:2].code, result[:2].modalities, result[:2].warning) == ("00ff", ("image",), "careful")
    assert [item.id for item in result] == result.ids
    assert str(result).splitlines()[2] == "3. 3.png: x"
    assert repr(result) == "SearchResult(4 items: 1.png, 2.png, 3.png, ...)"
    assert (str(result[:0]), repr(result[:0])) == ("nothing found", "SearchResult(0 items)")
    assert json.loads(json.dumps(result.to_dicts()))[3]["id"] == result[3].id
    assert result == SearchResult(items)
    assert result != result[:2]
    assert result != items


def test_details_are_shown_on_request_only() -> None:
    metadata = {"text": "a & b", "image": "x.png", "labels": ["x", "y"], "columns": {"price": 3}}
    result = SearchResult([ResultItem(1, "<b>", metadata, 0.875, 12, 3, 1.25, False)])
    assert str(result) == "1. <b> (88%, x, y): a & b | x.png"
    assert result.table(hidden=["image"]) == (
        ["", "text", "labels", "probability", "id"],
        [[1, "a & b", "x, y", "88%", "<b>"]],
    )
    assert result.table(details=True)[1][0][-3:] == [12, 3, "hashed"]
    assert "<td>a &amp; b | x.png</td><td>x, y</td><td>88%</td><td>&lt;b&gt;</td>" in result._repr_html_()
    assert "hashed" not in result._repr_html_()
    assert "<td>hashed</td>" in result.to_html(details=True)
    assert "nothing found" in result[:0]._repr_html_()


def test_columns_without_values_are_omitted() -> None:
    assert SearchResult([ResultItem(1, "a", {})]).table() == (["", "id"], [[1, "a"]])


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_html_tables_escape_all_text(words: str) -> None:
    cells = Cells()
    cells.feed(html_table(["id"], [[words]]))
    cells.close()
    assert cells.tags == ["table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert cells.words == "id" + words
