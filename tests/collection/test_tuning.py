"""Settings are chosen by items that trials did not see, and what cannot be measured is said and left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlfh.collection.choosing import Trial
from dlfh.collection.tuning import Candidate, tune_items
from dlfh.datasets import Items
from dlfh.errors import InputError


def two_texts(n: int, seed: int = 0) -> Items:
    """Return items whose two texts have one word of their label, and others at random."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice(["car", "dog", "tree"], n)]
    english = [f"a {name} number{rng.integers(40)}" for name in names]
    german = [f"ein {name[::-1]} zahl{rng.integers(40)}" for name in names]
    return Items.of({"english": english, "german": german}, labels=[[name] for name in names])


def plain(**parameters: Any) -> Candidate:
    return Candidate("DLFH", {"hash_function": "linear", **parameters})


def test_the_better_candidate_is_taken_in_every_order() -> None:
    items = two_texts(150)
    candidates = [plain(max_iter=0), plain()]  # codes that nobody learned, and learned ones
    told: list[Trial] = []
    for order in (candidates, candidates[::-1]):
        tuned = tune_items(items, order, n_bits=16, n_draws=2, on_trial=told.append)
        assert tuned.candidate == plain()
        assert tuned.features.keys() == {"text"}
        taken = [trial for trial in tuned.trials if trial.chosen]
        assert [trial.what for trial in taken] == ["text", "DLFH"]
        for what in ("text", "DLFH"):
            tried = [trial for trial in tuned.trials if trial.what == what]
            assert max(trial.merit for trial in tried) == next(trial.merit for trial in tried if trial.chosen)
    assert len(told) == 2 * (4 + 2)


def test_trials_are_means_over_draws_of_so_many_items() -> None:
    items = two_texts(200)
    one, three = (tune_items(items, [plain()], n_bits=8, n_draws=n, n_items=120).trials[-1] for n in (1, 3))
    assert one.n_items == three.n_items == 120
    assert one.map != three.map


def test_what_cannot_be_measured_is_left_out_and_said() -> None:
    items = two_texts(120)
    wide = Candidate("DLFH", {"hash_function": "linear", "sample_size": 10_000, "solver": "stochastic"})
    tuned = tune_items(items, [wide, plain()], n_bits=8, n_draws=1)
    assert tuned.candidate == plain()
    ((name, sentence),) = tuned.failures.items()
    assert name.startswith("DLFH: hash_function = linear, sample_size = 10000")
    assert "there are only 80 points" in sentence
    with pytest.raises(InputError, match="no candidate could be measured: sample_size is 10000"):
        tune_items(items, [wide], n_bits=8, n_draws=1)


def test_a_wrong_parameter_and_too_few_items_are_said() -> None:
    with pytest.raises(InputError, match="DLFH has no parameter 'lambda' to set"):
        tune_items(two_texts(120), [Candidate("DLFH", {"lambda": 1})], n_bits=8)
    with pytest.raises(InputError, match="too few items to try anything on: 60 have labels and every modality"):
        tune_items(two_texts(60), [plain()], n_bits=8)
