"""Probability that an item is relevant, given its labels, its codes, and its words in common with the query.

An item is relevant to a text if it has every label of the text, and to an image or a vector if it shares a label. Its
log-odds are a logistic regression on label evidence, the similarity of its codes (one for each searched modality) and
word evidence. A separate regression is fitted, on held-out pairs, for each evidence pattern (learned or hashed codes,
the modalities of an item, with or without words). Weights are non-negative, so a nearer code never makes an item less
probable. All items are thereby ranked on one scale. A report shows how well the probabilities agree with relevance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Floats, Mask, Singles
from dlfh._labels import LabelSets
from dlfh._probabilities.model import LabelModel
from dlfh._probabilities.scores import Match, probability_of
from dlfh.collection.words import tokens

#: Rankings by label probabilities: by the probability of having all labels of the query, or any of them.
LABEL_RANKINGS: tuple[Match, ...] = ("all", "any")
#: Other rankings: by the distance of codes, weighted by the query's projections, or by Hamming distance.
RANKINGS = (*LABEL_RANKINGS, "asymmetric", "hamming")
CODE_KINDS = ("learned", "hashed")

#: Up to this number of modalities, every subset has a pattern; beyond it, only single modalities and all together.
_MAX_MODALITIES_IN_SUBSETS = 4
#: Coefficients without calibration.
_DEFAULT_CODE_WEIGHT, _DEFAULT_WORD_WEIGHT, _DEFAULT_BIAS = 8.0, 4.0, -4.0
#: Minimum distance of match probabilities from 0 and 1: queries are not understood with more certainty.
_SMALLEST = 0.01
#: Number of results that people read.
N_READ = 10
#: Kinds of text queries: only names of labels, one other word, part of a text, a whole text.
QUESTIONS = ("names of labels", "one word", "part of a text", "whole text")
#: Function words, which name nothing.
_FUNCTION_WORDS = frozenset(("a", "an", "the", "of", "and", "or", "in", "on", "at", "for", "with", "to", "by", "from"))
#: Suffixes of these kinds for results that have everything that a text asks for, and for others beside such results.
COMPLETE, OTHERS = ", all found", ", others"
#: When words that name labels are also matched in texts: never, if a text has other words, always.
NAMES_MATCHED = ("never", "beside others", "always")
#: A query with less than this share of the words of a typical text counts as part of a text.
_MIN_WHOLE = 0.75


class Pattern(NamedTuple):
    """Evidence available for an item."""

    codes: str
    modalities: tuple[str, ...]  # whose codes are compared with the query
    words: bool  # whether the item's words are also compared

    def n_label_weights(self, ranking: str) -> int:
        """Return the number of weights before the modalities' weights: one if the ranking uses `label_evidence`."""
        return int(ranking in LABEL_RANKINGS and bool(self.modalities))

    def n_word_weights(self, ranking: str) -> int:
        """Return the number of weights after the modalities' weights.

        If labels are used, words have a second weight, multiplied by the probability that an item without labels is
        relevant: a text that names no label asks for its words.
        """
        return (1 + self.n_label_weights(ranking)) * self.words


class Fit(NamedTuple):
    """Coefficients of a pattern: weights of labels, modalities and words, and a bias."""

    weights: tuple[float, ...]
    bias: float

    def log_odds(self, features: Sequence[Floats]) -> Floats:
        """Return the log-odds of pairs from their evidence, one array for each weight."""
        return sum(
            (weight * values for weight, values in zip(self.weights, features, strict=True)), np.array(self.bias)
        )


def question_kind(text: str | None, named: frozenset[str], typical: float) -> str:
    """Return the kind of a text query, given its words that name labels and the typical number of words of a text.

    Return an empty string for other queries.
    """
    words = [] if text is None else tokens(text)
    if text is None or named.issuperset(words):
        return "" if text is None else QUESTIONS[0]
    return QUESTIONS[1 if len(words) == 1 else 2 if len(words) < _MIN_WHOLE * typical else 3]


def explained_words(names: str, text: str | None, named: frozenset[str]) -> frozenset[str]:
    """Return the words of a text that are not matched in texts, given those that name labels and `NAMES_MATCHED`."""
    is_matched = names == NAMES_MATCHED[2] or (names == NAMES_MATCHED[1] and not named.issuperset(tokens(text or "")))
    return frozenset() if is_matched else named


def content_words(text: str, named: frozenset[str] = frozenset()) -> list[str]:
    """Return the words of a text that an item must have to have everything that the text asks for.

    named: Words that name labels.
    """
    return [word for word in dict.fromkeys(tokens(text)) if word not in named and word not in _FUNCTION_WORDS]


def below_and_above(log_odds: Floats) -> tuple[Floats, Floats]:
    """Return the negative and the positive parts of log-odds."""
    return np.minimum(log_odds, 0.0), np.maximum(log_odds, 0.0)


def rescaled(log_odds: Floats, fit: Fit) -> Floats:
    """Return log-odds times a weight below 0 and another one above, plus a bias; minus infinity is unchanged."""
    known = np.isfinite(log_odds)
    return np.where(known, fit.log_odds(below_and_above(np.where(known, log_odds, 0.0))), log_odds)


def query_values(projections: Array, ranking: str) -> Array:
    """Return the values that a ranking compares codes with: projections, or their signs."""
    return np.where(projections > 0, np.float32(1), np.float32(-1)) if ranking == "hamming" else projections


def label_evidence(model: LabelModel, queries: Singles, scores: Floats, match: Match) -> tuple[Floats, Floats]:
    """Return the log-odds that items have the labels that queries ask for, from scores (queries, items).

    Also return the probability (queries, 1) that an item without labels matches; 0 except for "all".
    """
    of_none = model.terms(queries, np.zeros((1, model.n_labels), np.float32), match).sum(axis=2, dtype=np.float64)
    none = probability_of(of_none, match, exclusive=model.exclusive)
    return _match_evidence(probability_of(scores, match, exclusive=model.exclusive), none), none


def _match_evidence(probabilities: Floats, none: Floats | float) -> Floats:
    p = np.clip(probabilities - none, _SMALLEST, 1 - _SMALLEST)
    return np.log(p / (1 - p))


class LabelEvidence:
    """The `label_evidence` of items for one query, from their score-table distances.

    of_none: The probability that an item without labels matches the query.
    """

    def __init__(self, model: LabelModel, query: Singles, match: Match) -> None:
        self._probability = partial(probability_of, match=match, exclusive=model.exclusive)
        self.of_none = float(label_evidence(model, query[None], np.zeros((1, 0)), match)[1][0, 0])

    def __call__(self, distances: Floats) -> Floats:
        return _match_evidence(self._probability(-distances), self.of_none)


def word_evidence(coverage: Floats) -> Floats:
    """Return word evidence from the share of the query's words that an item has: all count far more than half.

    People who search for an item by its words expect all of them to match. BM25 gives short texts a coverage above 1,
    which adds little: the evidence stays below 2.
    """
    squares = coverage * coverage
    return 2 * squares / (1 + squares)


def probability(log_odds: Floats) -> Floats:
    """Return the logistic function of log-odds."""
    # scipy.special.expit differs in the last bit, and probabilities decide the order of search results.
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))) * (log_odds > -np.inf)


def patterns(modalities: Sequence[str], texts: Sequence[str]) -> Iterator[Pattern]:
    """Yield all evidence patterns of items; ``texts`` are the modalities with words."""
    n = len(modalities)
    for size in range(1, n + 1) if n <= _MAX_MODALITIES_IN_SUBSETS else (1, n):
        for subset in itertools.combinations(modalities, size):
            for codes in CODE_KINDS:
                yield Pattern(codes, subset, False)
                if {*subset} & {*texts}:
                    yield Pattern(codes, subset, True)
    if texts:
        yield Pattern("hashed", (), True)


@dataclass(frozen=True)
class Calibration:
    """Fitted coefficients, and by query modality the search defaults that were best on held-out items.

    label_words: By text modality, words that mean the same as a label, mapped to that label.
    shown: By query modality and kind of query, the weights of negative and of positive log-odds and a bias that correct
        the log-odds of the first results, which are overestimated because they are the best of many. Results with all
        labels and words that a text asks for come first. They have separate coefficients, and so have other results of
        the same query.
    n_words: By text modality, the median number of words of a text.
    names: By text modality, when words that name labels are also matched in texts, one of `NAMES_MATCHED`.
    """

    fits: dict[tuple[str, str, Pattern], Fit] = field(default_factory=dict)
    modalities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, bool] = field(default_factory=dict)
    rankings: dict[str, str] = field(default_factory=dict)
    label_words: dict[str, dict[str, str]] = field(default_factory=dict)
    shown: dict[tuple[str, str], Fit] = field(default_factory=dict)
    n_words: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def shown_log_odds(self, log_odds: Floats, kind: tuple[str, str], complete: Mask | bool) -> Floats:
        """Return corrected log-odds for the results of a query, given its modality and kind.

        complete (results,): Whether a result has everything that the query asks for.
        """
        name, question = kind
        fits = {suffix: self.shown.get((name, question + suffix)) for suffix in ("", COMPLETE, OTHERS)}
        others = (fits[OTHERS] if np.any(complete) else None) or fits[""]
        if others is None:
            return log_odds
        return np.where(complete, rescaled(log_odds, fits[COMPLETE] or others), rescaled(log_odds, others))

    def kind(self, ranking: str, query: str, text: str | None, named: frozenset[str]) -> tuple[str, str]:
        """Return the modality and the `question_kind` of a query; its modality is empty for other rankings."""
        return query * (ranking == self.rankings.get(query)), question_kind(text, named, self.n_words.get(query, 0.0))

    def is_fitted_for(self, ranking: str, query: str) -> bool:
        """Return whether results have probabilities, for queries of a modality."""
        return any(key[:2] == (ranking, query) for key in self.fits)

    def fit_for(self, ranking: str, query: str, pattern: Pattern) -> Fit:
        """Return the coefficients of a pattern; if it was not fitted, combine single modalities or use a default."""
        fit = self.fits.get((ranking, query, pattern))
        if fit is not None:
            return fit
        n = max(len(pattern.modalities), 1)
        known = [Pattern(pattern.codes, (name,), False) for name in pattern.modalities]
        singles = [self.fits[key] for each in known if (key := (ranking, query, each)) in self.fits]
        words = self.fits.get((ranking, query, Pattern("hashed", (), True)))
        if not singles or len(singles) < len(known):
            weights = (1.0,) * pattern.n_label_weights(ranking)
            weights += (_DEFAULT_CODE_WEIGHT / n,) * len(pattern.modalities)
            return Fit(weights + (_DEFAULT_WORD_WEIGHT,) * pattern.n_word_weights(ranking), _DEFAULT_BIAS)
        fitted = np.array([single.weights for single in singles])
        labels, codes = fitted[:, :-1].mean(axis=0).tolist(), (fitted[:, -1] / n).tolist()
        bias = float(np.mean([single.bias for single in singles]))
        return Fit((*labels, *codes, *(words.weights[0] if words else 0.0,) * pattern.n_word_weights(ranking)), bias)

    def to_plain(self) -> dict[str, Any]:
        fits = [
            {"ranking": ranking, "query": query, **pattern._asdict(), **fit._asdict()}
            for (ranking, query, pattern), fit in self.fits.items()
        ]
        modalities = {query: list(names) for query, names in self.modalities.items()}
        defaults = {"modalities": modalities, "words": dict(self.words), "rankings": dict(self.rankings)}
        label_words = {name: {**words} for name, words in self.label_words.items()}
        shown = [{"query": query, "kind": kind, **fit._asdict()} for (query, kind), fit in self.shown.items()]
        return {"fits": fits, **defaults, "label_words": label_words, "shown": shown} | {
            "n_words": dict(self.n_words),
            "names": dict(self.names),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], modalities: Sequence[str]) -> Calibration:
        """Return the calibration that `to_plain` stored; raise ValueError if it is damaged."""
        fits = {}
        for entry in plain["fits"]:
            pattern = Pattern(entry["codes"], tuple(entry["modalities"]), entry["words"])
            known = entry["ranking"] in RANKINGS and entry["query"] in modalities and pattern.codes in CODE_KINDS
            if not known or not {*pattern.modalities} <= {*modalities} or not isinstance(pattern.words, bool):
                raise ValueError("its calibration has unknown modalities or rankings")
            numbers = [*entry["weights"], entry["bias"]]
            n_others = pattern.n_label_weights(entry["ranking"]) + pattern.n_word_weights(entry["ranking"])
            if len(numbers) != len(pattern.modalities) + n_others + 1 or not all(map(_is_coefficient, numbers)):
                raise ValueError("its calibration coefficients must be finite numbers, one for each kind of evidence")
            if min(numbers[:-1], default=0) < 0:
                raise ValueError("its calibration weights must not be negative")
            fits[entry["ranking"], entry["query"], pattern] = Fit(tuple(map(float, numbers[:-1])), float(numbers[-1]))
        searched = {query: tuple(names) for query, names in plain["modalities"].items()}
        if not all(query in modalities and names and {*names} <= {*modalities} for query, names in searched.items()):
            raise ValueError("its calibration refers to unknown modalities")
        if not all(query in modalities and isinstance(flag, bool) for query, flag in plain["words"].items()):
            raise ValueError("its calibration must store for each modality whether words are searched")
        rankings = dict(plain["rankings"])
        if not {*rankings} <= {*modalities} or not {*rankings.values()} <= {*RANKINGS}:
            raise ValueError("its calibration refers to unknown rankings")
        label_words = {name: dict(words) for name, words in plain["label_words"].items()}
        texts = (text for words in label_words.values() for pair in words.items() for text in pair)
        if not {*label_words} <= {*modalities} or not all(isinstance(text, str) for text in texts):
            raise ValueError("its calibration must store words and the labels that they mean")
        shown = {}
        for entry in plain.get("shown", ()):
            numbers = [*entry["weights"], entry["bias"]]
            if entry["query"] not in modalities or len(numbers) != 3 or not all(map(_is_coefficient, numbers)):
                raise ValueError(
                    "its calibration of shown results must have two weights and a bias for each kind of query"
                )
            below, above, bias = map(float, numbers)
            shown[entry["query"], str(entry["kind"])] = Fit((max(below, 0.0), max(above, 0.0)), bias)
        n_words = {name: float(n) for name, n in plain.get("n_words", {}).items()}
        names = dict(plain.get("names", {}))
        if not {*names} <= {*modalities} or not {*names.values()} <= {*NAMES_MATCHED}:
            raise ValueError("its calibration must store for each modality when names of labels are matched in texts")
        return cls(fits, searched, dict(plain["words"]), rankings, label_words, shown, n_words, names)


def _is_coefficient(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e6


@dataclass(frozen=True)
class CalibrationReport:
    """Agreement of predicted probabilities with the observed share of relevant items.

    The expected calibration error is the mean absolute difference between the predicted probability and the share of
    relevant pairs, over bins of equal width.

    query: Modality of the queries and, for texts, their kind.
    codes: Kind of the items' codes.
    n_pairs: Number of pairs of a query and an item.
    first_ten: Expected calibration error of the first ten results of each query.
    brier: Brier score: mean squared difference between probability and relevance.
    share: Share of relevant pairs; predicting it for every pair has a Brier score of share * (1 - share).
    """

    query: str
    codes: str
    n_pairs: int
    calibration_error: float
    first_ten: float
    brier: float
    share: float

    @classmethod
    def from_results(
        cls, query: str, codes: str, log_odds: Sequence[Floats], relevant: Sequence[Mask]
    ) -> CalibrationReport:
        """Compare predicted log-odds (queries, items) with relevance; minus infinity marks pairs to ignore."""
        found = [np.flatnonzero(np.isfinite(values)) for values in log_odds]
        ranked = [rows[np.argsort(-log_odds[q][rows], kind="stable")] for q, rows in enumerate(found)]
        predicted, true = (
            np.concatenate([np.empty(0), *(values[q][rows] for q, rows in enumerate(ranked))])
            for values in (log_odds, relevant)
        )
        first = np.concatenate([np.empty(0, bool), *(np.arange(len(rows)) < N_READ for rows in ranked)])
        probabilities, mask = probability(predicted), true.astype(bool)
        brier = float(np.mean((probabilities - mask) ** 2)) if len(mask) else 0.0
        share = float(mask.mean()) if len(mask) else 0.0
        error = expected_calibration_error(probabilities, mask)
        first_ten = expected_calibration_error(probabilities[first], mask[first])
        return cls(query, codes, len(mask), error, first_ten, brier, share)


def expected_calibration_error(probabilities: Floats, relevant: Mask, n_bins: int = 15) -> float:
    """Return the expected calibration error over bins of equal width."""
    if not len(relevant):
        return 0.0
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, probabilities, n_bins) - np.bincount(bins, relevant, n_bins)
    return round(float(np.abs(gaps).sum() / len(relevant)), 12)


def relevance(queries: Sequence[Sequence[str]], items: Sequence[Sequence[str]], match: Match) -> Mask:
    """Return whether each item has any label, or all labels, of each query, shape (queries, items)."""
    sets = LabelSets.from_labels([*queries, *items])
    rows = sets.rows()[sets.set_of_point]
    shared = (rows[: len(queries)] @ rows[len(queries) :].T).toarray()
    n_labels = np.asarray(rows[: len(queries)].sum(axis=1)).reshape(-1, 1)
    relevant: Mask = (shared > 0) & (shared >= (n_labels if match == "all" else 1))
    return relevant
