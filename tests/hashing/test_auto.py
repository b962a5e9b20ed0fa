"""The hash function is chosen on held-out points, reported, saved, and no worse than a linear one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, load
from dlfh.datasets import Paired, make_paired
from dlfh.errors import InputError
from dlfh.hashing import Auto, KernelLogistic, KernelRidge, LinearRidge, auto
from dlfh.metrics import mean_average_precision


@pytest.fixture(scope="module")
def split() -> tuple[Paired, Paired]:
    return make_paired(n_points=700, n_labels=6, text_features=120, random_state=3).split(test_size=300)


@pytest.fixture(scope="module")
def model(split: tuple[Paired, Paired]) -> DLFH:
    train, _ = split
    return DLFH(16, random_state=0, hash_function=Auto(60)).fit(train.modalities, train.labels)


def test_the_chosen_learner_is_reported_and_fitted(split: tuple[Paired, Paired], model: DLFH) -> None:
    train, test = split
    assert set(model.chosen_) == {"image", "text"}
    assert all(isinstance(learner, (LinearRidge, KernelRidge)) for learner in model.chosen_.values())
    named = DLFH(16, random_state=0, hash_function=model.chosen_).fit(train.modalities, train.labels)
    assert named.chosen_ == {}
    for name in ("image", "text"):
        np.testing.assert_array_equal(
            named.encode(name, test.modalities[name]), model.encode(name, test.modalities[name])
        )


def test_the_choice_is_saved(model: DLFH, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    assert repr(load(tmp_path / "model").chosen_) == repr(model.chosen_)


def test_codes_do_not_depend_on_the_choice(split: tuple[Paired, Paired], model: DLFH) -> None:
    train, _ = split
    linear = DLFH(16, random_state=0, hash_function="linear").fit(train.modalities, train.labels)
    for name in ("image", "text"):
        np.testing.assert_array_equal(model.codes_[name], linear.codes_[name])


def test_kernels_are_chosen_where_linear_functions_fail() -> None:
    """Labels are rings around the origin, which no linear function of the features separates."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    angles, radii = rng.uniform(0, 2 * np.pi, (2, 500)), 1 + 2 * labels + rng.normal(0, 0.1, 500)
    views = {
        name: np.stack([radii * np.cos(angle), radii * np.sin(angle)], axis=1)
        for name, angle in zip(("image", "text"), angles, strict=True)
    }
    scores: dict[Any, float] = {}
    for choice in ("linear", "auto"):
        fitted = DLFH(16, random_state=0, hash_function=choice).fit(
            {name: view[:300] for name, view in views.items()}, labels[:300]
        )
        codes = {name: fitted.encode(name, view[300:]) for name, view in views.items()}
        scores[choice] = mean_average_precision(codes["image"], codes["text"], labels[300:], labels[300:])
    assert isinstance(fitted.chosen_["image"], KernelRidge)
    assert scores["auto"] > 0.9 > scores["linear"]


def test_few_points_choose_a_penalty_and_similarities_get_the_default_kernel() -> None:
    few = make_paired(n_points=60, random_state=0)
    fitted = DLFH(8, random_state=0).fit(few.modalities, few.labels)
    choices = [repr(KernelRidge(shrinkage=shrinkage, penalty="function")) for shrinkage in (0.2, 0.3, 0.5)]
    assert all(repr(learner) in choices for learner in fitted.chosen_.values())
    similarity = (np.asarray((few.labels @ few.labels.T).todense()) > 0).astype(np.int8)
    fitted = DLFH(8, random_state=0).fit(few.modalities, similarity=similarity)
    assert repr(fitted.chosen_["text"]) == repr(KernelRidge())


def test_rare_bits_are_predicted_by_logistic_functions_unless_sums_are_kept() -> None:
    rng = np.random.default_rng(0)
    labels = np.column_stack([rng.random(600) < 0.98, rng.random((600, 6)) < 0.05])  # 96 % of all pairs are similar
    labels[~labels.any(axis=1), 1] = True
    image = (labels @ rng.normal(size=(7, 10)) + rng.normal(size=(600, 10))).astype(np.float32)
    modalities = {"image": image, "text": image[:, ::-1].copy()}
    model = DLFH(16, random_state=0).fit(modalities, labels.astype(np.int8))
    assert all(isinstance(learner, KernelLogistic) for learner in model.chosen_.values())
    kept = DLFH(16, random_state=0, keep_sums=True).fit(modalities, labels.astype(np.int8))
    assert all(isinstance(learner, (LinearRidge, KernelRidge)) for learner in kept.chosen_.values())
    assert model.label_probabilities({"image": image}).shape == (600, 7)


@pytest.mark.parametrize("n_points", [5, 19, 21])
def test_very_few_points_are_enough(n_points: int) -> None:
    few = make_paired(n_points=n_points, n_labels=3, random_state=0)
    fitted = DLFH(8, random_state=0).fit(few.modalities, few.labels)
    assert fitted.encode("image", few.modalities["image"]).shape == (n_points, 1)


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_copies_of_points_do_not_change_the_accuracy(split: tuple[Paired, Paired], noise: float) -> None:
    """Held-out points whose copies are trained on would make functions that memorise look best."""
    train, test = split
    copies, rng = train.take(np.tile(np.arange(len(train)), 4)), np.random.default_rng(0)
    image = copies.modalities["image"]
    copies.modalities["image"] = image * rng.normal(1, noise, image.shape).astype(np.float32)
    scores = []
    for points in (train, copies):
        fitted = DLFH(16, random_state=0, hash_function=Auto(300)).fit(points.modalities, points.labels)
        codes = {name: fitted.encode(name, matrix) for name, matrix in test.modalities.items()}
        scores.append(mean_average_precision(codes["image"], codes["image"], test.labels, test.labels))
    assert scores[1] > scores[0] - 0.01


def test_of_many_points_only_the_best_kernel_is_tried_with_all_bases(
    split: tuple[Paired, Paired], model: DLFH, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = split
    tried: list[Any] = []
    evaluate = auto._Evaluation.evaluate

    def record(evaluation: Any, learner: Any) -> Any:
        tried.append(learner)
        return evaluate(evaluation, learner)

    monkeypatch.setattr(auto, "_MAX_CROSS_VALIDATED", 300)
    monkeypatch.setattr(auto, "_FEW_BASES", 20)
    monkeypatch.setattr(auto._Evaluation, "evaluate", record)
    fitted = DLFH(16, random_state=0, n_jobs=1, hash_function=Auto(60)).fit(train.modalities, train.labels)
    n_bases = [each.n_bases for each in tried if isinstance(each, KernelRidge)]
    assert n_bases[:4] == [20, 20, 20, 60]  # three scalings; the ridges and bandwidths follow
    assert n_bases.count(20) in (3, 6)
    assert repr(fitted.chosen_["text"]) == repr(model.chosen_["text"])


def test_incomplete_points_are_supported(split: tuple[Paired, Paired]) -> None:
    train, _ = split
    present = {"text": np.arange(len(train)) % 10 > 0}
    fitted = DLFH(8, random_state=0, hash_function=Auto(30, n_points=250)).fit(
        train.modalities, train.labels, present=present
    )
    assert set(fitted.chosen_) == {"image", "text"}


def test_parameters_are_checked() -> None:
    with pytest.raises(InputError, match="n_points must be an integer of at least 200, got 3"):
        Auto(n_points=3).check_parameters()
