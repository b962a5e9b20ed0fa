"""The separator of labels is detected, and columns that look misread cause a warning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.datasets import Items, read_items
from dlfh.datasets.label_cells import parse_label_column
from dlfh.errors import DataWarning

PATH = Path("items.csv")
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)


def quietly(cells: list[Any], separator: str | None = None) -> list[list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parse_label_column(cells, separator, PATH)


@pytest.mark.parametrize("mark", [";", "|", ",", "\t"])
def test_separators_are_found(mark: str) -> None:
    assert quietly([f"car{mark}red", f" car{mark} blue ", "dog", None, ""]) == [
        ["car", "red"],
        ["car", "blue"],
        ["dog"],
        [],
        [],
    ]


def test_the_most_frequent_separator_wins() -> None:
    cells = ["car, red", "car, blue", "dog, small", "a;b"]
    with pytest.warns(DataWarning, match="are split at ',', but some contain ';'"):
        assert parse_label_column(cells, None, PATH)[3] == ["a;b"]


@given(st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=5))
def test_python_lists_are_read_as_lists_with_a_warning(labels: list[list[str]]) -> None:
    with pytest.warns(DataWarning, match="look like Python or JSON lists"):
        read = parse_label_column([str(row) for row in labels], None, PATH)
    for row, found in zip(labels, read, strict=True):
        if all(label.isprintable() and "\\" not in label for label in row):  # Python escapes other characters
            assert found == list(dict.fromkeys(label.strip() for label in row))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (['["car", "red"]', "[]", "['dog']"], [["car", "red"], [], ["dog"]]),
        (["{car,red}", "{dog}"], [["car", "red"], ["dog"]]),
        (["(1, 2)", "(3,)"], [["1", "2"], ["3"]]),
        (["[[1, 2]]", "['a' 'b']"], [["[1", "2]"], ["'a' 'b'"]]),
    ],
)
def test_other_kinds_of_lists_are_read(cells: list[str], expected: list[list[str]]) -> None:
    with pytest.warns(DataWarning, match="look like Python or JSON lists"):
        assert parse_label_column(cells, None, PATH) == expected


def test_a_separator_that_is_not_recognised_causes_a_warning() -> None:
    colours, things = ("red", "blue", "green", "white"), ("car", "dog", "cat", "hat")
    for mark in ("/", " ", "+"):
        cells = [f"{colour}{mark}{thing}" for colour in colours for thing in things]
        with pytest.warns(DataWarning, match=f"contain '\\{mark}': .* turn 16 labels into 8; .*--separator"):
            parse_label_column(cells, None, PATH)
        assert quietly(cells, mark)[0] == ["red", "car"]
    with pytest.warns(DataWarning, match="most labels in items.csv contain ';'"):
        parse_label_column([f"{colour};{thing}" for colour in colours for thing in things], "|", PATH)


def test_labels_of_several_words_cause_no_warning() -> None:
    assert quietly(["living room", "dining table", "garden chair", "kitchen sink", "car"])[0] == ["living room"]


def test_a_string_is_one_label() -> None:
    assert Items.of({"text": ["a", "b"]}, labels=["car", "dog"]).labels == [["car"], ["dog"]]


def test_warnings_name_the_table(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("text,tags\na,\"['x', 'y']\"\nb,\"['x']\"\n")
    with pytest.warns(DataWarning, match=r"items\.csv look like Python or JSON lists"):
        assert read_items(tmp_path / "items.csv", text="text", labels="tags").labels == [["x", "y"], ["x"]]
