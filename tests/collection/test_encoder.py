"""An encoder takes raw texts and images, complete or not, and is saved and loaded as one model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dlfh import DLFH, Encoder, ModelError, NotFittedError, load
from dlfh._persistence.model_folder import read_model, write_model
from dlfh.codes import hamming_distances
from dlfh.datasets import Items, Paired
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Gist, Vectors
from dlfh.methods import CCAITQ, SCM


def encoder(n_bits: int = 16) -> Encoder:
    return Encoder(
        {"image": Gist(size=64), "text": BagOfWords()}, DLFH(n_bits=n_bits, random_state=0, hash_function="linear")
    )


def test_incomplete_items_are_learned_from(items: Items) -> None:
    model = encoder()
    training = model.fit_items(items)
    assert training.items.tolist() == sorted({*range(40)} - {7})  # 7 has no labels
    assert (len(training), training.n_incomplete) == (39, 3)
    assert [(problem.where, problem.skipped) for problem in training.vectors.problems] == [
        ("items.csv, line 5", "image"),
        ("items.csv, line 6", "image"),
    ]
    coded = model.encode_items(training.vectors, items.labels, training)
    missing = {"image": [3, 4], "text": [5]}
    for name in ("image", "text"):
        assert np.flatnonzero(~coded.present[name]).tolist() == missing[name]
        learned = np.setdiff1d(training.items, missing[name])
        assert np.flatnonzero(coded.is_learned[name]).tolist() == learned.tolist()
        rows = np.searchsorted(training.items, learned)
        np.testing.assert_array_equal(coded.learned[name][learned], model.codes_[name][rows])
        for row in (0, 7):  # trained with or not, every item has a hashed code too
            hashed = model.encode(name, [items.modalities[name][row]])[0]
            np.testing.assert_array_equal(coded.hashed[name][row], hashed)


def test_fitting_incomplete_items_equals_fitting_the_method_with_masks(items: Items) -> None:
    model = encoder()
    vectors = model.fit_items(items).vectors
    rows = np.setdiff1d(np.arange(40), [7])
    matrices, present = {}, {}
    for name in ("image", "text"):
        dense = vectors.matrices[name].toarray() if name == "text" else vectors.matrices[name]
        every = np.full((40, dense.shape[1]), np.nan, dense.dtype)
        every[vectors.positions[name]] = dense
        matrices[name], present[name] = every[rows], vectors.present(name)[rows]
    labels = [(items.labels or [])[row] for row in rows]
    plain = DLFH(n_bits=16, random_state=0, hash_function="linear").fit(matrices, labels, present=present)
    for name in ("image", "text"):
        np.testing.assert_array_equal(model.codes_[name], plain.codes_[name])
    texts = ["upright", "level stripes"]
    dense_texts = model.featurize("text", texts).toarray()
    np.testing.assert_array_equal(model.encode("text", texts), plain.encode("text", dense_texts))


def test_missing_vectors_are_padded_with_zeros(items: Items) -> None:
    vectors = encoder().fit_items(items).vectors
    rows = np.arange(2, 8)
    for name, missing in (("image", [1, 2]), ("text", [3])):
        padded = vectors.take_padded(name, rows)
        dense = padded if name == "image" else padded.toarray()
        assert np.flatnonzero(~dense.any(axis=1)).tolist() == missing
        own = np.setdiff1d(np.arange(6), missing)
        taken = vectors.take(name, rows[own])
        np.testing.assert_array_equal(dense[own], taken if name == "image" else taken.toarray())
        assert padded.dtype == taken.dtype


def test_complete_items_get_the_codes_of_complete_data(items: Items) -> None:
    whole = items.take(range(8, 40))
    by_items, by_values = encoder(), encoder()
    training = by_items.fit_items(whole)
    by_values.fit(whole.modalities, whole.labels)
    assert (len(training), training.n_incomplete) == (32, 0)
    for name in ("image", "text"):
        np.testing.assert_array_equal(by_items.codes_[name], by_values.codes_[name])
        values = whole.modalities[name]
        np.testing.assert_array_equal(by_items.project(name, values), by_values.project(name, values))


@pytest.mark.parametrize(
    "model",
    [SCM(n_bits=4), DLFH(n_bits=16, shared_code=True, random_state=0, hash_function="linear")],
    ids=["SCM", "shared"],
)
def test_methods_that_need_complete_data_learn_from_complete_items(items: Items, model: Any) -> None:
    complete = Encoder({"image": Gist(size=64), "text": BagOfWords()}, model)
    training = complete.fit_items(items)
    assert training.items.tolist() == sorted({*range(40)} - {3, 4, 5, 7})
    assert training.n_incomplete == 0


def test_self_training_learns_from_unlabelled_items(items: Items) -> None:
    labels = [own if row % 4 < 2 else [] for row, own in enumerate(items.labels or [])]
    some = replace(items, labels=labels)
    known = np.flatnonzero(some.labelled())
    plain = encoder()
    training = plain.fit_items(some)
    assert training.items.tolist() == known.tolist()
    taught = Encoder(plain.featurizers, DLFH(n_bits=16, random_state=0, self_training=1, hash_function="linear"))
    more = taught.fit_items(some)
    assert len(more) == 40
    assert more.n_incomplete == 40 - len(known) + 2  # two that lack an image or a text have labels
    assert [mask.sum() for mask in more.learned.values()] == [mask.sum() for mask in training.learned.values()]
    assert (
        taught.project("image", items.modalities["image"][8:]) != plain.project("image", items.modalities["image"][8:])
    ).any()


def test_any_of_three_modalities_may_be_missing() -> None:
    kinds = np.array(["red car", "blue sea", "green tree"])[np.arange(60) % 3]
    texts = {name: [f"{kind} {name}{row % 5}" for row, kind in enumerate(kinds)] for name in ("a", "b", "c")}
    for place, name in enumerate(texts):
        for row in range(place, 60, 7):
            texts[name][row] = None  # type: ignore[call-overload]
    items = Items.of(texts, [[kind] for kind in kinds])
    model = Encoder({name: BagOfWords() for name in texts}, DLFH(n_bits=16, random_state=0, hash_function="linear"))
    training = model.fit_items(items)
    assert (len(training), training.n_incomplete) == (60, 27)
    queries = ["red car", "blue sea", "green tree"]
    distances = hamming_distances(model.encode("c", queries), model.encode("a", queries))
    assert distances.argmin(axis=1).tolist() == [0, 1, 2]


def test_modalities_without_labelled_items_are_refused() -> None:
    texts = {"a": ["x y", "y z", None, None], "b": [None, None, "u v", "v w"]}
    model = Encoder({name: BagOfWords() for name in texts}, DLFH(n_bits=8, random_state=0, hash_function="linear"))
    with pytest.raises(InputError, match="modalities 'a' and 'b' never overlap"):
        model.fit_items(Items.of(texts, [["p"], ["q"], ["p"], ["q"]]))
    only_a = Items.of({"a": ["x y", "y z", "x"], "b": [None, None, "u v"]}, [["p"], ["q"], []])
    with pytest.raises(InputError, match="no labelled item has the modality 'b'"):
        model.fit_items(only_a)


def test_fitting_does_not_change_its_arguments(items: Items) -> None:
    whole = items.take(range(8, 40))
    featurizer, learner = BagOfWords(), DLFH(n_bits=16, random_state=np.random.default_rng(0), hash_function="linear")
    model = Encoder({"image": Gist(size=64), "text": featurizer}, learner)
    for fit in (lambda: model.fit(whole.modalities, whole.labels), lambda: model.fit_items(whole)):
        copy = clone(model)
        with pytest.raises(sklearn.exceptions.NotFittedError):
            check_is_fitted(copy)
        fit()
        check_is_fitted(model)
        for given in (featurizer, learner):
            assert not [name for name in vars(given) if name.endswith("_")]
        assert model.featurizers["text"] is featurizer
        assert model.model is learner
        with pytest.raises(sklearn.exceptions.NotFittedError):
            check_is_fitted(clone(model))
    first = model.project("text", ["level"])
    np.testing.assert_array_equal(model.fit_items(whole) and model.project("text", ["level"]), first)


def test_a_failed_fit_does_not_change_the_encoder(items: Items) -> None:
    model = encoder()
    model.fit_items(items)
    before = model.project("text", ["level"])
    with pytest.raises(InputError, match="nothing to learn from"):
        model.fit_items(items.take([0]))
    np.testing.assert_array_equal(model.project("text", ["level"]), before)


def test_fitting_complete_items_equals_fitting_the_method_to_vectors(items: Items) -> None:
    whole = items.take(range(8, 40))
    model = encoder()
    model.fit(whole.modalities, whole.labels)
    vectors = {"image": Gist(size=64).fit_transform(whole.modalities["image"])}
    vectors["text"] = BagOfWords().fit_transform(whole.modalities["text"])
    plain = DLFH(n_bits=16, random_state=0, hash_function="linear").fit(vectors, whole.labels)
    for name in ("image", "text"):
        np.testing.assert_array_equal(model.codes_[name], plain.codes_[name])
        np.testing.assert_array_equal(model.encode(name, whole.modalities[name]), plain.encode(name, vectors[name]))
        np.testing.assert_array_equal(model.project(name, whole.modalities[name]), plain.project(name, vectors[name]))


def test_a_loaded_encoder_encodes_raw_values_bit_for_bit_the_same(items: Items, tmp_path: Path) -> None:
    model = encoder(n_bits=12)
    model.fit_items(items)
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert isinstance(copy, Encoder)
    images = [path for row, path in enumerate(items.modalities["image"]) if row not in (3, 4)]
    np.testing.assert_array_equal(copy.project("image", images), model.project("image", images))
    texts = ["upright", "stripes level", "", "unheard of"]
    np.testing.assert_array_equal(copy.project("text", texts), model.project("text", texts))


def test_vectors_pass_through_an_encoder(paired: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = paired
    model = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(n_bits=16, random_state=0, hash_function="linear"))
    model.fit(train.modalities, train.labels)
    plain = DLFH(n_bits=16, random_state=0, hash_function="linear").fit(train.modalities, train.labels)
    model.save(tmp_path / "model")
    for name, matrix in test.modalities.items():
        np.testing.assert_array_equal(load(tmp_path / "model").encode(name, matrix), plain.encode(name, matrix))


def test_unsupervised_methods_need_no_labels(items: Items) -> None:
    unlabelled = Items(items.ids, items.modalities, None, items.metadata, items.places, [])
    model = Encoder({"image": Gist(size=64), "text": BagOfWords()}, CCAITQ(n_bits=4, random_state=0))
    training = model.fit_items(unlabelled)
    assert len(training) == 37
    assert not model.encode_items(training.vectors, None, training).is_learned["image"].any()
    with pytest.raises(InputError, match="DLFH learns from labels but the items have none"):
        encoder().fit_items(unlabelled)


def test_invalid_input_is_refused(items: Items, tmp_path: Path) -> None:
    model = encoder()
    with pytest.raises(NotFittedError, match="Encoder is not fitted"):
        model.encode("text", ["x"])
    with pytest.raises(InputError, match=r"takes a dict of \['image', 'text'\], got \['text'\]"):
        model.fit({"text": ["x"]}, ["a"])
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.fit_items(Items.of({"sound": ["x"]}, [["a"]]))
    with pytest.raises(NotFittedError, match="Encoder is not fitted"):
        model.featurize_items(items)
    with pytest.raises(InputError, match="the items do not have the modality 'image'"):
        model.fit_items(Items(["1"], {"text": ["x"]}, [["a"]], [{}], ["row 0"], []))
    with pytest.raises(InputError, match="nothing to learn from: only one item has image or text and labels"):
        model.fit_items(items.take([0]))
    with pytest.raises(InputError, match="no item has the modality 'text'"):
        model.fit_items(items.take([5]))
    model.fit_items(items)
    with pytest.raises(InputError, match="takes a list of items, got a single str"):
        model.encode("text", "x")
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.encode("sound", ["x"])
    with pytest.raises(InputError, match="the first argument must be the name of a modality, got list"):
        model.encode(["x"], "text")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"gone\.png does not exist"):
        model.encode("image", [tmp_path / "gone.png"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda features: features.pop("text"), "is damaged"),
        (lambda features: features["text"].update(kind="unheard"), "unknown featuriser 'unheard'"),
        (lambda features: features.update(text=features["image"]), "do not match its hash function"),
    ],
)
def test_a_damaged_encoder_is_not_loaded(items: Items, tmp_path: Path, change: object, message: str) -> None:
    model = encoder()
    model.fit_items(items)
    model.save(tmp_path / "model")
    config, arrays = read_model(tmp_path / "model")
    change(config["features"])  # type: ignore[operator]
    write_model(tmp_path / "model", json.loads(json.dumps(config)), arrays)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "model")
