"""Results that a person marked re-rank the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.feedback import similarities, updated
from dlfh.datasets import Items, make_paired
from dlfh.errors import DLFHError
from dlfh.features import BagOfWords, Vectors


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """A collection with two labels, of which every second item is known."""
    data = make_paired(400, n_labels=4, noise=4.0, random_state=3)
    truth = [[f"label {label}" for label in np.flatnonzero(row)] for row in data.labels.toarray()]
    items = Items.of(data.modalities, [given if row % 2 else [] for row, given in enumerate(truth)])
    items.metadata[:] = [
        {"columns": {"truth": ";".join(given)}, **each} for given, each in zip(truth, items.metadata, strict=True)
    ]
    encoder = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(32, hash_function="linear", random_state=0))
    built = Collection.build(tmp_path_factory.mktemp("feedback") / "shop", items, encoder, hold_out=20).collection
    yield built
    built.close()


def query(collection: Collection) -> dict[str, Any]:
    n = collection.encoder.model_.n_features_["image"]
    return {"modality": "image", "values": np.random.default_rng(1).normal(size=n).astype(np.float32)}


def share(collection: Collection, result: Any, label: str) -> float:
    return float(np.mean([label in item.metadata["columns"]["truth"] for item in result]))


def test_items_like_relevant_ones_rise_and_like_irrelevant_ones_fall(collection: Collection) -> None:
    asked = query(collection)
    plain = collection.search(**asked, k=400)
    by_label = {
        label: [item.id for item in plain if item.metadata["columns"]["truth"] == label]
        for label in ("label 0", "label 1")
    }
    marks: dict[str, Any] = {"relevant": by_label["label 0"][:3], "irrelevant": by_label["label 1"][:3]}
    marked = collection.search(**asked, k=400, **marks)
    assert {*plain.ids} - {*marked.ids} == {*marks["irrelevant"]}
    assert share(collection, marked[:40], "label 0") > share(collection, plain[:40], "label 0") + 0.2
    assert share(collection, marked[:40], "label 1") < share(collection, plain[:40], "label 1")
    probabilities = [item.probability for item in marked]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < min(probabilities) < max(probabilities) < 1
    before = {item.id: item.probability for item in plain}
    for item in marked:
        assert item.id not in marks["relevant"] or item.probability > before[item.id]


def test_marks_apply_to_every_kind_of_query_that_is_ranked(collection: Collection) -> None:
    ids = collection.similar("1", k=5).ids
    assert ids[0] not in collection.similar("1", k=5, irrelevant=[ids[0]]).ids
    empty = collection.search(**query(collection), relevant=[], irrelevant=[])
    assert empty == collection.search(**query(collection))


def test_irrelevant_items_say_little_about_others_if_all_labels_are_wanted(collection: Collection) -> None:
    asked = query(collection) | {"k": 400, "ranking": "all"}
    plain = {item.id: item.probability for item in collection.search(**asked)}
    wrong = [*plain][:3]
    marked = {item.id: item.probability for item in collection.search(**asked, irrelevant=wrong)}
    assert marked == pytest.approx({name: value for name, value in plain.items() if name not in wrong})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relevant": ["nope"]}, "'nope'"),
        ({"irrelevant": ["nope"], "ranking": "all"}, "'nope'"),
        ({"relevant": ["1"], "irrelevant": ["1"]}, "'1' is both relevant and irrelevant"),
        ({"relevant": ["1"], "radius": 3}, "neither a radius nor a code"),
        ({"irrelevant": "1"}, "irrelevant must be a list of strings"),
    ],
)
def test_mistakes_are_one_sentence(collection: Collection, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DLFHError, match=message):
        collection.search(**query(collection), **options)


def test_an_item_is_most_similar_to_itself(collection: Collection) -> None:
    items = [collection.index.get(name) for name in ("1", "2", "3")]
    covariance = similarities(collection.index, collection.encoder, items)
    places = collection.index.positions(["1", "2", "3"])
    assert (covariance[[0, 1, 2], places] >= covariance.max(axis=1)).all()
    assert abs(np.median(covariance)) < 0.3 * covariance.max()


def test_a_mark_that_was_expected_changes_little() -> None:
    log_odds, covariance = np.array([0.0, 0.0]), np.array([[4.0, 2.0]])
    among, right = np.array([[4.0]]), np.array([True])
    surprised, expected = (updated(log_odds, covariance, np.array([odds]), among, right) for odds in (-3.0, 6.0))
    assert surprised[1] > 1.0
    assert 0 < expected[1] < 0.05
    fallen = updated(log_odds, covariance, np.array([3.0]), among, ~right)
    np.testing.assert_allclose(fallen, -surprised, atol=1e-12)


def test_items_with_words_of_relevant_ones_rise(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["apple", "pear", "plum", "grape", "fig", "lemon"])
    texts = [" ".join(["fruit", *rng.permutation(words)[:2]]) for _ in range(120)]
    images = rng.normal(size=(120, 8)).astype(np.float32)
    items = Items.of({"image": images, "text": texts}, [["a"] if n % 2 else ["b"] for n in range(120)])
    encoder = Encoder({"image": Vectors(), "text": BagOfWords()}, DLFH(16, hash_function="linear", random_state=0))
    with Collection.build(tmp_path / "shop", items, encoder).collection as collection:
        one = [collection.index.get("0")]
        plain, with_words = (
            similarities(collection.index, encoder, one, "any", find)[0]
            for find in (None, collection.searcher.words.matches)
        )
        shared = np.array([len({*text.split()} & {*texts[0].split()}) for text in texts[1:]])
        gained = (with_words - plain)[collection.index.positions([*map(str, range(1, 120))])]
        assert gained[shared == 3].min() > gained[shared == 2].max() > 0 > gained[shared == 1].max()
        assert with_words.argmax() == collection.index.positions(["0"])[0]
