"""From distances to probabilities: how probable it is that an item is right, by all that it is found by.

An item is right if it shares a label with the query. Evidence for it are the similarities of its codes, one for each
modality that is searched, and how much of a question its words answer. What these are worth together is a logistic
regression, for each pattern of what an item has: learned codes or hashed ones, in which modalities, words or none. It
is fitted to pairs of items that were held out of training, with weights of at least 0, so that a nearer code never
makes an item less probable. All answers are thereby on one scale, and ranked by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "LEAST_WORDS",
    "RANKINGS",
    "Calibration",
    "Fit",
    "Pairs",
    "Pattern",
    "effective",
    "fit_logistic",
    "patterns",
    "probability",
    "word_evidence",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: How codes are compared with a query: by the bits apart, weighted by how sure the query is of each; by what sets the
#: query apart from the average one; or by the number of bits apart.
RANKINGS = ("asymmetric", "specific", "hamming")
#: What can be known of a code.
KINDS = ("learned", "hashed")

#: With more modalities, patterns are those of one modality and of all.
_MOST_SUBSETS = 4
#: So many pairs tell a handful of weights well enough.
_MOST_PAIRS = 20_000
#: What an item is ranked by if nothing is calibrated: the mean similarity of its codes, and its words a little.
_PLAIN_CODES, _PLAIN_WORDS, _PLAIN_BIAS = 8.0, 4.0, -4.0
#: Words always say a little: enough to order what codes cannot tell apart.
LEAST_WORDS = 0.05


class Pattern(NamedTuple):
    """What an item is found by.

    Attributes
    ----------
    codes : {"learned", "hashed"}
    modalities : tuple of str
        Those whose codes are compared with the query.
    words : bool
        Whether its words are too.
    """

    codes: str
    modalities: tuple[str, ...]
    words: bool


class Fit(NamedTuple):
    """Log-odds of being right: a weight for the similarity in each modality of a pattern, and for its words; a bias."""

    weights: tuple[float, ...]
    bias: float


@dataclass(frozen=True)
class Pairs:
    """Pairs of queries and items of one kind, of which the truth is known.

    Attributes
    ----------
    similarities : dict of str to ndarray of float64 (queries, items)
        By modality, of the items' codes to the queries.
    words : dict of tuple of str to ndarray of float64 (queries, items)
        By the texts that are looked at, `word_evidence` of them; empty if the queries are no texts.
    right : ndarray of bool (queries, items)
    counted : ndarray of bool (queries, items)
        An item does not ask for itself.
    found_again : Pairs or None
        One item for each query, the one that is looked for with some of its own words; all of them are right.
    """

    similarities: dict[str, Floats]
    words: dict[tuple[str, ...], Floats]
    right: Mask
    counted: Mask
    found_again: Pairs | None = None

    def take(self, queries: npt.NDArray[np.int64], items: npt.NDArray[np.int64] | None = None) -> Pairs:
        """Return the pairs of some queries, and of some items."""
        rows = np.ix_(queries, np.arange(self.right.shape[1]) if items is None else items)
        similarities = {name: values[rows] for name, values in self.similarities.items()}
        words = {names: values[rows] for names, values in self.words.items()}
        again = None if self.found_again is None else self.found_again.take(queries)
        return Pairs(similarities, words, self.right[rows], self.counted[rows], again)

    def fit(
        self, pattern: Pattern, chosen: npt.NDArray[np.int64] | None = None, least_words: float = LEAST_WORDS
    ) -> Fit:
        """Fit a pattern to the pairs that count, or to some of them; words are worth something at least.

        Where words are searched, people also look for one item by some of its words, which need not say its labels.
        These pairs are among those that it is fitted to, or words that no label has would be worth nothing.
        """
        places = np.flatnonzero(self.counted) if chosen is None else chosen
        features, right = [values.ravel()[places] for values in self.features(pattern)], self.right.ravel()[places]
        if pattern.words and self.found_again is not None:
            again = self.found_again.features(pattern)
            features = [np.concatenate([own, more.ravel()]) for own, more in zip(features, again, strict=True)]
            right = np.concatenate([right, self.found_again.right.ravel()])
        fit = fit_logistic(features, right)
        if not pattern.words or fit.weights[-1] >= least_words:
            return fit
        codes = fit_logistic(features[:-1], right, offset=least_words * features[-1])
        return Fit((*codes.weights, least_words), codes.bias)

    def features(self, pattern: Pattern) -> list[Floats]:
        """Return the evidence of a pattern."""
        columns = [self.similarities[name] for name in pattern.modalities]
        if not pattern.words:
            return columns
        texts = max(self.words, key=len)
        return [*columns, self.words[tuple(name for name in texts if name in pattern.modalities) or texts]]

    def share(self) -> float:
        """Return the share of right pairs, less than all and more than none."""
        n = int(self.counted.sum())
        return float((self.right[self.counted].sum() + 0.5) / (n + 1))


def effective(projections: npt.NDArray[Any], ranking: str, mean: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what a ranking compares codes with: projections, their signs, or these less the mean code."""
    if ranking == "hamming":
        return np.where(projections > 0, np.float32(1), np.float32(-1))
    return projections - mean if ranking == "specific" else projections


def word_evidence(coverage: Floats) -> Floats:
    """Return what the share of a question that an item's words answer says of it: all of it far more than a half.

    Who looks for one item by some of its words knows that it has them all. What is more than all, as BM25 has it of
    short texts, adds little: it never outgrows 2.

    Examples
    --------
    >>> word_evidence(np.array([0.0, 0.5, 1.0, 2.0])).round(2)
    array([0.  , 0.22, 1.  , 1.78])
    """
    cubes = coverage**3
    return 2 * cubes / (1 + cubes)


def patterns(modalities: Sequence[str], texts: Sequence[str]) -> Iterator[Pattern]:
    """Yield all patterns of items; words are those of texts.

    Examples
    --------
    >>> sum(1 for _ in patterns(["image", "text"], ["text"]))
    11
    """
    sizes = range(1, len(modalities) + 1) if len(modalities) <= _MOST_SUBSETS else (1, len(modalities))
    for size in sizes:
        for subset in itertools.combinations(modalities, size):
            for codes in KINDS:
                yield Pattern(codes, subset, False)
                if {*subset} & {*texts}:
                    yield Pattern(codes, subset, True)
    if texts:
        yield Pattern("hashed", (), True)


def probability(log_odds: Floats) -> Floats:
    """Return the probabilities that log-odds stand for.

    Examples
    --------
    >>> probability(np.array([0.0, -np.inf]))
    array([0.5, 0. ])
    """
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))) * (log_odds > -np.inf)


def fit_logistic(features: Sequence[Floats], right: Mask, strength: float = 1.0, offset: Floats | None = None) -> Fit:
    """Fit log-odds to pairs, by Newton's method; weights that would be negative are 0.

    Where evidence tells all pairs apart, weights would grow without end: a ridge says that nothing is certain. An
    ``offset`` is what is known of the pairs' log-odds already.

    Examples
    --------
    >>> distance = np.arange(100.0)
    >>> fit = fit_logistic([-distance / 100], distance < 20 + distance % 7)
    >>> fit.weights[0] > 0
    True
    """
    active = [*range(len(features))]
    while True:
        design = np.column_stack([*(features[column] for column in active), np.ones(len(right))])
        weights = _newton(design, right.astype(np.float64), strength, 0.0 if offset is None else offset)
        if not active or weights[:-1].min() >= 0:
            break
        del active[int(np.argmin(weights[:-1]))]
    whole = dict(zip(active, weights[:-1].tolist(), strict=True))
    return Fit(tuple(whole.get(column, 0.0) for column in range(len(features))), float(weights[-1]))


def _newton(design: Floats, right: Floats, strength: float, offset: Floats | float) -> Floats:
    share = (right.sum() + 0.5) / (len(right) + 1)
    weights = np.zeros(design.shape[1])
    weights[-1] = np.log(share / (1 - share))
    ridge = strength * np.eye(len(weights))
    ridge[-1, -1] = 1e-9
    for _ in range(50):
        probabilities = probability(np.clip(design @ weights + offset, -40, 40))
        curvature = design.T @ (design * (probabilities * (1 - probabilities) + 1e-9)[:, None]) + ridge
        step = np.linalg.solve(curvature, design.T @ (right - probabilities) - ridge @ weights)
        weights = weights + np.clip(step, -20, 20)
        if np.abs(step).max() < 1e-6:
            break
    return weights


@dataclass(frozen=True)
class Calibration:
    """What similarities and words say of the probability that an item is right.

    Attributes
    ----------
    fits : dict of (ranking, modality of the query, Pattern) to Fit
    modalities : dict of str to tuple of str
        By modality of the query, the modalities whose codes answer best together.
    words : dict of str to bool
        By modality of the query, whether words are searched too unless a user says otherwise.
    """

    fits: dict[tuple[str, str, Pattern], Fit] = field(default_factory=dict)
    modalities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, bool] = field(default_factory=dict)

    def knows(self, ranking: str, query: str) -> bool:
        """Return whether probabilities of answers to such a query are known."""
        return any(key[:2] == (ranking, query) for key in self.fits)

    def fit_of(self, ranking: str, query: str, pattern: Pattern) -> Fit:
        """Return what a pattern's evidence is worth; a guess where nothing was calibrated."""
        fit = self.fits.get((ranking, query, pattern))
        if fit is not None:
            return fit
        n = len(pattern.modalities)
        alone = [self.fits.get((ranking, query, Pattern(pattern.codes, (name,), False))) for name in pattern.modalities]
        words = self.fits.get((ranking, query, Pattern("hashed", (), True)))
        if n and all(alone):
            weights = [own.weights[0] / n for own in alone if own is not None]
            bias = float(np.mean([own.bias for own in alone if own is not None]))
            return Fit((*weights, *([words.weights[0] if words else 0.0] if pattern.words else [])), bias)
        plain = [_PLAIN_CODES / max(n, 1)] * n + [_PLAIN_WORDS] * pattern.words
        return Fit(tuple(plain), _PLAIN_BIAS)

    # Files

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        fits = [
            {"ranking": ranking, "query": query, **pattern._asdict(), **fit._asdict()}
            for (ranking, query, pattern), fit in self.fits.items()
        ]
        return {
            "fits": fits,
            "modalities": {name: list(own) for name, own in self.modalities.items()},
            "words": dict(self.words),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], modalities: Sequence[str]) -> Calibration:
        """Return what `to_plain` gave; what is wrong with it raises ValueError."""
        fits = {}
        for entry in plain["fits"]:
            pattern = Pattern(entry["codes"], tuple(entry["modalities"]), entry["words"])
            known = entry["ranking"] in RANKINGS and entry["query"] in modalities and pattern.codes in KINDS
            if not known or not {*pattern.modalities} <= {*modalities} or not isinstance(pattern.words, bool):
                raise ValueError("its calibration is of other modalities or rankings")
            numbers = [*entry["weights"], entry["bias"]]
            if len(numbers) != len(pattern.modalities) + pattern.words + 1 or not all(map(_is_number, numbers)):
                raise ValueError("its calibration is not of finite numbers")
            if min(numbers[:-1], default=0) < 0:
                raise ValueError("its calibration has negative weights")
            fits[entry["ranking"], entry["query"], pattern] = Fit(tuple(map(float, numbers[:-1])), float(numbers[-1]))
        searched = {name: tuple(own) for name, own in plain["modalities"].items()}
        if not all(own and {*own} <= {*modalities} and name in modalities for name, own in searched.items()):
            raise ValueError("its calibration names other modalities")
        if not all(name in modalities and isinstance(own, bool) for name, own in plain["words"].items()):
            raise ValueError("its calibration does not say where words are searched")
        return cls(fits, searched, dict(plain["words"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e6
