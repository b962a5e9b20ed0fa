"""Building and evaluating warn of labels that make every item relevant to every other, or none."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.label_warnings import warn_of_disjoint_labels, warn_of_labels
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
    ("labels", "message"),
    [
        ([["x"]] * 4, "all 4 items have the label 'x'"),
        ([["x", "a"], ["x"], ["b", "x"], ["x"]], "all 4 items have the label 'x'"),
        ([["a"], ["b"], ["c"], ["d"]], "no two of 4 items share a label"),
    ],
)
def test_labels_of_all_items_or_of_one_each_cause_a_warning(
    labels: list[list[str]], message: str, tmp_path: Path
) -> None:
    with pytest.warns(DataWarning, match=message):
        Collection.build(tmp_path / "shop", items(labels), encoder()).collection.close()


def test_labels_that_some_items_share_cause_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in ([["a"], ["a"], ["b"]], [["a"], ["a", "b"], ["b"]], [["a"], []], []):
            warn_of_labels(labels)
        for queries, database in (([["a"]], [["b"], ["a"]]), ([[]], [["a"]]), ([], [])):
            warn_of_disjoint_labels(queries, database)


def test_queries_without_a_label_of_the_database_cause_a_warning(tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", items([["car"], ["car"], ["dog"], ["dog"]]), encoder())
    asked = replace(items([["Car"], ["Car"], ["Dog"], ["Dog"]]), ids=["e", "f", "g", "h"])
    with built.collection as collection, pytest.warns(DataWarning, match="share no label, .* is 'Car', .* 'car'"):
        collection.evaluate(asked)
