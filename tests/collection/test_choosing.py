"""Features and settings are chosen by held-out items only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Encoder, load
from dlfh.collection.choosing import MAX_ITEMS, Candidate, candidate_featurizers, choose_featurizers, tune_items
from dlfh.collection.evaluation import fit_and_evaluate, hold_out
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Clip, CombinedImage, EfficientNet, Featurizer, Gist, Vectors
from dlfh.features.combined import Thumbnail
from dlfh.methods import CCAITQ

Candidates = dict[str, list[Featurizer]]
COLOURS = {"red": (200, 60, 60), "green": (60, 131, 60), "blue": (71, 90, 240)}
ITEMS = Items.of(
    {"picture": [np.zeros((4, 4))] * 2, "words": ["a", "b"], "numbers": np.ones((2, 3))}, labels=[["x"], ["y"]]
)


def coloured(n: int, seed: int = 0) -> Items:
    """Return images of one colour, which their texts and labels name."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice([*COLOURS], n)]
    # All equally bright, so that GIST, which ignores colours, cannot separate them.
    pictures = [
        np.clip(np.array(COLOURS[name]) + rng.integers(-60, 60, (8, 8, 3)), 0, 255).astype(np.uint8) for name in names
    ]
    texts = [f"a {name} thing number{rng.integers(20)}" for name in names]
    return Items.of({"image": pictures, "text": texts}, labels=[[name] for name in names])


def model(**options: Any) -> DLFH:
    return DLFH(n_bits=16, random_state=0, **options)


def candidates() -> dict[str, Any]:
    return {"image": [Gist(size=64), Thumbnail(4)], "text": BagOfWords()}


def test_the_features_that_separate_items_are_chosen(tmp_path: Path) -> None:
    encoder = Encoder(candidates(), model())
    encoder.fit_items(coloured(240))
    assert isinstance(encoder.featurizers_["image"], Thumbnail)
    gist, thumbnail, *bits = encoder.trials_
    assert not gist.chosen
    assert thumbnail.chosen
    assert (thumbnail.scores[[0, 2]] > gist.scores[[0, 2]]).all()  # MAP and exact
    assert [(each.setting, each.option) for each in bits] == [("bits", "16"), ("bits", "32")]
    assert encoder.n_bits == 16
    encoder.save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model").featurizers_["image"], Thumbnail)


def test_the_order_of_candidates_does_not_matter() -> None:
    items = coloured(150)
    values = items.modalities
    one: Candidates = {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords()]}
    other: Candidates = {"text": [BagOfWords()], "image": [Thumbnail(4), Gist(size=64)]}
    forward, _ = choose_featurizers(one, model(), values, items.labels)
    back, _ = choose_featurizers(other, model(), values, items.labels)
    assert repr(forward["image"]) == repr(back["image"]) == repr(Thumbnail(4))


def test_trials_depend_on_the_seed_only() -> None:
    items = coloured(150)
    several: Candidates = {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords(), BagOfWords(analyzer="char")]}
    first, second = (choose_featurizers(several, model(), items.modalities, items.labels, 3)[1] for _ in range(2))
    assert [(each.option, each.score) for each in first] == [(each.option, each.score) for each in second]
    other = choose_featurizers(several, model(), items.modalities, items.labels, 4)[1]
    assert [each.score for each in other] != [each.score for each in first]


def test_the_first_candidate_is_the_default_with_too_few_items() -> None:
    encoder = Encoder(candidates(), model())
    encoder.fit_items(coloured(60))
    assert isinstance(encoder.featurizers_["image"], Gist)
    assert list(encoder.trials_) == []


def test_items_held_out_for_evaluation_take_no_part_in_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    items = coloured(200)
    _, others = hold_out(items, 40, random_state=0)
    seen: list[str] = []

    def evaluate(sample: Any, *_: Any) -> tuple[Any, int]:
        seen.extend(sample.values["text"])
        return np.zeros(3), 1

    monkeypatch.setattr("dlfh.collection.choosing.TrialSample.evaluate", evaluate)
    fit_and_evaluate(Encoder(candidates(), model()), items, 40, random_state=0)
    assert sorted(seen) == sorted(3 * others.modalities["text"])


def test_the_sample_is_limited() -> None:
    n = MAX_ITEMS + 100
    rng = np.random.default_rng(0)
    labels = [str(label) for label in rng.integers(0, 4, n)]
    values = {"x": rng.normal(size=(n, 3)), "y": rng.normal(size=(n, 3))}
    several: Candidates = {"x": [Vectors(), Vectors()], "y": [Vectors()]}
    _, trials = choose_featurizers(several, model(), values, labels)
    assert {trial.n_points for trial in trials} == {MAX_ITEMS}


def test_unreadable_images_are_left_out_of_trials() -> None:
    items = coloured(150)
    items.modalities["image"][:30] = [b"no picture"] * 30
    taken, trials = choose_featurizers(
        {"image": [Gist(size=64), Thumbnail(4)], "text": [BagOfWords()]}, model(), items.modalities, items.labels
    )
    assert isinstance(taken["image"], Thumbnail)
    assert {trial.n_points for trial in trials} == {120}


def test_unsupervised_methods_choose_by_labels_if_given() -> None:
    items = coloured(150)
    encoder = Encoder(candidates(), CCAITQ(n_bits=4, random_state=0)).fit(items.modalities, items.labels)
    assert isinstance(encoder.featurizers_["image"], Thumbnail)
    assert Encoder(candidates(), CCAITQ(n_bits=4, random_state=0)).fit(items.modalities).trials_ == []


def test_an_empty_list_of_candidates_is_refused() -> None:
    with pytest.raises(InputError, match="the list of featurisers for the modality 'image' is empty"):
        Encoder({"image": [], "text": BagOfWords()}, model()).fit_items(coloured(10))


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
    monkeypatch.setattr("dlfh.collection.choosing.is_installed", lambda module: True)
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


def two_texts(n: int, seed: int = 0) -> Items:
    """Return items with two texts, each of one word for the label and one random word."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice(["car", "dog", "tree"], n)]
    english = [f"a {name} number{rng.integers(40)}" for name in names]
    german = [f"ein {name[::-1]} zahl{rng.integers(40)}" for name in names]
    return Items.of({"english": english, "german": german}, labels=[[name] for name in names])


def plain(**parameters: Any) -> Candidate:
    return Candidate("DLFH", {"hash_function": "linear", **parameters})


def test_the_better_candidate_is_chosen_in_either_order() -> None:
    items = two_texts(150)
    candidates = [plain(max_iter=0), plain()]  # random codes, and learned ones
    for order in (candidates, candidates[::-1]):
        tuned = tune_items(items, order, n_bits=16, n_draws=2)
        assert tuned.candidate == plain()
        assert tuned.features.keys() == {"text"}
        assert [trial.setting for trial in tuned.trials] == ["text"] * 4 + ["DLFH"] * 2
        for setting in ("text", "DLFH"):
            scores = {trial.score: trial.chosen for trial in tuned.trials if trial.setting == setting}
            assert scores[max(scores)]


def test_scores_are_means_over_samples() -> None:
    items = two_texts(200)
    one, three = (tune_items(items, [plain()], n_bits=8, n_draws=n, n_items=120).trials[-1] for n in (1, 3))
    assert one.n_points == three.n_points == 120
    assert one.scores[0] != three.scores[0]


def test_failing_candidates_are_reported_and_left_out() -> None:
    items = two_texts(120)
    wide = Candidate("DLFH", {"hash_function": "linear", "sample_size": 10_000, "solver": "stochastic"})
    tuned = tune_items(items, [wide, plain()], n_bits=8, n_draws=1)
    assert tuned.candidate == plain()
    ((name, sentence),) = tuned.failures.items()
    assert name.startswith("DLFH: hash_function = linear, sample_size = 10000")
    assert "there are only 80 points" in sentence
    with pytest.raises(InputError, match="no candidate could be evaluated: sample_size is 10000"):
        tune_items(items, [wide], n_bits=8, n_draws=1)


def test_unknown_parameters_and_too_few_items_are_refused() -> None:
    with pytest.raises(InputError, match="DLFH has no parameter 'lambda'"):
        tune_items(two_texts(120), [Candidate("DLFH", {"lambda": 1})], n_bits=8)
    with pytest.raises(InputError, match="too few items to tune with: 60 have labels and every modality"):
        tune_items(two_texts(60), [plain()], n_bits=8)
