"""Settings for items as they are: features first, then a method and its parameters, by items that trials did not see.

`Encoder` chooses features in one draw of some items. Here there are several draws, every kind of features is tried, and
then each candidate as it would be built with, hash functions and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._labels import LabelSets
from dlfh.collection.candidates import candidate_featurizers, feature_names
from dlfh.collection.choosing import HELD_OUT, LEAST_ITEMS, MOST_ITEMS, Draw, Trial
from dlfh.errors import InputError
from dlfh.methods.catalogue import METHODS

if TYPE_CHECKING:
    from dlfh.datasets.items import Items
    from dlfh.features.base import Featurizer
    from dlfh.methods import CrossModalHasher

__all__ = ["Candidate", "Tuned", "tune_items"]


@dataclass(frozen=True)
class Candidate:
    """A method of the registry, by its name, and parameters of it."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.parameters.items()) or "defaults"

    def model(self, n_bits: int, random_state: int) -> CrossModalHasher:
        """Return the method with these parameters, to be fitted."""
        kind = METHODS[self.method]
        unknown = [name for name in self.parameters if name not in kind.parameter_names()]
        if unknown:
            known = ", ".join(kind.parameter_names())
            raise InputError(f"{self.method} has no parameter {unknown[0]!r} to set: it has {known}")
        common = {"n_bits": n_bits, "random_state": random_state}
        given = {name: value for name, value in common.items() if name in kind.parameter_names()}
        model = kind(**{**given, **self.parameters})
        model.check_parameters()
        return model


@dataclass(frozen=True)
class Tuned:
    """What served items best.

    Attributes
    ----------
    candidate : Candidate
    n_bits : int
    features : dict of str to str
        By ``"image"`` and ``"text"``, which features describe such values, if there are some.
    trials : list of Trial
        All of them, means over draws, in the order in which they were made.
    failures : dict of str to str
        Candidates that could not be measured, and why.
    """

    candidate: Candidate
    n_bits: int
    features: dict[str, str]
    trials: list[Trial]
    failures: dict[str, str]


def tune_items(
    items: Items,
    candidates: Sequence[Candidate],
    *,
    n_bits: int,
    n_draws: int = 3,
    n_items: int = MOST_ITEMS,
    held_out: float = HELD_OUT,
    on_trial: Callable[[Trial], object] = lambda trial: None,
) -> Tuned:
    """Try features, and then methods and parameters, on items that trials did not see.

    Parameters
    ----------
    items : Items
        Complete, labelled ones are drawn from them.
    candidates : sequence of Candidate
        Features are tried with the first one's method, as it comes.
    n_bits : int
    n_draws : int
        How often items are drawn; what is compared are means.
    n_items : int
        How many are drawn, at most.
    held_out : float
        The share of them that asks.
    on_trial : callable
        Is told of each trial when it is over.

    Returns
    -------
    Tuned
    """
    models = [candidate.model(n_bits, 0) for candidate in candidates]
    usual = Candidate(candidates[0].method).model(n_bits, 0)
    whole = items.take(np.flatnonzero(items.complete()))
    if items.labels is None or len(whole) < LEAST_ITEMS:
        raise InputError(
            f"there are too few items to try anything on: {len(whole)} have labels and every modality, and at least "
            f"{LEAST_ITEMS} are needed"
        )
    labels = LabelSets.from_labels(whole.labels)
    draws = [Draw.of(whole.modalities, labels, seed, n_items, held_out) for seed in range(n_draws)]
    trials: list[Trial] = []
    features: dict[str, str] = {}
    for kind, names in _kinds(whole).items():
        tried = []
        for name in names:
            described = _described(whole, {**features, kind: name})
            tried.append(_mean([draw.trial(described, usual, kind, name) for draw in draws]))
            on_trial(tried[-1])
        best = _best(tried)
        features[kind] = names[best]
        trials += [replace(trial, chosen=place == best) for place, trial in enumerate(tried)]
    described = _described(whole, features)
    measured: list[tuple[Candidate, Trial]] = []
    failures: dict[str, str] = {}
    for candidate, model in zip(candidates, models, strict=True):
        what = candidate.method, str(candidate)
        try:
            trial = _mean([draw.trial(described, model, *what, as_it_is=True) for draw in draws])
        except InputError as error:
            failures[": ".join(what)] = str(error)
            continue
        on_trial(trial)
        measured.append((candidate, trial))
    if not measured:
        raise InputError(f"no candidate could be measured: {next(iter(failures.values()))}")
    best = _best([trial for _, trial in measured])
    trials += [replace(trial, chosen=place == best) for place, (_, trial) in enumerate(measured)]
    return Tuned(measured[best][0], n_bits, features, trials, failures)


def _kinds(items: Items) -> dict[str, list[str]]:
    """Return what may describe images and texts, if items have any."""
    lists = [values for values in items.modalities.values() if isinstance(values, list)]
    texts = [all(isinstance(value, str) for value in values) for values in lists]
    images = {"image": feature_names("image")} if not all(texts) else {}
    return images | ({"text": feature_names("text")} if any(texts) else {})


def _described(items: Items, features: Mapping[str, str]) -> dict[str, Featurizer]:
    """Return a featuriser for each modality; the first of several where nothing is said."""
    image, text = (features.get(kind, "auto") for kind in ("image", "text"))
    return {name: own[0] for name, own in candidate_featurizers(items, image=image, text=text).items()}


def _mean(trials: Sequence[Trial]) -> Trial:
    """Return the mean of one candidate's trials, with the time that all of them took."""
    quality, graded, exact = np.mean([(trial.map, trial.ndcg, trial.exact) for trial in trials], axis=0).tolist()
    seconds = sum(trial.seconds for trial in trials)
    return replace(trials[0], map=quality, ndcg=graded, exact=exact, seconds=seconds)


def _best(trials: Sequence[Trial]) -> int:
    return max(range(len(trials)), key=lambda place: trials[place].merit)
