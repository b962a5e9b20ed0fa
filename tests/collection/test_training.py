"""Items without labels take part in training with guessed labels, which are never stored."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh import DLFH, Encoder
from dlfh.collection import training
from dlfh.datasets import Items, make_paired
from dlfh.features import Vectors


@pytest.fixture(scope="module")
def items() -> tuple[Items, Items]:
    """Training items, of which a tenth has labels, and unseen items."""
    data = make_paired(900, n_labels=6, noise=4.0, words_per_point=8, random_state=5)
    labels = [[f"label {label}" for label in np.flatnonzero(row)] for row in data.labels.toarray()]
    everything = Items.of(data.modalities, labels)
    train = everything.take(range(600))
    few = [given if row % 10 == 0 else [] for row, given in enumerate(train.labels or [])]
    return Items.of(train.modalities, few), everything.take(range(600, 900))


def right(encoder: Encoder, unseen: Items) -> float:
    """Return the share of unseen items whose most probable label, predicted from the image, is right."""
    found = encoder.label_probabilities("image", encoder.featurize("image", unseen.modalities["image"]))
    names = (encoder.label_model or pytest.fail("no labels")).names or ()
    first = [names[place] for place in found.argmax(axis=1)]
    return float(np.mean([label in given for label, given in zip(first, unseen.labels or [], strict=True)]))


def test_unlabelled_items_improve_the_predictions(items: tuple[Items, Items], monkeypatch: pytest.MonkeyPatch) -> None:
    train, unseen = items
    scores = []
    for least in (50, 10**9):
        monkeypatch.setattr(training, "_MIN_LABELLED", least)
        encoder = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(32, hash_function="linear", random_state=0))
        fitted = encoder.fit_items(train)
        scores.append(right(encoder, unseen))
        labelled = train.labelled()
        assert (fitted.learned["image"] == labelled).all()
        assert len(fitted) == (len(train) if least == 50 else labelled.sum())
        coded = encoder.encode_items(fitted.vectors, train.labels, fitted)
        assert (coded.is_learned["image"] == labelled).all()
        assert (coded.has_labels == labelled).all()
    assert scores[0] > scores[1] + 0.02
