"""A build never refuses for want of labels: words that other content predicts count as labels, or likeness does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.supervision import are_enough, choose_words, named, supervise
from dlfh.datasets import Items
from dlfh.features import BagOfWords, Vectors
from dlfh.methods import CCAITQ, CVH, CrossModalHasher

N_ITEMS = 240
KINDS = ("cats", "dog", "horse")


@pytest.fixture(scope="module")
def items() -> Items:
    """Images of three kinds, with captions that name the kind, a word without meaning, and the photographer."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, N_ITEMS)
    image = (np.eye(3)[kinds] @ rng.normal(size=(3, 12)) * 2 + rng.normal(size=(N_ITEMS, 12))).astype(np.float32)
    noise = rng.choice(["monday", "tuesday", "friday"], N_ITEMS)
    texts = [f"the {KINDS[kind]} on {day} by {row}" for row, (kind, day) in enumerate(zip(kinds, noise, strict=True))]
    return Items.of({"image": image, "text": texts})


def encoder(model: CrossModalHasher | None = None) -> Encoder:
    return Encoder(
        {"image": Vectors(), "text": BagOfWords()}, model or DLFH(16, hash_function="linear", random_state=0)
    )


def test_words_that_the_other_modality_predicts_are_chosen(items: Items) -> None:
    found = choose_words(encoder().featurizers, items)
    assert sorted(found) == ["cat", "dog", "horse"]  # neither days nor stop words, and in the singular


def test_a_collection_without_labels_learns_from_words(items: Items, tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", items, encoder())
    assert built.learned_from.startswith("Learned from 3 words of the texts that the other content predicts")
    assert built.collection.encoder.word_labels_ == {"cat": "cat", "dog": "dog", "horse": "horse"}
    built.collection.close()
    with Collection.open(tmp_path / "shop", writable=True) as collection:
        assert not any((item.metadata or {}).get("labels") for item in collection)
        dogs = [row for row, text in enumerate(items.modalities["text"]) if "dog" in text]
        # An image without a caption is found by its word.
        collection.add(Items.of({"image": items.modalities["image"][dogs[:3]]}, ids=["x", "y", "z"]))
        found = collection.search("text", "dogs", k=len(dogs) + 3)
        assert len({"x", "y", "z"} & {*found.ids}) >= 2
        assert sum("dog" in item.metadata.get("text", "dog") for item in found) > 0.9 * len(found)
        assert not found.notes
        # A few labels are learned beside the words; many replace them.
        kinds = [next(kind for kind in KINDS if kind in text) for text in items.modalities["text"]]
        for row in range(12):
            collection.label([str(row)], add=[kinds[row].upper(), "new"])
        collection.relearn()
        assert collection.encoder.word_labels_ == {"cat": "CATS", "dog": "DOG", "horse": "HORSE"}
        assert {*collection.encoder.model_.label_names_} == {"CATS", "DOG", "HORSE", "new"}
        for row in range(12, 120):
            collection.label([str(row)], add=[kinds[row].upper()])
        collection.relearn()
        assert collection.encoder.word_labels_ == {}
        right = [label == kinds[int(name)].upper() for name, label, _ in collection.suggest(k=1) if name.isdigit()]
        assert np.mean(right) > 0.9


def test_items_without_predictable_words_are_learned_by_likeness(items: Items, tmp_path: Path) -> None:
    shuffled = [f"photo {row}" for row in range(N_ITEMS)]
    alone = Items.of({"image": items.modalities["image"]})
    texts = Items.of({"text": items.modalities["text"]})
    numbered = Items.of({"image": items.modalities["image"], "text": shuffled})
    for part, said in (
        (alone, "the likeness of each image"),
        (texts, "the likeness of each text"),
        (numbered, "which image and text belong together"),
    ):
        made = Encoder({name: encoder().featurizers[name] for name in part.modalities}, DLFH(16, random_state=0))
        folder = tmp_path / "-".join(part.modalities)
        built = Collection.build(folder, part, made)
        assert said in built.learned_from
        assert isinstance(built.collection.encoder.model_, CCAITQ)
        assert len(built.collection.similar("0", k=3)) == 3
        built.collection.close()
    with Collection.open(tmp_path / "text") as collection:
        assert all("horse" in item.metadata["text"] for item in collection.search("text", "horse friday", k=5))
    # Items of one modality can be taught, too.
    with Collection.open(tmp_path / "image", writable=True) as collection:
        kinds = [next(kind for kind in KINDS if kind in text) for text in items.modalities["text"]]
        for row in range(40):
            collection.label([str(row)], add=[kinds[row]])
        assert collection.relearn().n_labels == 3
        found = collection.suggest(precision=0.6, k=1)
        assert np.mean([label == kinds[int(name)] for name, label, _ in found]) > 0.6
        assert len(found) > 100


def test_few_labels_are_joined_by_words_and_enough_are_not(items: Items) -> None:
    few = [["dog"] if "dog" in text and row < 20 else [] for row, text in enumerate(items.modalities["text"])]
    taught, sentence = supervise(encoder(), replace(items, labels=few))
    assert "and from 3 words" in sentence
    assert sum(map(bool, taught.labels or [])) == N_ITEMS
    all_labels = [["dog"]] * 100 + [[]] * (N_ITEMS - 100)
    unchanged, sentence = supervise(encoder(), replace(items, labels=all_labels))
    assert sentence == "Learned from the labels of 100 items."
    assert unchanged.labels == all_labels
    assert supervise(encoder(CCAITQ(16)), items)[0] is items


def test_three_modalities_without_words_have_an_unsupervised_method(items: Items) -> None:
    image = items.modalities["image"]
    three = Items.of({"image": image, "sound": image[:, :4], "depth": image[:, 4:]})
    made = Encoder({name: Vectors() for name in three.modalities}, DLFH(8, random_state=0))
    supervise(made, three)
    assert isinstance(made.model, CVH)


@pytest.mark.parametrize(
    ("n_labelled", "n_items", "enough"), [(0, 2, False), (2, 3, True), (99, 1000, False), (100, 10**4, True)]
)
def test_half_of_the_items_or_a_hundred_are_enough(n_labelled: int, n_items: int, enough: bool) -> None:
    assert are_enough([["a"]] * n_labelled + [[]] * (n_items - n_labelled)) is enough


def test_words_stand_for_the_labels_that_they_name() -> None:
    assert named(["shoe", "red"], [["Shoes", "on sale"], []]) == {"shoe": "Shoes", "red": "red"}


def test_few_labels_are_guessed_beside_words_and_words_are_not_suggested(items: Items, tmp_path: Path) -> None:
    kinds = [next(kind for kind in KINDS if kind in text) for text in items.modalities["text"]]
    few = [[f"kind {kind}"] if row % 8 == 0 else [] for row, kind in enumerate(kinds)]
    about = [{**each, "labels": given} for each, given in zip(items.metadata, few, strict=True)]
    built = Collection.build(tmp_path / "shop", replace(items, labels=few, metadata=about), encoder())
    with built.collection as collection:
        assert {*collection.encoder.model_.label_names_} > {"cat", "kind cats"}
        found = collection.suggest(precision=0.5)
        assert {label for _, label, _ in found} <= {f"kind {kind}" for kind in KINDS}
        assert np.mean([label == f"kind {kinds[int(name)]}" for name, label, _ in found]) > 0.8
        assert len(found) > 100


def test_a_word_stands_for_a_label_only_where_labels_are_unknown(items: Items) -> None:
    made = encoder()
    made.word_labels_ = {"dog": "Dogs", "horse": "horse"}
    texts = [{"text": "a dog on a horse"}] * 2
    assert made.with_words([["old"], []], texts) == [["old", "horse"], ["Dogs", "horse"]]
