"""The kind of a modality's values decides its candidate featurisers."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dlfh.collection.candidates import candidate_featurizers
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Clip, CombinedImage, EfficientNet, Gist, Vectors
from dlfh.features.thumbnail import Thumbnail

ITEMS = Items.of(
    {"picture": [np.zeros((4, 4))] * 2, "words": ["a", "b"], "numbers": np.ones((2, 3))}, labels=[["x"], ["y"]]
)


@pytest.fixture
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)


@pytest.mark.usefixtures("without_network")
def test_images_texts_and_vectors_have_different_candidates() -> None:
    found = candidate_featurizers(ITEMS)
    assert [type(each) for each in found["picture"]] == [CombinedImage, Gist, Thumbnail]
    assert [repr(each) for each in found["words"]] == ["BagOfWords()", "BagOfWords(analyzer='word+char', min_df=2)"]
    assert [type(each) for each in found["numbers"]] == [Vectors]


def test_a_network_is_a_candidate_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlfh.collection.candidates.is_installed", lambda module: True)
    assert isinstance(candidate_featurizers(ITEMS)["picture"][-1], EfficientNet)


def test_named_features_are_the_only_candidate() -> None:
    found = candidate_featurizers(ITEMS, image="gist", text="count")
    assert [type(each) for each in found["picture"]] == [Gist]
    assert [repr(each) for each in found["words"]] == [repr(BagOfWords("count"))]
    assert isinstance(candidate_featurizers(ITEMS, text="clip:folder")["words"][0], Clip)


def test_label_words_have_one_candidate() -> None:
    items = Items.of({"text": ["a", "b"]}, labels=[["x"], ["y"]]).with_label_words()
    assert [repr(each) for each in candidate_featurizers(items)["label"]] == ["BagOfWords()"]


def test_unknown_features_are_refused() -> None:
    with pytest.raises(InputError, match=r"the features of 'picture' must be auto, combined, gist, .*, got 'tfidf'"):
        candidate_featurizers(ITEMS, image="tfidf")
    with pytest.raises(InputError, match=r"the features of 'words' must be auto, tfidf, pieces, .*, got 'gist'"):
        candidate_featurizers(ITEMS, text="gist")
