"""Items without labels take part in training with guessed labels, which are never stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Encoder, load
from dlfh._parallel import Workers
from dlfh._probabilities.model import Fusion, LabelFunction, LabelPredictor, log_odds
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
        assert len(fitted) > 500 if least == 50 else len(fitted) == labelled.sum()
        coded = encoder.encode_items(fitted.vectors, train.labels, fitted)
        assert (coded.is_learned["image"] == labelled).all()
        assert (coded.has_labels == labelled).all()
    assert scores[0] > scores[1] + 0.02


def fitted(items: Items, **options: Any) -> tuple[Encoder, Any]:
    encoder = Encoder(
        {"image": Vectors(), "text": Vectors()}, DLFH(32, hash_function="linear", random_state=0, **options)
    )
    return encoder, encoder.fit_items(items)


def test_the_best_modality_mixes_the_predictions_of_both_models(
    items: tuple[Items, Items], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, unseen = items
    both, fit = fitted(train)
    monkeypatch.setattr(training, "_MIN_LABELLED", 10**9)
    alone, _ = fitted(train)
    models = [encoder.label_model or pytest.fail("no labels") for encoder in (both, alone)]
    weights = dict(zip(models[1].functions, models[1].fusion(("image", "text")).weights, strict=True))
    best, other = sorted(weights, key=lambda name: -weights[name])
    function = models[0].functions[best]
    assert models[0].functions[other].first is None
    assert function.first is not None
    vectors = both.featurize(best, unseen.modalities[best])
    second = LabelFunction(function.scores, function.curves, function.spread).project(vectors, best, Workers(1))
    mean = (log_odds(second) + log_odds(alone.label_probabilities(best, vectors))) / 2
    np.testing.assert_allclose(log_odds(both.label_probabilities(best, vectors)), mean, atol=1e-3)
    both.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.label_probabilities(best, vectors), both.label_probabilities(best, vectors))
    assert {*fit.suggested_labels} == {"image", "text"}


def test_labels_that_no_modality_predicts_are_not_guessed(
    items: tuple[Items, Items], monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = items
    monkeypatch.setattr(LabelPredictor, "fusion", lambda *_: Fusion((-0.1, 0.0), 0.0))
    _, fit = fitted(train)
    assert len(fit) == train.labelled().sum()


def test_damaged_first_predictions_are_named(items: tuple[Items, Items]) -> None:
    encoder, _ = fitted(items[0])
    model = encoder.label_model or pytest.fail("no labels")
    (function,) = (each for each in model.functions.values() if each.first is not None)
    arrays = function.to_arrays()
    arrays["first_columns"] = arrays["first_columns"] + 1
    with pytest.raises(ValueError, match="first predictions of its labels"):
        LabelFunction.from_arrays(arrays)
