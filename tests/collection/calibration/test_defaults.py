"""Words weigh as much as it takes to find one item by some of its own, and no more than shared labels can afford."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.calibration.defaults import choose, fit_all, least_words, reciprocal_rank
from dlfh.collection.calibration.model import LEAST_WORDS, Fit, Pairs, Pattern, fit_logistic, word_evidence

TEXT = ("text",)


def pairs_of(similarities: np.ndarray, words: np.ndarray, right: np.ndarray) -> Pairs:
    return Pairs({"text": similarities}, {TEXT: words}, right, np.ones(right.shape, bool))


def held_out(seed: int, *, words_mislead: bool = False) -> tuple[dict[str, Pairs], dict[str, Pairs]]:
    """Return pairs whose codes say the label, and pairs of items that are looked for, which words alone tell apart."""
    rng = np.random.default_rng(seed)
    n, n_trained = 30, 200
    pairs = {}
    for kind, n_items, noise in (("hashed", n, 0.4), ("learned", n_trained, 0.1)):
        right = rng.random((n, n_items)) < 0.3
        shared = right if not words_mislead else ~right
        similarities = right - 0.5 + noise * rng.normal(size=right.shape)
        pairs[kind] = pairs_of(similarities, 0.3 * rng.random(right.shape) * shared, right)
    itself = np.eye(n, dtype=bool)
    searched = {
        "hashed": pairs_of(rng.normal(0.3, 0.3, (n, n)), np.where(itself, 1.0, 0.3 * rng.random((n, n))), itself),
        "learned": pairs_of(
            rng.normal(0.4, 0.4, (n, n_trained)), 0.5 * rng.random((n, n_trained)), np.zeros((n, n_trained), bool)
        ),
    }
    return pairs, searched


def everything(pairs: dict[str, Pairs]) -> dict[str, np.ndarray]:
    return {kind: np.arange(own.right.size) for kind, own in pairs.items()}


@pytest.mark.parametrize("seed", range(3))
def test_more_weight_of_words_finds_the_item_that_is_looked_for(seed: int) -> None:
    pairs, searched = held_out(seed)
    some, wanted = everything(pairs), [Pattern(kind, TEXT, True) for kind in pairs]
    least = least_words(pairs, some, searched, TEXT, best_map=0.5)
    assert least > LEAST_WORDS
    before, after = (reciprocal_rank(fit_all(pairs, some, wanted, own), searched) for own in (LEAST_WORDS, least))
    assert after > before


@pytest.mark.parametrize("seed", range(3))
def test_words_weigh_no_more_where_that_costs_shared_labels(seed: int) -> None:
    pairs, searched = held_out(seed, words_mislead=True)
    plain = fit_all(pairs, everything(pairs), [Pattern(kind, TEXT, words) for kind in pairs for words in (True, False)])
    _, _, best = choose(plain, pairs, TEXT, "image", TEXT)
    assert least_words(pairs, everything(pairs), searched, TEXT, best) == LEAST_WORDS


def test_what_words_are_worth_at_least_is_in_every_fit_and_codes_make_up_for_it() -> None:
    pairs, _ = held_out(0, words_mislead=True)
    pattern = Pattern("learned", TEXT, True)
    own = pairs["learned"]
    plain, more = (own.fit(pattern, least_words=least) for least in (LEAST_WORDS, 8.0))
    assert more.weights[-1] == 8.0
    share = own.right.mean()
    for fit in (plain, more):  # the mean probability stays the share of right pairs: the bias is fitted again
        log_odds = fit.weights[0] * own.similarities["text"] + fit.weights[1] * own.words[TEXT] + fit.bias
        assert float((1 / (1 + np.exp(-log_odds))).mean()) == pytest.approx(float(share), abs=1e-3)


def test_an_offset_is_a_feature_whose_weight_is_known() -> None:
    rng = np.random.default_rng(0)
    known, other = rng.normal(size=(2, 20_000))
    right = rng.random(20_000) < 1 / (1 + np.exp(-(2 * known + other - 1)))
    fit = fit_logistic([other], right, offset=2 * known)
    assert (*fit.weights, fit.bias) == pytest.approx((1.0, -1.0), abs=0.06)


def test_equals_are_ahead_half_of_the_time() -> None:
    pattern = Pattern("hashed", TEXT, True)
    same = np.zeros((3, 3))
    searched = {"hashed": pairs_of(same, same, np.eye(3, dtype=bool))}
    assert reciprocal_rank({pattern: Fit((1.0, 1.0), 0.0)}, searched) == pytest.approx(1 / 2)


@given(st.floats(0, 5), st.floats(0, 5))
def test_word_evidence_keeps_the_order_of_texts_and_is_bounded(one: float, other: float) -> None:
    low, high = word_evidence(np.array(sorted([one, other])))
    assert 0 <= low <= high < 2
