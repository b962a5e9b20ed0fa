"""Coefficients survive a file, damaged ones are refused, and missing ones follow from single modalities."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.calibration.model import (
    COMPLETE,
    OTHERS,
    Calibration,
    Fit,
    Pattern,
    explained_words,
    patterns,
    question_kind,
    word_evidence,
)


def whole() -> Calibration:
    fits = {
        ("hamming", "text", pattern): Fit((1.0,) * (len(pattern.modalities) + pattern.words), -2.0)
        for pattern in patterns(["image", "text"], ["text"])
    }
    fits["all", "text", Pattern("learned", ("image",), True)] = Fit((1.0, 0.0, 2.0, 1.0), 0.5)
    words = {"text": {"watch": "Watches"}}
    shown = {("text", "one word"): Fit((0.25, 0.5), -1.0), ("image", ""): Fit((2.0, 2.0), 0.0)}
    return Calibration(
        fits, {"text": ("image",)}, {"text": True}, {"text": "all"}, words, shown, {"text": 8.0}, {"text": "always"}
    )


def test_a_calibration_survives_a_file() -> None:
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
def test_damaged_coefficients_are_refused(change: dict[str, Any]) -> None:
    plain = whole().to_plain()
    plain["fits"][0] |= change
    with pytest.raises(ValueError, match="its calibration"):
        Calibration.from_plain(plain, ["image", "text"])


@pytest.mark.parametrize(
    "change",
    [
        {"modalities": {"text": ["sound"]}},
        {"modalities": {"text": []}},
        {"words": {"text": 1}},
        {"rankings": {"text": "best"}},
        {"rankings": {"sound": "all"}},
        {"label_words": {"text": {"watch": 1}}},
        {"label_words": {"sound": {}}},
    ],
)
def test_damaged_search_defaults_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="its calibration"):
        Calibration.from_plain(whole().to_plain() | change, ["image", "text"])


@pytest.mark.parametrize("change", [{"query": "sound"}, {"weights": [1.0] * 3}, {"bias": float("nan")}])
def test_damaged_coefficients_of_shown_results_are_refused(change: dict[str, Any]) -> None:
    plain = whole().to_plain()
    plain["shown"][0] |= change
    with pytest.raises(ValueError, match="calibration of shown results"):
        Calibration.from_plain(plain, ["image", "text"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (None, ""),
        ("red shoes", "names of labels"),
        ("nike", "one word"),
        ("nike red", "part of a text"),
        ("a b c d e f", "whole text"),
    ],
)
def test_texts_are_of_four_kinds(text: str | None, kind: str) -> None:
    assert question_kind(text, frozenset(["red", "shoes"]), 8.0) == kind


def test_shown_log_odds_keep_the_order_and_are_those_of_the_default_ranking() -> None:
    values, calibration = np.array([-np.inf, -2.0, 0.0, 3.0]), whole()
    kind = calibration.kind("all", "text", "nike", frozenset())
    assert calibration.shown_log_odds(values, kind, False).tolist() == [-np.inf, -1.5, -1.0, 0.5]
    for other in (("hamming", "text", "nike"), ("all", "text", "nike red")):
        assert calibration.shown_log_odds(values, calibration.kind(*other, frozenset()), False) is values


def test_complete_results_and_others_beside_them_have_log_odds_of_their_own() -> None:
    fits = {"": Fit((1.0, 1.0), 0.0), COMPLETE: Fit((0.0, 0.0), 4.0), OTHERS: Fit((1.0, 1.0), -1.0)}
    calibration = Calibration(shown={("text", f"one word{suffix}"): fit for suffix, fit in fits.items()})
    values, kind = np.array([1.0, 2.0]), ("text", "one word")
    assert calibration.shown_log_odds(values, kind, np.array([True, False])).tolist() == [4.0, 1.0]
    assert calibration.shown_log_odds(values, kind, np.array([False, False])).tolist() == [1.0, 2.0]


def test_patterns_without_a_fit_are_derived_from_single_modalities() -> None:
    three = ("image", "text", "sound")
    fits = {("hamming", "text", Pattern("hashed", (name,), False)): Fit((3.0,), -1.0) for name in three}
    assert Calibration(fits).fit_for("hamming", "text", Pattern("hashed", three, False)) == Fit((1.0,) * 3, -1.0)
    assert len(Calibration().fit_for("hamming", "text", Pattern("hashed", three, True)).weights) == 4
    assert not Calibration().is_fitted_for("hamming", "text")
    assert Calibration(fits).is_fitted_for("hamming", "text")


@given(st.floats(0, 5), st.floats(0, 5))
def test_word_evidence_rises_with_coverage_and_is_bounded(one: float, other: float) -> None:
    low, high = word_evidence(np.array(sorted([one, other])))
    assert 0 <= low <= high < 2


@pytest.mark.parametrize(
    ("names", "of_mixed", "of_names"),
    [("never", {"red"}, {"red"}), ("beside others", set(), {"red"}), ("always", set(), set())],
)
def test_names_of_labels_are_matched_in_texts_as_chosen(names: str, of_mixed: set[str], of_names: set[str]) -> None:
    assert explained_words(names, "red 2019", frozenset({"red"})) == of_mixed
    assert explained_words(names, "Red", frozenset({"red"})) == of_names
