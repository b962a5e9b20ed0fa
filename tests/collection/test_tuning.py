"""Settings are chosen by held-out items; candidates that fail are reported and left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlfh.collection.tuning import Candidate, tune_items
from dlfh.datasets import Items
from dlfh.errors import InputError


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
