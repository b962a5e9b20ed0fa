"""Settings for raw items: first features, then a method and its parameters, chosen on held-out items.

`Encoder` chooses features on one sample of the items. `tune_items` uses several samples, tries every kind of features,
and evaluates each candidate as it would be built, with the hash functions that it chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._labels import LabelSets
from dlfh._progress import progress
from dlfh._selection import Trial, best_trial, choose_in_turn, format_parameters, mark_chosen, run_trials
from dlfh.collection.choosing import (
    HELD_OUT,
    MAX_ITEMS,
    MIN_ITEMS,
    TrialSample,
    candidate_featurizers,
    evaluate_on,
    feature_names,
)
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS

if TYPE_CHECKING:
    from dlfh.datasets.items import Items
    from dlfh.features.base import Featurizer
    from dlfh.methods import CrossModalHasher


@dataclass(frozen=True)
class Candidate:
    """A method, by name, and its parameters."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return format_parameters(self.parameters)

    def model(self, n_bits: int, random_state: int) -> CrossModalHasher:
        """Return the unfitted method with these parameters."""
        method = METHODS[self.method]
        known = method.parameter_names()
        for name in self.parameters:
            if name not in known:
                raise InputError(f"{self.method} has no parameter {name!r}: its parameters are {', '.join(known)}")
        common = {"n_bits": n_bits, "random_state": random_state}
        model = method(**{name: value for name, value in common.items() if name in known} | self.parameters)
        model.check_parameters()
        return model


@dataclass(frozen=True)
class TuningResult:
    """Result of `tune_items`.

    candidate: The best method and parameters.
    features: The best features of "image" and "text" modalities, if the items have any.
    trials: Mean scores over samples.
    failures: Error messages of candidates that could not be evaluated.
    """

    candidate: Candidate
    features: dict[str, str]
    trials: list[Trial[Any]]
    failures: dict[str, str]


def tune_items(
    items: Items,
    candidates: Sequence[Candidate],
    *,
    n_bits: int,
    n_draws: int = 3,
    n_items: int = MAX_ITEMS,
    held_out: float = HELD_OUT,
    show_progress: bool = False,
) -> TuningResult:
    """Choose features, and then a method and its parameters, by their mean scores over samples of the items.

    items: Only complete, labelled items are used.
    candidates: Features are chosen with the first one's method and default parameters.
    n_draws, n_items: Number of samples, and the maximum size of each.
    held_out: Share of a sample that is held out.
    """
    complete = items.take(np.flatnonzero(items.complete()))
    if items.labels is None or len(complete) < MIN_ITEMS:
        raise InputError(
            f"too few items to tune with: {len(complete)} have labels and every modality, and at least {MIN_ITEMS} are "
            "needed"
        )
    labels = LabelSets.from_labels(complete.labels)
    samples = [TrialSample.draw(complete.modalities, labels, seed, n_items, held_out) for seed in range(n_draws)]
    default_model = Candidate(candidates[0].method).model(n_bits, 0)

    def evaluate_features(kind: str, features: dict[str, str]) -> Trial[Any]:
        name = features[kind]
        return evaluate_on(samples, _featurizers(complete, features), default_model, name, kind, name)

    def evaluate(candidate: Candidate) -> Trial[Any]:
        model, names = candidate.model(n_bits, 0), (candidate.method, str(candidate))
        try:
            return evaluate_on(samples, _featurizers(complete, features), model, candidate, *names, as_configured=True)
        except InputError as error:
            return Trial(candidate, np.empty(0), *names, note=str(error))

    kinds = _kinds(complete)
    with progress(show_progress) as bar:
        advance = bar.counter("trials", sum(map(len, kinds.values())) + len(candidates))
        features, trials = choose_in_turn(kinds, evaluate_features, advance)
        tried = run_trials(candidates, evaluate, advance)
    failures = {f"{trial.setting}: {trial.option}": trial.note for trial in tried if trial.note}
    measured = [trial for trial in tried if not trial.note]
    if not measured:
        raise InputError(f"no candidate could be evaluated: {next(iter(failures.values()))}")
    return TuningResult(best_trial(measured).candidate, features, [*trials, *mark_chosen(measured)], failures)


def _kinds(items: Items) -> dict[str, list[str]]:
    """Return the names of the features to try for images and for texts, if the items have any."""
    lists = [values for values in items.modalities.values() if isinstance(values, list)]
    texts = [all(isinstance(value, str) for value in values) for values in lists]
    images = {"image": feature_names("image")} if not all(texts) else {}
    return images | ({"text": feature_names("text")} if any(texts) else {})


def _featurizers(items: Items, features: Mapping[str, str]) -> dict[str, Featurizer]:
    """Return a featuriser for each modality, the default one where ``features`` names none."""
    image, text = (features.get(kind, "auto") for kind in ("image", "text"))
    return {name: several[0] for name, several in candidate_featurizers(items, image=image, text=text).items()}
