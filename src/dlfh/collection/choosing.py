"""Settings for raw items, chosen on held-out items: featurisers, and for `dlfh tune` a method and its parameters.

A sample of the items is split into training and held-out items. For each candidate, the method is fitted to the
training items, and the held-out items search each other, as new items would. Text queries are whole texts, one word,
half of the words, and texts with a typing error. The best features differ between data sets: colours distinguish
clothes but hardly icons; parts of words help short queries and add noise to long ones.

`Encoder` chooses features on one sample of the items. `tune_items` uses several samples, tries every kind of features,
and evaluates each candidate as it would be built, with the hash functions that it chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers, Singles
from dlfh._imports import is_installed
from dlfh._labels import LabelSets
from dlfh._progress import progress
from dlfh._selection import (
    Trial,
    best_trial,
    choose_in_turn,
    format_parameters,
    hold_out_groups,
    mark_chosen,
    run_trials,
)
from dlfh._validation import Features
from dlfh.codes import pack
from dlfh.collection.contents import item_groups
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Clip, Vectors
from dlfh.features.base import Featurizer
from dlfh.methods import CrossModalHasher
from dlfh.methods.catalogue import METHODS

#: Size of the sample, the held-out share of it, and the minimum number of items for a choice.
MAX_ITEMS, HELD_OUT, MIN_ITEMS = 1200, 1 / 3, 100

#: Scores of a trial: mean average precision, nDCG@10, and the share of the first five items that have exactly the
#: query's labels. MAP alone prefers features that find common labels but miss items with all labels of the query.
MEASURES = ("map", "ndcg", "exact")

#: Default code length; docs/answers.md compares the accuracy of several.
N_BITS = 128

E = TypeVar("E", Featurizer, CrossModalHasher)
Kind = Literal["image", "text"]
#: Features by name: kinds of image featurisers, and parameters of `BagOfWords`.
_FEATURES: dict[Kind, dict[str, Any]] = {
    "image": {
        "combined": "combined-image",
        "gist": "gist",
        "hog": "hog",
        "thumbnail": "thumbnail",
        "cnn": "efficientnet",
    },
    "text": {
        "tfidf": {},
        "pieces": {"analyzer": "word+char", "min_df": 2},
        "count": {"weighting": "count"},
        "binary": {"weighting": "binary"},
    },
}
#: Candidates of "auto", the default first; "cnn" is added if it is installed.
_AUTO: dict[Kind, tuple[str, ...]] = {"image": ("combined", "gist", "thumbnail"), "text": ("tfidf", "pieces")}


def candidate_featurizers(
    items: Items, *, image: str = "auto", text: str = "auto", verbose: bool = False
) -> dict[str, list[Featurizer]]:
    """Return the candidate featurisers of each modality; `Encoder.for_items` documents the parameters."""
    featurizers: dict[str, list[Featurizer]] = {}
    for name, values in items.modalities.items():
        if not isinstance(values, list):
            featurizers[name] = [Vectors()]
            continue
        kind: Kind = "text" if all(value is None or isinstance(value, str) for value in values) else "image"
        names: Sequence[str] = [image if kind == "image" else text]
        if names == ["auto"]:
            names = [each for each in (*_AUTO[kind], "cnn") if each in feature_names(kind)]
            names = ["tfidf"] if name == LABEL_WORDS else names
        featurizers[name] = [_featurizer(name, each, kind, verbose) for each in names]
    return featurizers


def feature_names(kind: Kind) -> list[str]:
    """Return the names of all installed features of images or texts."""
    has_network = all(map(is_installed, ("torch", "efficientnet_lite_pytorch")))
    return [name for name in _FEATURES[kind] if name != "cnn" or has_network]


def _featurizer(modality: str, choice: str, kind: Kind, verbose: bool) -> Featurizer:
    family, _, folder = choice.partition(":")
    if family == "clip" and folder:
        return Clip(folder, tower=kind, verbose=verbose)
    if choice not in _FEATURES[kind]:
        known = ", ".join(("auto", *_FEATURES[kind]))
        raise InputError(f"the features of {modality!r} must be {known} or clip:FOLDER, got {choice!r}")
    if kind == "text":
        return BagOfWords(**_FEATURES[kind][choice], verbose=verbose)
    featurizer: type[Any] = Featurizer._registry.find(_FEATURES[kind][choice])
    return featurizer(verbose=verbose)


def choose_featurizers(
    candidates: Mapping[str, Sequence[Featurizer]],
    model: CrossModalHasher,
    values: Mapping[str, Any],
    labels: Any,
    random_state: int = 0,
) -> tuple[dict[str, Featurizer], list[Trial[Any]]]:
    """Return the best featuriser of each modality for the raw values of complete items, and the trials.

    With fewer than 100 items, or without labels, the first candidate is chosen. Models that choose their hash functions
    use fixed ones in trials. The last two trials compare the model's number of bits with twice as many.
    """
    is_open = any(len(featurizers) > 1 for featurizers in candidates.values())
    sets = LabelSets.from_labels(labels) if is_open and labels is not None and len(labels) else None
    if sets is None or sets.n_points < MIN_ITEMS:
        return {name: featurizers[0] for name, featurizers in candidates.items()}, []
    samples = [TrialSample.draw(values, sets, random_state)]

    def evaluate(name: str, featurizers: dict[str, Featurizer]) -> Trial[Any]:
        option = repr(_changed(featurizers[name], verbose=False))
        return evaluate_on(samples, featurizers, model, featurizers[name], name, option)

    chosen, trials = choose_in_turn(candidates, evaluate)
    more = _changed(model, n_bits=2 * model.n_bits)
    doubled = run_trials([more], lambda _: evaluate_on(samples, chosen, more, more.n_bits, "bits", str(more.n_bits)))
    now = next(trial for trial in reversed(trials) if trial.chosen)  # with the chosen featurisers of all modalities
    bits = Trial(model.n_bits, now.scores, "bits", str(model.n_bits), now.n_points, chosen=True)
    return chosen, [*trials, bits, *doubled]


def trial_summary(trial: Trial[Any]) -> dict[str, Any]:
    """Return a trial as a row of JSON."""
    values = trial.setting, trial.option, *trial.scores.tolist(), trial.n_points, trial.seconds, trial.chosen
    return dict(zip(("setting", "option", *MEASURES, "n_items", "seconds", "chosen"), values, strict=True))


def evaluate_on(
    samples: Sequence[TrialSample],
    featurizers: Mapping[str, Featurizer],
    model: CrossModalHasher,
    candidate: Any,
    setting: str,
    option: str,
    *,
    as_configured: bool = False,
) -> Trial[Any]:
    """Evaluate featurisers and a model with fixed hash functions; return a trial with the mean scores over samples.

    With ``as_configured``, the model uses, or chooses, the hash functions that its parameters specify.
    """
    results = [sample.evaluate(featurizers, model, as_configured) for sample in samples]
    return Trial(candidate, np.mean([scores for scores, _ in results], axis=0), setting, option, results[0][1])


@dataclass(frozen=True)
class TrialSample:
    """Sampled items, split into training and held-out items; ``vectors`` caches their vectors by featuriser."""

    values: dict[str, Any]
    labels: sp.csr_array
    train: Integers
    held_out: Integers
    seed: int
    vectors: dict[tuple[str, str], _Vectors] = field(default_factory=dict)

    @classmethod
    def draw(
        cls, values: Mapping[str, Any], labels: LabelSets, seed: int, size: int = MAX_ITEMS, held_out: float = HELD_OUT
    ) -> TrialSample:
        """Draw at most ``size`` items and hold out a share of them; copies stay on the same side of the split."""
        drawn = np.random.default_rng(seed).permutation(labels.n_points)[:size]
        groups = item_groups({name: _take(column, drawn) for name, column in values.items()})
        held_out_items, others = hold_out_groups(drawn, groups, int(len(drawn) * held_out))
        drawn = np.concatenate([others, held_out_items])
        sets, (train, rest) = labels.take(drawn), np.split(np.arange(len(drawn)), [len(others)])
        sampled = {name: _take(column, drawn) for name, column in values.items()}
        return cls(sampled, sets.rows()[sets.set_of_point], train, rest, seed)

    def evaluate(
        self, featurizers: Mapping[str, Featurizer], model: CrossModalHasher, as_configured: bool
    ) -> tuple[Floats, int]:
        """Return the `MEASURES` of held-out items, averaged over directions, and the number of readable items."""
        vectors = {name: self._vectors(name, featurizer) for name, featurizer in featurizers.items()}
        everyone = np.arange(len(self.train) + len(self.held_out))
        readable = np.logical_and.reduce([np.isin(everyone, each.rows) for each in vectors.values()])
        train, held_out = self.train[readable[self.train]], self.held_out[readable[self.held_out]]
        matrices = {name: each.take(train) for name, each in vectors.items()}
        unfitted = _changed(model) if as_configured else _with_fixed_functions(model, matrices)
        fitted = unfitted.fit(matrices, self.labels[train])
        database = {name: fitted.project(name, each.take(held_out)) for name, each in vectors.items()}
        asked = np.searchsorted(self.held_out, held_out)
        queries = [*database.items()]
        queries += [(name, fitted.project(name, some[asked])) for name, each in vectors.items() for some in each.asked]
        scores = np.mean([*_directions(queries, database, self.labels[held_out])], axis=0)
        return scores, int(readable.sum())

    def _vectors(self, name: str, featurizer: Featurizer) -> _Vectors:
        """Return the vectors of all items, from a featuriser fitted to the training items."""
        key = name, repr(featurizer)
        if key not in self.vectors:
            fitted, values = _changed(featurizer, verbose=False), self.values[name]
            held_out = _take(values, self.held_out)
            parts = fitted.fit_transform_readable(_take(values, self.train)), fitted.transform_readable(held_out)
            rows = np.concatenate([self.train[parts[0].rows], self.held_out[parts[1].rows]])
            stack = sp.vstack if sp.issparse(parts[0].features) else np.vstack
            matrix = stack([part.features for part in parts])
            asked = [*_as_people_ask(held_out, self.seed)] if fitted.takes == "texts" else []
            known = [fitted.transform(texts) for texts in asked]
            self.vectors[key] = _Vectors(sp.csr_array(matrix) if sp.issparse(matrix) else matrix, rows, known)
        return self.vectors[key]


class _Vectors(NamedTuple):
    """Vectors of the readable items, their rows, and vectors of the query variants of each held-out text."""

    matrix: Features
    rows: Integers
    asked: list[Features]

    def take(self, items: Integers) -> Features:
        return self.matrix[np.searchsorted(self.rows, items)]


def _take(values: Any, rows: Integers) -> Any:
    return [values[row] for row in rows] if isinstance(values, (list, tuple)) else values[rows]


def _as_people_ask(texts: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Yield one word of each text; half of its words; and all words, with two letters of the longest one swapped."""
    rng = np.random.default_rng(seed)
    words = [text.split() or [text] for text in texts]
    yield [str(rng.choice(each)) for each in words]
    yield [" ".join(rng.permutation(each)[: max(1, len(each) // 2)]) for each in words]
    longest = [max(each, key=len) for each in words]
    places = [int(rng.integers(max(1, len(word) - 1))) for word in longest]
    swapped = [word[:k] + word[k : k + 2][::-1] + word[k + 2 :] for word, k in zip(longest, places, strict=True)]
    yield [" ".join(each).replace(old, new) for each, old, new in zip(words, longest, swapped, strict=True)]


def _changed(estimator: E, **changes: Any) -> E:
    return type(estimator)(**{**estimator.get_params(deep=False), **changes})


def _with_fixed_functions(model: CrossModalHasher, matrices: Mapping[str, Features]) -> CrossModalHasher:
    """Return an unfitted copy; if the model would choose its hash functions, with ones that suit most features."""
    from dlfh.hashing import Auto, KernelRidge, LinearRidge

    changes: dict[str, Any] = {"verbose": False} if "verbose" in model.get_params(deep=False) else {}
    functions = getattr(model, "hash_function", None)
    if functions == "auto" or isinstance(functions, Auto):
        changes["hash_function"] = {
            name: LinearRidge(shrinkage=0.3) if sp.issparse(matrix) else KernelRidge(shrinkage=0.01, scaling="standard")
            for name, matrix in matrices.items()
        }
    return _changed(model, **changes)


def _directions(
    queries: Sequence[tuple[str, Singles]], database: Mapping[str, Singles], labels: sp.csr_array
) -> Iterator[list[float]]:
    """Yield the `MEASURES` of each direction; each half of the items searches the other."""
    from dlfh.metrics import evaluate
    from dlfh.metrics.measures import AP, P, nDCG

    middle = labels.shape[0] // 2
    halves = slice(0, middle), slice(middle, None)
    measures = [AP, nDCG @ min(10, middle), P(match="all") @ min(5, middle)]
    for name, projections in queries:
        for other, values in database.items():
            for half, rest in (halves, halves[::-1]) if name != other else ():
                codes = pack(values[rest])
                result = evaluate(projections[half], codes, labels[half], labels[rest], measures=measures)
                yield [result[measure] for measure in measures]


@dataclass(frozen=True)
class Candidate:
    """A method, by name, and its parameters."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return format_parameters(self.parameters)

    def model(self, n_bits: int, random_state: int) -> CrossModalHasher:
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
    """Result of `tune_items`."""

    candidate: Candidate  # best method and parameters
    features: dict[str, str]  # best features of "image" and "text" modalities, if the items have any
    trials: list[Trial[Any]]  # mean scores over samples
    failures: dict[str, str]  # error messages of candidates that could not be evaluated


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
    """Choose features, then a method and its parameters, by mean scores over samples of the items.

    Only complete, labelled items are used. Features are chosen with the first candidate's method and default
    parameters. There are ``n_draws`` samples of at most ``n_items`` items, of which the share ``held_out`` is held out.
    """
    complete = items.take(np.flatnonzero(items.complete()))
    if items.labels is None or len(complete) < MIN_ITEMS:
        raise InputError(
            f"too few items to tune with: {len(complete)} have labels and every modality, {MIN_ITEMS} are needed"
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
