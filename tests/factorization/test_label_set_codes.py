"""Label-set codes: learned in training, or learned later for new label sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, load
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import LabelRows, log_likelihood
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import hamming_distances, pad_to_words
from dlfh.errors import InputError

NEW = [["l0", "l5"], ["l1", "l2", "l3"], ["l4", "l6"]]


def drawn_labels(n_points: int = 120, n_labels: int = 8, seed: int = 0) -> list[list[str]]:
    """Draw label sets of one or two labels, none of them in `NEW`."""
    rng = np.random.default_rng(seed)
    sets = [sorted({f"l{rng.integers(n_labels)}", f"l{rng.integers(n_labels)}"}) for _ in range(n_points)]
    return [labels if labels not in NEW else labels[:1] for labels in sets]


def fitted(labels: Any, **parameters: Any) -> DLFH:
    X = np.random.default_rng(1).normal(size=(len(labels), 5))
    return DLFH(n_bits=16, random_state=0, **parameters).fit({"image": X, "text": X}, labels)


@pytest.mark.parametrize("parameters", [{}, {"balance": True, "step": "exact"}, {"shared_code": True}])
def test_known_label_sets_have_their_learned_codes(parameters: dict[str, Any]) -> None:
    labels = drawn_labels()
    model = fitted(labels, **parameters)
    codes, known = model.codes_of_labels(labels)
    assert known.all()
    for name in ("image", "text"):
        np.testing.assert_array_equal(codes[name], model.codes_[name])


def objective(model: DLFH, labels: list[list[str]], new: list[str], code: np.ndarray, modality: int) -> float:
    """Return the likelihood of all points and one new point that has a code in one modality only."""
    sets = LabelSets.from_labels([*labels, new])
    n = len(labels)
    present = (np.arange(n + 1) < n + (modality == 0), np.arange(n + 1) < n + (modality == 1))
    rows = LabelRows.of_points(sets, present=present)
    codes = [pad_to_words(np.concatenate([model.codes_[name], code[None]])) for name in ("image", "text")]
    known = model.label_codes_
    assert known is not None
    likelihood = LatentFactorModel(16, known.model.scale, "exact", known.model.similar_weight, known.model.bias)
    with Workers(1) as workers:
        return log_likelihood(likelihood, codes, rows, workers)


@pytest.mark.parametrize("parameters", [{}, {"balance": True, "step": "exact"}])
def test_no_flip_improves_the_code_of_a_new_label_set(parameters: dict[str, Any]) -> None:
    labels = drawn_labels()
    model = fitted(labels, **parameters)
    codes, _ = model.codes_of_labels(NEW)
    for modality, name in enumerate(("image", "text")):
        for new, code in zip(NEW, codes[name], strict=True):
            best = objective(model, labels, new, code, modality)
            for bit in range(16):
                flipped = code.copy()
                flipped[bit // 8] ^= 128 >> bit % 8
                assert objective(model, labels, new, flipped, modality) <= best + 1e-3


def test_a_new_label_set_is_closer_to_sets_that_share_a_label() -> None:
    labels = drawn_labels(300)
    model = fitted(labels)
    codes, _ = model.codes_of_labels(NEW)
    for new, code in zip(NEW, codes["text"], strict=True):
        similar = np.array([bool({*points} & {*new}) for points in labels])
        distances = hamming_distances(code[None], model.codes_["image"])[0]
        assert distances[similar].mean() + 2 < distances[~similar].mean()


def test_the_code_of_a_new_label_set_does_not_depend_on_other_queries() -> None:
    model = fitted(drawn_labels())
    together, _ = model.codes_of_labels([["l1"], *NEW, ["l7", "l0"]])
    model.n_jobs = 1
    for place, labels in enumerate(NEW, 1):
        alone, _ = model.codes_of_labels([labels[::-1]])
        np.testing.assert_array_equal(alone["text"][0], together["text"][place])


def test_unknown_labels_are_ignored() -> None:
    model = fitted(drawn_labels())
    codes, known = model.codes_of_labels([["l1", "unheard-of"], ["unheard-of"], []])
    assert known.tolist() == [True, False, False]
    np.testing.assert_array_equal(codes["text"][0], model.codes_of_labels([["l1"]])[0]["text"][0])
    assert not codes["text"][1:].any()


@pytest.mark.parametrize("parameters", [{}, {"shared_code": True}, {"init": "random"}, {"pair_weights": None}])
def test_a_loaded_model_encodes_labels_like_the_saved_one(parameters: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(drawn_labels(), **parameters)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for before, after in zip(model.codes_of_labels(NEW)[0].items(), again.codes_of_labels(NEW)[0].items(), strict=True):
        assert before[0] == after[0]
        np.testing.assert_array_equal(before[1], after[1])


def test_columns_of_an_indicator_matrix_are_labels() -> None:
    indicator = np.random.default_rng(0).random((60, 5)) < 0.3
    indicator[:, 0] |= ~indicator.any(axis=1)
    model = fitted(indicator)
    codes, known = model.codes_of_labels(indicator)
    assert known.all()
    np.testing.assert_array_equal(codes["image"], model.codes_["image"])
    row = np.flatnonzero(indicator[3]).tolist()
    np.testing.assert_array_equal(model.codes_of_labels([row])[0]["image"][0], model.codes_["image"][3])
    assert not model.codes_of_labels([["red"]])[1].any()


def test_invalid_labels_raise_an_error() -> None:
    model = fitted(drawn_labels())
    with pytest.raises(InputError, match="labels must be a list with the labels of each point, got str"):
        model.codes_of_labels("l1")
    with pytest.raises(InputError, match="labels must be lists of names, or an indicator matrix"):
        model.codes_of_labels(np.ones((2, 3)))
    X = np.random.default_rng(1).normal(size=(6, 5))
    pairs = DLFH(n_bits=8, random_state=0).fit({"image": X, "text": X}, similarity=np.eye(6))
    with pytest.raises(InputError, match="it learned from pairwise similarities"):
        pairs.codes_of_labels([["l1"]])
