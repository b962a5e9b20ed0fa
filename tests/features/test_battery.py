"""Laws of every featuriser: persistence, vectors, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from dlfh import InputError, ModelError, NotFittedError
from dlfh.features import BagOfWords, Clip, CombinedImage, Featurizer, Gist, Vectors
from dlfh.features.combined import Hog, Thumbnail
from tests.features.examples import PICTURES, TEXTS, dense, with_json

EXAMPLES: list[tuple[Featurizer, Any]] = [
    (BagOfWords(), TEXTS),
    (BagOfWords("binary", analyzer="word+char", ngrams=(1, 2), stop_words=("the", "a"), max_features=50), TEXTS),
    (BagOfWords("count", analyzer="char", strip_accents=True, lowercase=False, min_df=2), TEXTS),
    (Vectors(), np.eye(3, 4)),
    (Vectors(), sp.csr_array(np.eye(3, 4))),
    (Gist(size=64), PICTURES),
    (Hog(), PICTURES),
    (Thumbnail(4), PICTURES),
    (CombinedImage(("hog", "thumbnail")), PICTURES),
]


each = pytest.mark.parametrize(("featurizer", "items"), EXAMPLES, ids=lambda value: getattr(value, "kind", ""))


@each
def test_a_saved_featuriser_returns_identical_vectors(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    again = Featurizer.from_parts(*with_json(fitted.to_parts()))
    assert type(again) is type(fitted)
    assert repr(again.get_params()) == repr(fitted.get_params())
    first, second = fitted.transform(items), again.transform(items)
    assert type(first) is type(second)
    np.testing.assert_array_equal(dense(first), dense(second))


@each
def test_vectors_are_single_precision_rows_of_one_width(featurizer: Featurizer, items: Any) -> None:
    features = clone(featurizer).fit_transform(items)
    assert features.shape == (np.shape(items)[0], clone(featurizer).fit(items).n_features_)
    assert isinstance(featurizer, Vectors) or features.dtype == np.float32


@each
def test_vectors_do_not_depend_on_the_other_items(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    together = dense(fitted.transform(items))
    for row in range(together.shape[0]):
        alone = dense(fitted.transform(items[row : row + 1]))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


@each
def test_no_items_yield_no_rows(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    assert fitted.transform(items[:0]).shape == (0, fitted.n_features_)


@each
def test_an_unfitted_featuriser_raises_not_fitted_error(featurizer: Featurizer, items: Any) -> None:
    for use in (featurizer.transform, featurizer.transform_readable, lambda _: featurizer.to_parts()):
        with pytest.raises(NotFittedError, match="is not fitted yet: call fit first"):
            use(items)


@each
def test_damaged_parts_are_refused_in_one_sentence(featurizer: Featurizer, items: Any) -> None:
    config, arrays = clone(featurizer).fit(items).to_parts()
    damaged = [
        {**config, "kind": "unheard-of"},
        {**config, "kind": None},
        {**config, "n_features": 0},
        {**config, "n_features": "7"},
        {**config, "parameters": {"no_such": 1}},
        {**config, "parameters": {**config["parameters"], "verbose": "yes"}},
        {**config, "parameters": None},
        *({name: value for name, value in config.items() if name != missing} for missing in config),
    ]
    if not isinstance(featurizer, Vectors):
        damaged.append({**config, "n_features": config["n_features"] + 1})
    for bad in damaged:
        with pytest.raises(ModelError) as error:
            Featurizer.from_parts(bad, arrays)
        assert "\n" not in str(error.value)
    for name, array in arrays.items():
        for wrong in ({}, {name: array[:-1]}, {name: array.astype(np.int16)}, {name: array * np.nan}):
            with pytest.raises(ModelError, match="damaged"):
                Featurizer.from_parts(config, wrong)


@pytest.mark.parametrize("one", ["text", b"bytes", 3])
def test_a_single_item_is_refused(one: Any) -> None:
    with pytest.raises(InputError, match=r"takes a list of items, got a single \w+: pass \[item\]"):
        BagOfWords().fit(one)


def test_items_may_come_from_a_generator() -> None:
    assert BagOfWords().fit_transform(text for text in TEXTS).shape[0] == len(TEXTS)


@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [
        (BagOfWords, "weighting", "idf"),
        (BagOfWords, "analyzer", "words"),
        (BagOfWords, "ngrams", (2, 1)),
        (BagOfWords, "char_ngrams", 3),
        (BagOfWords, "max_features", 0),
        (BagOfWords, "min_df", 0.5),
        (BagOfWords, "stop_words", "german"),
        (BagOfWords, "stop_words", [1]),
        (BagOfWords, "stop_words", 7),
        (BagOfWords, "lowercase", 1),
        (BagOfWords, "verbose", "no"),
        (Gist, "size", 100),
        (Gist, "n_jobs", 0),
        (Thumbnail, "size", 0),
        (CombinedImage, "parts", ("gist", "gist")),
        (CombinedImage, "parts", "gist"),
        (CombinedImage, "parts", []),
        (Clip, "name_or_folder", ""),
        (Clip, "tower", "audio"),
        (Clip, "batch_size", 0),
    ],
)
def test_an_invalid_parameter_is_named(kind: Any, parameter: str, value: Any) -> None:
    others = {"name_or_folder": "x"} if kind is Clip else {}
    with pytest.raises(InputError, match=parameter):
        kind(**others | {parameter: value}).fit(["a word"])


def test_vectors_do_not_depend_on_the_number_of_threads() -> None:
    for kind in (Gist, Hog, Thumbnail):
        one, four = (kind(n_jobs=n).fit([]).transform(PICTURES * 3) for n in (1, 4))
        np.testing.assert_array_equal(one, four)
