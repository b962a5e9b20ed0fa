"""Words weigh enough to find one item by some of its words, unless that costs MAP of shared labels."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh.collection.calibration.fit import choose_defaults, choose_word_weight
from dlfh.collection.calibration.model import Pattern
from dlfh.collection.calibration.pairs import MIN_WORD_WEIGHT, Pairs, fit_patterns, reciprocal_rank

TEXT = ("text",)


def pairs_of(similarities: np.ndarray, words: np.ndarray, relevant: np.ndarray) -> Pairs:
    return Pairs({"text": similarities}, {TEXT: words}, relevant, np.ones(relevant.shape, bool))


def held_out(seed: int, *, words_mislead: bool = False) -> tuple[dict[str, Pairs], dict[str, Pairs]]:
    """Return pairs whose codes predict the label, and known-item searches that only words can answer."""
    rng = np.random.default_rng(seed)
    n, n_trained = 30, 200
    pairs = {}
    for kind, n_items, noise in (("hashed", n, 0.4), ("learned", n_trained, 0.1)):
        relevant = rng.random((n, n_items)) < 0.3
        shared = relevant if not words_mislead else ~relevant
        similarities = relevant - 0.5 + noise * rng.normal(size=relevant.shape)
        pairs[kind] = pairs_of(similarities, 0.3 * rng.random(relevant.shape) * shared, relevant)
    itself = np.eye(n, dtype=bool)
    searched = {
        "hashed": pairs_of(rng.normal(0.3, 0.3, (n, n)), np.where(itself, 1.0, 0.3 * rng.random((n, n))), itself),
        "learned": pairs_of(
            rng.normal(0.4, 0.4, (n, n_trained)), 0.5 * rng.random((n, n_trained)), np.zeros((n, n_trained), bool)
        ),
    }
    return pairs, searched


def all_places(pairs: dict[str, Pairs]) -> dict[str, np.ndarray]:
    return {kind: np.arange(own.relevant.size) for kind, own in pairs.items()}


@pytest.mark.parametrize("seed", range(3))
def test_a_larger_word_weight_finds_the_known_item(seed: int) -> None:
    pairs, searched = held_out(seed)
    places, wanted = all_places(pairs), [Pattern(kind, TEXT, True) for kind in pairs]
    weight, _ = choose_word_weight(pairs, places, searched, TEXT, best_map=0.5)
    assert weight > MIN_WORD_WEIGHT
    before, after = (
        reciprocal_rank(fit_patterns(pairs, places, wanted, each), searched) for each in (MIN_WORD_WEIGHT, weight)
    )
    assert after > before


@pytest.mark.parametrize("seed", range(3))
def test_the_word_weight_stays_minimal_where_more_would_cost_map(seed: int) -> None:
    pairs, searched = held_out(seed, words_mislead=True)
    both = [Pattern(kind, TEXT, words) for kind in pairs for words in (True, False)]
    fits = fit_patterns(pairs, all_places(pairs), both)
    _, _, best_map = choose_defaults(fits, pairs, TEXT, "image", TEXT)
    assert choose_word_weight(pairs, all_places(pairs), searched, TEXT, best_map)[0] == MIN_WORD_WEIGHT
