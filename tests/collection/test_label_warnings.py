"""Labels that make everything or nothing a right answer are worth a warning, in building and in evaluating."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.label_warnings import warn_of_labels, warn_of_strangers
from dlfh.datasets import Items
from dlfh.errors import DataWarning
from dlfh.features import BagOfWords

TEXTS = ["a red car", "a blue car", "a small dog", "a big dog"]


def encoder() -> Encoder:
    return Encoder(
        {"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=8, random_state=0, hash_function="linear")
    )


def items(labels: list[list[str]]) -> Items:
    return Items.of({"text": TEXTS, "title": TEXTS}, labels, ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([["x"]] * 4, "all of 4 items have the label 'x'"),
        ([["x", "a"], ["x"], ["b", "x"], ["x"]], "all of 4 items have the label 'x'"),
        ([["a"], ["b"], ["c"], ["d"]], "no two of 4 items share a label"),
    ],
)
def test_labels_that_tell_nothing_are_said_to(labels: list[list[str]], sentence: str, tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match=sentence):
        Collection.build(tmp_path / "shop", items(labels), encoder()).collection.close()


def test_labels_that_are_shared_by_some_are_no_reason_for_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in ([["a"], ["a"], ["b"]], [["a"], ["a", "b"], ["b"]], [["a"], []], []):
            warn_of_labels(labels)
        for queries, database in (([["a"]], [["b"], ["a"]]), ([[]], [["a"]]), ([], [])):
            warn_of_strangers(queries, database)


def test_queries_that_share_no_label_with_the_database_are_said_to(tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", items([["car"], ["car"], ["dog"], ["dog"]]), encoder())
    asked = replace(items([["Car"], ["Car"], ["Dog"], ["Dog"]]), ids=["e", "f", "g", "h"])
    with built.collection as collection, pytest.warns(DataWarning, match="share no label, .* as 'Car', .* as 'car'"):
        collection.evaluate(asked)
