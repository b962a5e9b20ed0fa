"""Completion finds exactly the labels and titles in which a word starts with the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.service import completing
from dlfh.service.completing import Completer, fold

WORDS = st.lists(st.sampled_from(["red", "Red", "shoe", "shoes", "été", "a-b", "b"]), min_size=1, max_size=4)


def words(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", fold(text)))


@given(st.lists(WORDS.map(", ".join), max_size=8), WORDS.map(" ".join), st.integers(1, 6))
def test_titles_are_found_by_the_start_of_a_word(titles: list[str], typed: str, block: int) -> None:
    prefix = typed[: max(1, len(typed) - 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completing, "_BLOCK", block * 7)
        found = [*Completer([], [*map(fold, titles)]).titles(prefix)]
    expected = [row for row, title in enumerate(titles) if words(prefix) in words(title)]
    assert sorted({*found}) == expected
    starting = [row for row in expected if words(titles[row]).startswith(words(prefix))]
    assert [*dict.fromkeys(found)][: len(starting)] == starting


def test_labels_are_found_most_frequent_first_in_any_case() -> None:
    completer = Completer([("Red", 9), ("dark red", 5), ("Été", 3), ("blurred", 2)], [])
    assert completer.labels("RE", 10) == [("Red", 9), ("dark red", 5)]
    assert completer.labels("re", 1) == [("Red", 9)]
    assert completer.labels("ete", 10) == [("Été", 3)]
