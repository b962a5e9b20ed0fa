"""Negated terms of queries are excluded, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.negation import split_negated
from dlfh.collection.understanding import LabelNames

NAMES = LabelNames(["Red", "Navy Blue", "Casual Shoes", "Watches", "Black"], {})
KNOWN = {"no smoking", "strap", "black and white", "why not", "minus", "not a hat"}


def split(text: str) -> tuple[str, tuple[str, ...]]:
    kept, excluded = split_negated(text, KNOWN.__contains__, NAMES.name_length)
    return " ".join(kept), tuple(excluded)


@pytest.mark.parametrize(
    ("text", "kept", "excluded"),
    [
        ("not black shoes", "shoes", ["black"]),
        ("shoes not black", "shoes", ["black"]),
        ("shoes not black leather", "shoes leather", ["black"]),  # a label ends the term
        ("shoes -black", "shoes", ["black"]),
        ('shoes -"high heels" red', "shoes red", ["high heels"]),
        ("shoes without the leather", "shoes", ["leather"]),
        ("shoes without long laces", "shoes", ["long laces"]),
        ("shoes without black laces for men", "shoes for men", ["black laces"]),
        ("shoes without leather and heels", "shoes", ["leather", "heels"]),
        ("shoes without leather and with heels", "shoes and with heels", ["leather"]),
        ("shoes without laces, heels or straps", "shoes", ["laces", "heels", "straps"]),
        ("shoes, without laces, brown", "shoes, brown", ["laces"]),
        ("not red or black shoes", "shoes", ["red", "black"]),
        ("not red and black shoes", "and black shoes", ["red"]),
        ("neither red nor black shoes", "shoes", ["red", "black"]),
        ("house with no windows and a red door", "house and a red door", ["windows"]),
        ("boats but not sailing boats", "boats", ["sailing"]),
        ("belt other than black", "belt", ["black"]),
        ("any colour but black", "any colour", ["black"]),
        ("anything but jeans", "", ["jeans"]),
        ("anything except casual shoes", "anything", ["casual shoes"]),
        ("shoes but not navy blue", "shoes", ["navy blue"]),
        ("trees that don't have leaves", "trees", ["leaves"]),
        ("trees that aren’t covered in snow", "trees", ["snow"]),
        ("non-leather belt", "belt", ["leather"]),
        ("strapless dress", "dress", ["strap"]),
        ("sugar-free tea", "tea", ["sugar"]),
        ("hats rather than caps", "hats", ["caps"]),
        ("photo not black and white", "photo", ["black and white"]),
        ("a man without a hat", "a man", ["hat"]),
    ],
)
def test_negation_excludes_what_follows(text: str, kept: str, excluded: list[str]) -> None:
    assert split(text) == (kept, tuple(excluded))


@pytest.mark.parametrize(
    "text",
    [
        "no smoking",  # texts have it
        "not a hat",
        "shoes not",
        "not only red shoes",
        "no. 5 perfume",
        "no pets sign",
        "do not disturb",
        "minus one",  # a word of the collection
        '"not red" shirt',
        "nothing but red",
        "wireless",
        "t-shirt",
        "-5",
        "24 - 7 clock",
        "Shoes",
    ],
)
def test_names_and_other_words_exclude_nothing(text: str) -> None:
    assert split(text) == (text, ())


@given(
    st.lists(st.sampled_from(["not", "no", "or", "and", "red,", "shoes", "without", "a", "-x", "but", '"']), max_size=8)
)
def test_every_word_is_kept_excluded_or_part_of_a_negation(words: list[str]) -> None:
    kept, excluded = split_negated(" ".join(words), KNOWN.__contains__, NAMES.name_length)
    assert {word.strip(",") for term in excluded for word in term.split()} <= {word.strip(",-") for word in words}
    assert all(word in words or word.startswith('"') for word in kept)
    assert all(excluded)
