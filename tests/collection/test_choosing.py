"""Features are chosen by items that they were not fitted to, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Encoder, load
from dlfh.collection.choosing import MOST_ITEMS, Trial, choose
from dlfh.collection.evaluation import fit_and_evaluate, hold_out
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Featurizer, Gist, Thumbnail, Vectors
from dlfh.methods import CCAITQ

Candidates = dict[str, list[Featurizer]]
COLOURS = {"red": (200, 60, 60), "green": (60, 131, 60), "blue": (71, 90, 240)}


def coloured(n: int, seed: int = 0) -> Items:
    """Return pictures that are of one colour, which is all that their texts and labels say."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice([*COLOURS], n)]
    # All as bright, so that GIST, which sees no colours, has nothing to tell them apart by.
    pictures = [
        np.clip(np.array(COLOURS[name]) + rng.integers(-60, 60, (8, 8, 3)), 0, 255).astype(np.uint8) for name in names
    ]
    texts = [f"a {name} thing number{rng.integers(20)}" for name in names]
    return Items.of({"image": pictures, "text": texts}, labels=[[name] for name in names])


def model(**options: Any) -> DLFH:
    return DLFH(n_bits=16, random_state=0, **options)


def candidates() -> dict[str, Any]:
    return {"image": [Gist(size=64), Thumbnail(4)], "text": BagOfWords()}


def test_the_features_that_tell_items_apart_are_chosen(tmp_path: Path) -> None:
    encoder = Encoder(candidates(), model())
    encoder.fit_items(coloured(240))
    assert isinstance(encoder.featurizers_["image"], Thumbnail)
    gist, thumbnail, *bits = encoder.trials_
    assert not gist.chosen
    assert thumbnail.chosen
    assert thumbnail.map > gist.map
    assert thumbnail.exact > gist.exact
    assert [(each.what, each.option) for each in bits] == [("bits", "16"), ("bits", "32")]
    assert encoder.n_bits == 16
    encoder.save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model").featurizers_["image"], Thumbnail)


def test_the_order_of_candidates_decides_nothing() -> None:
    items = coloured(150)
    values = items.modalities
    one: Candidates = {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords()]}
    other: Candidates = {"text": [BagOfWords()], "image": [Thumbnail(4), Gist(size=64)]}
    forward, _ = choose(one, model(), values, items.labels)
    back, _ = choose(other, model(), values, items.labels)
    assert repr(forward["image"]) == repr(back["image"]) == repr(Thumbnail(4))


def test_the_same_seed_chooses_the_same() -> None:
    items = coloured(150)
    several: Candidates = {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords(), BagOfWords(analyzer="char")]}
    first, second = (choose(several, model(), items.modalities, items.labels, 3)[1] for _ in range(2))
    assert [(each.option, each.merit) for each in first] == [(each.option, each.merit) for each in second]
    other = choose(several, model(), items.modalities, items.labels, 4)[1]
    assert [each.merit for each in other] != [each.merit for each in first]


def test_merit_counts_who_has_all_labels() -> None:
    common = Trial("image", "a", map=0.5, ndcg=0.5, exact=0.1, n_items=1, seconds=0)
    exact = Trial("image", "b", map=0.48, ndcg=0.5, exact=0.2, n_items=1, seconds=0)
    assert exact.merit > common.merit


def test_too_few_items_tell_nothing_and_the_first_is_taken() -> None:
    encoder = Encoder(candidates(), model())
    encoder.fit_items(coloured(60))
    assert isinstance(encoder.featurizers_["image"], Gist)
    assert list(encoder.trials_) == []


def test_items_that_are_held_out_to_measure_with_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    items = coloured(200)
    _, others = hold_out(items, 40, random_state=0)
    seen: list[str] = []

    def trial(draw: Any, *_: Any) -> Trial:
        seen.extend(draw.values["text"])
        return Trial("image", "x", 0, 0, 0, 1, 0)

    monkeypatch.setattr("dlfh.collection.choosing.Draw.trial", trial)
    fit_and_evaluate(Encoder(candidates(), model()), items, 40, random_state=0)
    assert sorted(seen) == sorted(3 * others.modalities["text"])


def test_no_more_items_are_drawn_than_the_budget_has() -> None:
    n = MOST_ITEMS + 100
    rng = np.random.default_rng(0)
    labels = [str(label) for label in rng.integers(0, 4, n)]
    values = {"x": rng.normal(size=(n, 3)), "y": rng.normal(size=(n, 3))}
    several: Candidates = {"x": [Vectors(), Vectors()], "y": [Vectors()]}
    _, trials = choose(several, model(), values, labels)
    assert {trial.n_items for trial in trials} == {MOST_ITEMS}


def test_pictures_that_cannot_be_read_are_left_out_of_a_trial() -> None:
    items = coloured(150)
    items.modalities["image"][:30] = [b"no picture"] * 30
    taken, trials = choose(
        {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords()]}, model(), items.modalities, items.labels
    )
    assert isinstance(taken["image"], Thumbnail)
    assert {trial.n_items for trial in trials} == {120}


def test_methods_that_learn_from_pairs_choose_by_labels_if_there_are_some() -> None:
    items = coloured(150)
    encoder = Encoder(candidates(), CCAITQ(n_bits=4, random_state=0)).fit(items.modalities, items.labels)
    assert isinstance(encoder.featurizers_["image"], Thumbnail)
    assert Encoder(candidates(), CCAITQ(n_bits=4, random_state=0)).fit(items.modalities).trials_ == []


def test_nothing_to_choose_from_is_said() -> None:
    with pytest.raises(InputError, match="there are no features to choose from for the modality 'image'"):
        Encoder({"image": [], "text": BagOfWords()}, model()).fit_items(coloured(10))
