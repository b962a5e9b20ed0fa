"""The best trial wins, ties go to the less regularised candidate, and halving keeps the best third."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dlfh._selection import (
    Trial,
    best_trial,
    choose_in_turn,
    hold_out_groups,
    least_regularised_within_one_se,
    mark_chosen,
    run_trials,
    successive_halving,
)


def trial(candidate: float, *scores: float) -> Trial[float]:
    return Trial(candidate, np.array(scores))


def test_the_first_of_equally_good_trials_is_chosen_and_failed_ones_never() -> None:
    trials = [trial(0), trial(1, 0.2, 0.4), trial(2, 0.3, 0.3), trial(3, 0.1, 0.2)]
    assert best_trial(trials).candidate == 1
    assert [each.chosen for each in mark_chosen(trials)] == [False, True, False, False]


def test_each_trial_advances_the_progress_bar() -> None:
    steps: list[int] = []
    trials = run_trials([1.0, 2.0], lambda candidate: trial(candidate, candidate), lambda: steps.append(1))
    assert [each.score for each in trials] == [1.0, 2.0]
    assert len(steps) == 2


def test_settings_are_chosen_in_turn_with_the_earlier_choices() -> None:
    seen: list[dict[str, int]] = []

    def evaluate(name: str, options: dict[str, int]) -> Trial[int]:
        seen.append(options)
        return Trial(options[name], np.array([float(options[name])]), name)

    chosen, trials = choose_in_turn({"a": [1, 3, 2], "b": [5], "c": [7, 8]}, evaluate)
    assert chosen == {"a": 3, "b": 5, "c": 8}
    assert [(each.setting, each.candidate, each.chosen) for each in trials] == [
        ("a", 1, False), ("a", 3, True), ("a", 2, False), ("c", 7, False), ("c", 8, True)
    ]  # fmt: skip
    assert seen[0] == {"a": 1, "b": 5, "c": 7}
    assert seen[-1] == {"a": 3, "b": 5, "c": 8}


def test_the_least_regularised_within_one_standard_error_of_the_best_is_chosen() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(100)
    noisy = scores + rng.normal(0, 0.5, 100)
    noisy += scores.mean() - noisy.mean() - 0.04  # worse by less than its standard error, 0.05
    trials = [trial(1.0, *scores), trial(0.1, *noisy), trial(0.01, *(scores - 0.01))]
    assert least_regularised_within_one_se(trials, float).candidate == 0.1


@pytest.mark.parametrize("budgets", [[None], [1, 3, 9]])
def test_halving_gives_the_best_third_three_times_the_budget(budgets: list[int | None]) -> None:
    sizes: list[int] = []

    def evaluate(candidates: Sequence[float], budget: int | None) -> list[Trial[float]]:
        sizes.append(len(candidates))
        return [Trial(each, np.array([each]), budget=budget) for each in candidates]

    trials = successive_halving([float(each) for each in range(9)], evaluate, budgets)
    assert [each.candidate for each in trials] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert sizes == ([9] if budgets == [None] else [9, 3, 1])
    assert [each.budget for each in trials][:4] == ([None] * 4 if budgets == [None] else [9, 3, 3, 1])


@pytest.mark.parametrize("n_held_out", [0, 1, 7, 20, 59])
def test_no_group_is_on_both_sides_of_a_split(n_held_out: int) -> None:
    rng = np.random.default_rng(n_held_out)
    order, groups = rng.permutation(60), rng.integers(0, 20, 60)
    held_out, others = hold_out_groups(order, groups, n_held_out)
    group_of_point = dict(zip(order.tolist(), groups.tolist(), strict=True))
    assert not {group_of_point[point] for point in held_out} & {group_of_point[point] for point in others}
    assert sorted([*held_out, *others]) == list(range(60))
    assert n_held_out - 8 < len(held_out) <= n_held_out


def test_points_without_copies_are_held_out_in_order() -> None:
    order = np.random.default_rng(0).permutation(30)
    held_out, others = hold_out_groups(order, np.arange(30), 10)
    np.testing.assert_array_equal(np.concatenate([held_out, others]), order)
    assert len(held_out) == 10
