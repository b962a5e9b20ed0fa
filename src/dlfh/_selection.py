"""Model selection: held-out scores of candidates, and rules to choose among them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from dlfh._arrays import Floats, Integers
from dlfh._parallel import Workers

C = TypeVar("C")
HALVING_FACTOR = 3  #: Successive halving keeps one candidate in ``HALVING_FACTOR`` and multiplies the budget by it.


@dataclass(frozen=True, eq=False)
class Trial(Generic[C]):
    """Held-out scores of one candidate.

    scores (n,): Scores by query, by measure or by run, in the same order for every candidate; empty if the trial
        failed.
    setting, option: The setting to be chosen, and the candidate's value for it, as shown to users.
    n_points: Number of points in the trial, for training and held out.
    note: Reason why scores are missing.
    budget: Resources of the trial in successive halving.
    """

    candidate: C
    scores: Floats
    setting: str = ""
    option: str = ""
    n_points: int = 0
    seconds: float = 0.0
    note: str = ""
    budget: int | None = None
    chosen: bool = False

    @property
    def score(self) -> float:
        """Mean score; minus infinity if the trial failed."""
        return float(np.mean(self.scores)) if len(self.scores) else -math.inf


def run_trials(
    candidates: Sequence[C],
    evaluate: Callable[[C], Trial[C]],
    advance: Callable[[], object] = lambda: None,
    workers: Workers | None = None,
) -> list[Trial[C]]:
    """Evaluate candidates one after another, or in threads; time each trial, and advance a progress bar."""

    def run(number: int, _: int) -> Trial[C]:
        began = time.perf_counter()
        trial = evaluate(candidates[number])
        return replace(trial, seconds=time.perf_counter() - began)

    trials = []
    for trial in (workers or Workers(1)).each_block(run, len(candidates), 1):
        trials.append(trial)
        advance()
    return trials


def best_trial(trials: Sequence[Trial[C]]) -> Trial[C]:
    """Return the trial with the highest score; of equal trials, the first."""
    return max(trials, key=lambda trial: trial.score)


def mark_chosen(trials: Sequence[Trial[C]]) -> list[Trial[C]]:
    """Return the trials with the best one marked as chosen."""
    best = best_trial(trials)
    return [replace(trial, chosen=trial is best) for trial in trials]


def choose_in_turn(
    options: Mapping[str, Sequence[C]],
    evaluate: Callable[[str, dict[str, C]], Trial[C]],
    advance: Callable[[], object] = lambda: None,
) -> tuple[dict[str, C], list[Trial[C]]]:
    """Choose the best option of each setting in turn; settings not yet chosen have their first option.

    ``evaluate`` takes the name of the setting and the options of all settings. A single option needs no trial.
    """
    chosen = {name: candidates[0] for name, candidates in options.items()}
    trials: list[Trial[C]] = []
    for name, candidates in options.items():
        if len(candidates) > 1:
            tried = run_trials(candidates, lambda each, name=name: evaluate(name, {**chosen, name: each}), advance)  # type: ignore[misc]
            chosen[name] = best_trial(tried).candidate
            trials += mark_chosen(tried)
    return chosen, trials


def least_regularised_within_one_se(trials: Sequence[Trial[C]], strength: Callable[[C], float]) -> Trial[C]:
    """Return the least regularised of the trials whose score is within one standard error of the best."""
    # Their scores do not differ significantly, and the least regularised candidate fits its training points best.
    best = best_trial(trials)

    def is_level(trial: Trial[C]) -> bool:
        differences = best.scores - trial.scores
        return float(differences.mean()) <= float(differences.std()) / np.sqrt(len(differences))

    return min(filter(is_level, trials), key=lambda trial: (strength(trial.candidate), -trial.score))


def successive_halving(
    candidates: Sequence[C],
    evaluate: Callable[[Sequence[C], int | None], Sequence[Trial[C]]],
    budgets: Sequence[int | None],
) -> list[Trial[C]]:
    """Evaluate all candidates with the first budget, the best third of them with the next, and so on.

    Return the last trial of each candidate, sorted by budget (largest first) and then by score.
    """
    eliminated: list[Trial[C]] = []
    for rung, budget in enumerate(budgets):
        trials = sorted(evaluate(candidates, budget), key=lambda trial: -trial.score)
        n_kept = len(trials) if rung == len(budgets) - 1 else math.ceil(len(trials) / HALVING_FACTOR)
        eliminated = [*trials[n_kept:], *eliminated]
        candidates = [trial.candidate for trial in trials[:n_kept]]
    return [*trials[:n_kept], *eliminated]


def hold_out_groups(order: Integers, groups: Integers, n_held_out: int) -> tuple[Integers, Integers]:
    """Split points into held-out ones, the first in ``order``, and the others, without splitting groups of copies.

    groups: The group of each point in ``order``. The rest of a group follows its first point. The held-out points end
        before the first group that would exceed ``n_held_out``.
    """
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    adjacent = np.argsort(first[number.ravel()], kind="stable")
    is_start = np.append(np.diff(groups[adjacent], prepend=-1) != 0, True)
    cut = int(np.flatnonzero(is_start[: n_held_out + 1])[-1])
    return order[adjacent[:cut]], order[adjacent[cut:]]


def format_parameters(parameters: Mapping[str, Any]) -> str:
    """Return parameters as text, for display."""
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"
