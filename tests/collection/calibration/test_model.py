"""Log-odds rise with similarity, and what a file says of them is checked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.calibration.model import Calibration, Fit, Pattern, fit_logistic, patterns


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.floats(0.02, 0.98))
def test_weights_are_never_negative(seed: int, n_features: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=200) for _ in range(n_features)]
    fit = fit_logistic(features, rng.random(200) < share)
    assert min(fit.weights) >= 0
    assert np.isfinite([*fit.weights, fit.bias]).all()


def test_a_fit_finds_what_made_the_data() -> None:
    rng = np.random.default_rng(0)
    features = [rng.normal(size=50_000) for _ in range(2)]
    chance = 1 / (1 + np.exp(-(1.5 * features[0] + 0.5 * features[1] - 1)))
    fit = fit_logistic(features, rng.random(50_000) < chance)
    assert (*fit.weights, fit.bias) == pytest.approx((1.5, 0.5, -1.0), abs=0.05)
    mean = float(np.mean(1 / (1 + np.exp(-(fit.weights[0] * features[0] + fit.weights[1] * features[1] + fit.bias)))))
    assert mean == pytest.approx(float(chance.mean()), abs=0.01)


def test_a_fit_to_one_kind_of_pairs_is_finite() -> None:
    assert np.isfinite(fit_logistic([np.arange(9.0)], np.zeros(9, bool)).bias)
    separable = fit_logistic([np.arange(9.0)], np.arange(9) > 4)
    assert np.isfinite([*separable.weights, separable.bias]).all()


def whole() -> Calibration:
    fits = {("hamming", "text", pattern): Fit((1.0,) * (len(pattern.modalities) + pattern.words), -2.0)
            for pattern in patterns(["image", "text"], ["text"])}  # fmt: skip
    return Calibration(fits, {"text": ("image",)}, {"text": True})


def test_a_calibration_is_what_it_was_after_a_file() -> None:
    plain = json.loads(json.dumps(whole().to_plain()))
    assert Calibration.from_plain(plain, ["image", "text"]) == whole()


@pytest.mark.parametrize(
    "change",
    [
        {"ranking": "best"},
        {"query": "sound"},
        {"codes": "guessed"},
        {"modalities": ["sound"]},
        {"words": 1},
        {"weights": [1.0, 1.0, 1.0, 1.0]},
        {"weights": [-1.0]},
        {"weights": ["1"]},
        {"bias": float("nan")},
        {"bias": 1e300},
    ],
)
def test_a_calibration_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    plain = whole().to_plain()
    plain["fits"][0] |= change
    with pytest.raises(ValueError, match="its calibration"):
        Calibration.from_plain(plain, ["image", "text"])
    for name, value in (("modalities", {"text": ["sound"]}), ("modalities", {"text": []}), ("words", {"text": 1})):
        with pytest.raises(ValueError, match="its calibration"):
            Calibration.from_plain(whole().to_plain() | {name: value}, ["image", "text"])


def test_what_was_not_calibrated_is_guessed_from_what_was() -> None:
    three = ("image", "text", "sound")
    fits = {("hamming", "text", Pattern("hashed", (name,), False)): Fit((3.0,), -1.0) for name in three}
    assert Calibration(fits).fit_of("hamming", "text", Pattern("hashed", three, False)) == Fit((1.0,) * 3, -1.0)
    assert len(Calibration().fit_of("hamming", "text", Pattern("hashed", three, True)).weights) == 4
    assert not Calibration().knows("hamming", "text")
    assert Calibration(fits).knows("hamming", "text")
