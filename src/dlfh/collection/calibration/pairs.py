"""Pairs of held-out queries and items with known relevance, for fitting coefficients and measuring rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlfh._arrays import Floats, Integers, Mask
from dlfh.collection.calibration.model import Fit, Pattern, probability

#: Minimum weight of words, as a multiple of the label weight if labels are used: enough to break ties.
MIN_WORD_WEIGHT = 0.05


@dataclass(frozen=True)
class Pairs:
    """Evidence and relevance of pairs (queries, items), for items with one kind of codes."""

    similarities: dict[str, Floats]  # of the items' codes to the queries, by modality
    words: dict[tuple[str, ...], Floats]  # `word_evidence`, by text modalities searched; empty unless queries are texts
    relevant: Mask
    counted: Mask  # False for a query paired with itself
    known_item: Pairs | None = None  # each query is half of the words of one item, the only relevant one
    labels: tuple[Floats, ...] = ()  # `label_evidence`; empty for rankings by codes
    none: Floats | None = None  # (queries, 1), see `label_evidence`; None for rankings by codes
    complete: Mask | None = None  # whether an item has all labels and words that a text asks for

    def take(self, queries: Integers, items: Integers | None = None) -> Pairs:
        """Return the pairs of some queries with some items, without known-item search."""
        rows = np.ix_(queries, np.arange(self.relevant.shape[1]) if items is None else items)
        similarities = {name: values[rows] for name, values in self.similarities.items()}
        labels, none = tuple(values[rows] for values in self.labels), None if self.none is None else self.none[queries]
        words = {names: values[rows] for names, values in self.words.items()}
        complete = None if self.complete is None else self.complete[rows]
        return Pairs(similarities, words, self.relevant[rows], self.counted[rows], None, labels, none, complete)

    def without_codes(self) -> Pairs:
        """Return the pairs without the similarities of codes, so that these get a weight of 0."""
        nothing = {name: np.zeros(values.shape) for name, values in self.similarities.items()}
        known_item = None if self.known_item is None else self.known_item.without_codes()
        return replace(self, similarities=nothing, known_item=known_item)

    def features(self, pattern: Pattern) -> list[Floats]:
        labels = self.labels if pattern.modalities else ()
        columns = [*labels, *(self.similarities[name] for name in pattern.modalities)]
        if not pattern.words:
            return columns
        texts = max(self.words, key=len)
        words = self.words[tuple(name for name in texts if name in pattern.modalities) or texts]
        return [*columns, words, *([words * self.none] if labels and self.none is not None else [])]

    def log_odds(self, pattern: Pattern, fit: Fit) -> Floats:
        return fit.log_odds(self.features(pattern))

    def relevant_share(self) -> float:
        """Return the share of relevant pairs, smoothed to lie strictly between 0 and 1."""
        return float((self.relevant[self.counted].sum() + 0.5) / (int(self.counted.sum()) + 1))

    def fit(self, pattern: Pattern, places: Integers | None = None, min_word_weight: float = MIN_WORD_WEIGHT) -> Fit:
        """Fit a pattern to all counted pairs, or to those at the given positions of the flattened arrays.

        A pattern with words is also fitted to known-item pairs: people also search for one item by words that are not
        labels, which would otherwise get no weight.
        """
        places = np.flatnonzero(self.counted) if places is None else places
        features = [values.ravel()[places] for values in self.features(pattern)]
        relevant = self.relevant.ravel()[places]
        if pattern.words and self.known_item is not None:
            more = [values.ravel() for values in self.known_item.features(pattern)]
            features = [np.concatenate(columns) for columns in zip(features, more, strict=True)]
            relevant = np.concatenate([relevant, self.known_item.relevant.ravel()])
        fit = fit_logistic(features, relevant)
        has_labels = bool(self.labels and pattern.modalities)
        weight = fit.weights[-2 if has_labels else -1] if pattern.words else 0.0
        if not pattern.words or weight >= min_word_weight * (fit.weights[0] if has_labels else 1.0):
            return fit
        if has_labels:  # keeps probabilities calibrated for any weight of words relative to labels
            *codes_and_words, alone = features[1:]
            combined = features[0] + min_word_weight * codes_and_words.pop()
            both = fit_logistic([combined, *codes_and_words, alone], relevant)
            return Fit((*both.weights[:-1], min_word_weight * both.weights[0], both.weights[-1]), both.bias)
        codes = fit_logistic(features[:-1], relevant, offset=min_word_weight * features[-1])
        return Fit((*codes.weights, min_word_weight), codes.bias)


#: Pairs by the kind of the items' codes, "learned" or "hashed".
PairsByKind = Mapping[str, Pairs]


def fit_patterns(
    pairs: PairsByKind, places: Mapping[str, Integers], patterns: Sequence[Pattern], min_weight: float = MIN_WORD_WEIGHT
) -> dict[Pattern, Fit]:
    """Fit the patterns of each kind of codes, with biases shifted to a common prior, the share of relevant items."""
    prior = _log_odds(pairs["learned" if "learned" in pairs else "hashed"].relevant_share())
    fits = {}
    for kind, pairs_of_kind in pairs.items():
        shift = prior - _log_odds(pairs_of_kind.relevant_share())
        for pattern in patterns:
            if pattern.codes == kind:
                fit = pairs_of_kind.fit(pattern, places[kind], min_weight)
                fits[pattern] = Fit(fit.weights, fit.bias + shift)
    return fits


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))


def mean_average_precision(
    fits: Mapping[Pattern, Fit], pairs: PairsByKind, modalities: tuple[str, ...], words: bool
) -> float:
    """Return the MAP of a search, averaged over kinds of codes."""
    values = []
    for kind, of_kind in pairs.items():
        pattern = Pattern(kind, modalities, words)
        scores = np.where(of_kind.counted, of_kind.log_odds(pattern, fits[pattern]), -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")
        relevant = np.take_along_axis(of_kind.relevant & of_kind.counted, order, axis=1)
        precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
        n = relevant.sum(axis=1)
        values.append(((precision * relevant).sum(axis=1)[n > 0] / n[n > 0]).mean() if n.any() else 0.0)
    return float(np.mean(values))


def reciprocal_rank(fits: Mapping[Pattern, Fit], searched: PairsByKind) -> float:
    """Return the mean reciprocal rank of each query's only relevant item; each tied item counts as half a rank."""
    scores = np.hstack([searched[pattern.codes].log_odds(pattern, fit) for pattern, fit in fits.items()])
    relevant = np.hstack([searched[pattern.codes].relevant for pattern in fits])
    targets = scores[relevant][:, None]
    ranks = 1 + (scores > targets).sum(axis=1) + ((scores == targets).sum(axis=1) - 1) / 2
    return float((1 / ranks).mean())


def fit_logistic(
    features: Sequence[Floats],
    relevant: Mask,
    strength: float = 1.0,
    offset: Floats | float = 0.0,
    weights: Floats | float = 1.0,
) -> Fit:
    """Fit a ridge-regularised logistic regression with non-negative coefficients, by Newton's method.

    The ridge keeps coefficients finite if the evidence separates the pairs perfectly. ``offset`` is added to the
    log-odds, and each pair counts as often as its entry in ``weights`` says.
    """
    counts = np.broadcast_to(np.asarray(weights, np.float64), len(relevant))
    active = [*range(len(features))]
    while True:
        design = np.column_stack([*(features[column] for column in active), np.ones(len(relevant))])
        found = _newton(design, relevant.astype(np.float64), strength, offset, counts)
        if not active or found[:-1].min() >= 0:
            break
        del active[int(np.argmin(found[:-1]))]
    by_column = dict(zip(active, found[:-1].tolist(), strict=True))
    return Fit(tuple(by_column.get(column, 0.0) for column in range(len(features))), float(found[-1]))


def _newton(design: Floats, relevant: Floats, strength: float, offset: Floats | float, counts: Floats) -> Floats:
    weights = np.zeros(design.shape[1])
    weights[-1] = _log_odds((counts @ relevant + 0.5) / (counts.sum() + 1))
    ridge = strength * np.eye(len(weights))
    ridge[-1, -1] = 1e-9
    values = design @ weights + offset
    loss = _loss(values, relevant, weights, ridge, counts)
    for _ in range(50):
        probabilities = probability(values)
        curvature = design.T @ (design * (counts * (probabilities * (1 - probabilities) + 1e-9))[:, None]) + ridge
        step = np.linalg.solve(curvature, design.T @ (counts * (relevant - probabilities)) - ridge @ weights)
        for _ in range(30):  # a full step may overshoot where the evidence nearly separates the pairs
            values = design @ (weights + step) + offset
            after = _loss(values, relevant, weights + step, ridge, counts)
            if after <= loss:
                break
            step /= 2
        weights, gain, loss = weights + step, loss - after, after
        if gain < 1e-8 * abs(loss):
            break
    return weights


def _loss(values: Floats, relevant: Floats, weights: Floats, ridge: Floats, counts: Floats) -> float:
    likelihood = counts @ np.logaddexp(0, values) - values @ (counts * relevant)
    return float(likelihood + 0.5 * weights @ ridge @ weights)
