"""Texts name labels by their names, in any case and number, and by words that mean the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.collection.label_names import LabelNames, label_words

NAMES = ["Watches", "Casual Shoes", "Shoes", "Berry", "Navy_Blue", "Blue", "!"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a WATCH, please", [0]),
        ("watches", [0]),
        ("casual shoe", [1]),
        ("shoes, casual", [2]),
        ("navy blue berries", [4, 3]),
        ("blue navy", [5]),
        ("timepiece", [0]),
        ("swatch", []),
        ("", []),
        ("!", []),
    ],
)
def test_names_are_found_in_texts(text: str, labels: list[int]) -> None:
    names = LabelNames(NAMES, {"timepiece": "Watches", "unknown": "No such label"})
    assert [number for _, numbers in names.find(text) for number in numbers] == labels


def test_the_words_of_a_name_are_those_of_the_text() -> None:
    assert [words for words, _ in LabelNames(NAMES, {}).find("Casual SHOES and a Watch")] == [
        ["casual", "shoes"],
        ["watch"],
    ]


def test_a_word_means_a_label_if_it_implies_it_and_is_implied_by_it() -> None:
    texts = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 0], [0, 0, 1]])  # dog, poodle, and a word of two labels
    labels = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]], np.float32)
    assert label_words(["dog", "poodle", "pet"], sp.csr_array(texts), labels) == {"dog": 0}
    assert label_words(["dog", "poodle", "pet"], sp.csr_array(texts[:2]), labels[:2]) == {}
