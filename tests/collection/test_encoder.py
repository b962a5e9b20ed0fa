"""A encoder takes raw texts and images, whole or broken, and is saved and loaded as one model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dlfh import DLFH, Encoder, ModelError, NotFittedError, load
from dlfh.collection._encoder import choose_features
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Gist, Vectors
from dlfh.methods import CCAITQ
from dlfh.persistence._model_folder import read_model, write_model


def encoder(n_bits: int = 16) -> Encoder:
    return Encoder({"image": Gist(size=64), "text": BagOfWords()}, DLFH(n_bits=n_bits, random_state=0))


def test_items_with_holes_are_learned_from_where_they_are_whole(items: Items) -> None:
    model = encoder()
    described, trained = model.fit_items(items)
    assert trained.tolist() == sorted({*range(40)} - {3, 4, 5, 7})
    assert [(problem.where, problem.lost) for problem in described.problems] == [
        ("items.csv, line 5", "image"),
        ("items.csv, line 6", "image"),
    ]
    coded = model.code(described, trained)
    assert np.flatnonzero(~coded.present["image"]).tolist() == [3, 4]
    assert np.flatnonzero(~coded.present["text"]).tolist() == [5]
    for name in ("image", "text"):
        assert np.flatnonzero(coded.learned[name]).tolist() == trained.tolist()
        np.testing.assert_array_equal(coded.codes[name][trained], model.codes_[name])
        hashed = np.flatnonzero(coded.present[name] & ~coded.learned[name])
        np.testing.assert_array_equal(
            coded.codes[name][hashed], model.encode(name, [items.modalities[name][row] for row in hashed])
        )


def test_fitting_whole_items_is_fitting_vectors_to_the_method(items: Items) -> None:
    whole = items.take(range(8, 40))
    model = encoder()
    model.fit(whole.modalities, whole.labels)
    vectors = {"image": Gist(size=64).fit_transform(whole.modalities["image"])}
    vectors["text"] = BagOfWords().fit_transform(whole.modalities["text"])
    plain = DLFH(n_bits=16, random_state=0).fit(vectors, whole.labels)
    for name in ("image", "text"):
        np.testing.assert_array_equal(model.codes_[name], plain.codes_[name])
        np.testing.assert_array_equal(model.encode(name, whole.modalities[name]), plain.encode(name, vectors[name]))
        np.testing.assert_array_equal(model.project(name, whole.modalities[name]), plain.project(name, vectors[name]))


def test_a_loaded_pipeline_encodes_raw_values_bit_for_bit_the_same(items: Items, tmp_path: Path) -> None:
    model = encoder(n_bits=12)
    model.fit_items(items)
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert isinstance(copy, Encoder)
    images = [path for row, path in enumerate(items.modalities["image"]) if row not in (3, 4)]
    np.testing.assert_array_equal(copy.project("image", images), model.project("image", images))
    texts = ["upright", "stripes level", "", "unheard of"]
    np.testing.assert_array_equal(copy.project("text", texts), model.project("text", texts))


def test_vectors_pass_through_a_pipeline(paired: tuple, tmp_path: Path) -> None:
    train, test = paired
    model = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(n_bits=16, random_state=0))
    model.fit(train.modalities, train.labels)
    plain = DLFH(n_bits=16, random_state=0).fit(train.modalities, train.labels)
    model.save(tmp_path / "model")
    for name, matrix in test.modalities.items():
        np.testing.assert_array_equal(load(tmp_path / "model").encode(name, matrix), plain.encode(name, matrix))


def test_features_are_chosen_by_what_values_are(items: Items) -> None:
    chosen = choose_features(items)
    assert {name: type(featurizer) for name, featurizer in chosen.items()} == {"image": Gist, "text": BagOfWords}
    vectors = Items(["a"], {"x": np.ones((1, 2))}, None, [{}], ["row 0"], [])
    assert isinstance(choose_features(vectors)["x"], Vectors)


def test_a_method_that_learns_from_pairs_needs_no_labels(items: Items) -> None:
    unlabelled = Items(items.ids, items.modalities, None, items.metadata, items.places, [])
    model = Encoder({"image": Gist(size=64), "text": BagOfWords()}, CCAITQ(n_bits=4, random_state=0))
    described, trained = model.fit_items(unlabelled)
    assert len(trained) == 37
    assert not model.code(described, trained).learned["image"].any()
    with pytest.raises(InputError, match="DLFH learns from labels and the items have none"):
        encoder().fit_items(unlabelled)


def test_wrong_input_is_said_in_a_sentence(items: Items, tmp_path: Path) -> None:
    model = encoder()
    with pytest.raises(NotFittedError, match="Encoder is not fitted"):
        model.encode("text", ["x"])
    with pytest.raises(InputError, match=r"takes a dict of \['image', 'text'\], got \['text'\]"):
        model.fit({"text": ["x"]}, ["a"])
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.describe(Items(["1"], {"sound": ["x"]}, None, [{}], ["row 0"], []))
    with pytest.raises(InputError, match="the items do not have the modality 'image'"):
        model.fit_items(Items(["1"], {"text": ["x"]}, [["a"]], [{}], ["row 0"], []))
    with pytest.raises(InputError, match="nothing to learn from: only one item has image and text and labels"):
        model.fit_items(items.take([0]))
    with pytest.raises(InputError, match="no item has the modality 'text'"):
        model.fit_items(items.take([5]))
    model.fit_items(items)
    with pytest.raises(InputError, match="takes a list of items, got one str"):
        model.encode("text", "x")
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.encode("sound", ["x"])
    with pytest.raises(InputError, match=r"gone\.png does not exist"):
        model.encode("image", [tmp_path / "gone.png"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda features: features.pop("text"), "is damaged"),
        (
            lambda features: features["text"].update(kind="unheard"),
            "it needs the featuriser 'unheard', which is",
        ),
        (lambda features: features.update(text=features["image"]), "do not fit its hash function"),
    ],
)
def test_a_damaged_pipeline_is_not_loaded(items: Items, tmp_path: Path, change: object, sentence: str) -> None:
    model = encoder()
    model.fit_items(items)
    model.save(tmp_path / "model")
    config, arrays = read_model(tmp_path / "model")
    change(config["features"])  # type: ignore[operator]
    write_model(tmp_path / "model", json.loads(json.dumps(config)), arrays)
    with pytest.raises(ModelError, match=sentence):
        load(tmp_path / "model")
