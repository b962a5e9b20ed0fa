"""Completion finds exactly the labels and titles in which a word starts with the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.service import completing
from dlfh.service.completing import TitleBlock, fold, has_prefix

WORDS = st.lists(st.sampled_from(["red", "Red", "shoe", "shoes", "été", "a-b", "b"]), min_size=1, max_size=4)


def words(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", fold(text)))


@given(st.lists(WORDS.map(", ".join), max_size=8), WORDS.map(" ".join), st.integers(1, 6))
def test_titles_are_found_by_the_start_of_a_word(titles: list[str], typed: str, block: int) -> None:
    prefix = typed[: max(1, len(typed) - 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completing, "_BLOCK", block * 7)
        found = TitleBlock([*map(fold, titles)])
        starting, others = ([*found.find(prefix, starts_line=first)] for first in (True, False))
    expected = [row for row, title in enumerate(titles) if words(prefix) in words(title)]
    assert (
        sorted({*starting, *others})
        == expected
        == [row for row in range(len(titles)) if has_prefix(titles[row], prefix)]
    )
    assert sorted({*starting}) == [row for row in expected if words(titles[row]).startswith(words(prefix))]


def test_case_and_accents_do_not_matter() -> None:
    assert has_prefix("dark Red", "RE")
    assert has_prefix("Été", "ete")
    assert not has_prefix("blurred", "red")


@pytest.mark.parametrize("typed", ["", "?", " - "])
def test_punctuation_alone_finds_nothing(typed: str) -> None:
    block = TitleBlock(["red car", "blue car"])
    assert not [*block.find(typed, starts_line=True), *block.find(typed, starts_line=False)]
    assert not has_prefix("red car", typed)
