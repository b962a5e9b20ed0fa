"""Labels in cells: what separates them is found, and what looks wrong is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.datasets import Items, read_items
from dlfh.datasets.label_cells import labels_in_cells
from dlfh.errors import DataWarning

PATH = Path("items.csv")
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)


def quietly(cells: list[Any], separator: str | None = None) -> list[list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return labels_in_cells(cells, separator, PATH)


@pytest.mark.parametrize("mark", [";", "|", ",", "\t"])
def test_separators_are_found(mark: str) -> None:
    assert quietly([f"car{mark}red", f" car{mark} blue ", "dog", None, ""]) == [
        ["car", "red"],
        ["car", "blue"],
        ["dog"],
        [],
        [],
    ]


def test_what_most_cells_have_separates_them() -> None:
    cells = ["car, red", "car, blue", "dog, small", "a;b"]
    with pytest.warns(DataWarning, match="separated by ',', and some have ';'"):
        assert labels_in_cells(cells, None, PATH)[3] == ["a;b"]


@given(st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=5))
def test_lists_of_python_are_read_as_lists_and_said_to_be(labels: list[list[str]]) -> None:
    with pytest.warns(DataWarning, match="look like lists of Python or JSON"):
        read = labels_in_cells([str(own) for own in labels], None, PATH)
    plain = [[label for label in own if label.isprintable() and "\\" not in label] for own in labels]
    for own, found, kept in zip(labels, read, plain, strict=True):
        if own == kept:  # Python spells out what cannot be printed
            assert found == list(dict.fromkeys(label.strip() for label in own))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (['["car", "red"]', "[]", "['dog']"], [["car", "red"], [], ["dog"]]),
        (["{car,red}", "{dog}"], [["car", "red"], ["dog"]]),
        (["(1, 2)", "(3,)"], [["1", "2"], ["3"]]),
        (["[[1, 2]]", "['a' 'b']"], [["[1", "2]"], ["'a' 'b'"]]),
    ],
)
def test_lists_of_other_kinds_are_read_too(cells: list[str], expected: list[list[str]]) -> None:
    with pytest.warns(DataWarning, match="look like lists"):
        assert labels_in_cells(cells, None, PATH) == expected


def test_a_separator_that_was_not_found_is_said() -> None:
    colours, things = ("red", "blue", "green", "white"), ("car", "dog", "cat", "hat")
    for mark in ("/", " ", "+"):
        cells = [f"{colour}{mark}{thing}" for colour in colours for thing in things]
        with pytest.warns(DataWarning, match=f"have '\\{mark}' in them: .* 8 of these 16; .*--separator"):
            labels_in_cells(cells, None, PATH)
        assert quietly(cells, mark)[0] == ["red", "car"]
    with pytest.warns(DataWarning, match="most labels of items.csv have ';'"):
        labels_in_cells([f"{colour};{thing}" for colour in colours for thing in things], "|", PATH)


def test_labels_of_several_words_are_no_reason_for_a_warning() -> None:
    assert quietly(["living room", "dining table", "garden chair", "kitchen sink", "car"])[0] == ["living room"]


def test_a_string_is_one_label_and_not_its_letters() -> None:
    assert Items.of({"text": ["a", "b"]}, labels=["car", "dog"]).labels == [["car"], ["dog"]]


def test_warnings_name_the_table(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("text,tags\na,\"['x', 'y']\"\nb,\"['x']\"\n")
    with pytest.warns(DataWarning, match=r"items\.csv look like lists"):
        assert read_items(tmp_path / "items.csv", text="text", labels="tags").labels == [["x", "y"], ["x"]]
