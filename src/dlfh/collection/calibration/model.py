"""Probability that an item is relevant, given the similarity of its codes and the words that it shares with the query.

An item is relevant if it shares a label with the query. Its log-odds are a logistic regression on the similarity of its
codes, one for each modality searched, and on its word evidence. Each evidence pattern (learned or hashed codes, the
modalities that an item has, with or without words) has its own regression, fitted to pairs of held-out items. Weights
are non-negative, so a nearer code never makes an item less probable. All items are thereby ranked on one scale.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Distances between a query and a code: weighted by the query's projections; by the projections minus the mean code; or
#: the Hamming distance.
RANKINGS = ("asymmetric", "specific", "hamming")
CODE_KINDS = ("learned", "hashed")

#: Maximum number of modalities of which every subset has a pattern; beyond it, single modalities and all together.
_MAX_MODALITIES_IN_SUBSETS = 4
#: Coefficients without calibration: the mean similarity of codes, and word evidence at half its weight.
_DEFAULT_CODE_WEIGHT, _DEFAULT_WORD_WEIGHT, _DEFAULT_BIAS = 8.0, 4.0, -4.0


class Pattern(NamedTuple):
    """Evidence available for an item.

    modalities: Modalities whose codes are compared with the query.
    words: Whether the item's words are compared too.
    """

    codes: str
    modalities: tuple[str, ...]
    words: bool


class Fit(NamedTuple):
    """Coefficients of a pattern: a weight for each modality, one for words if the pattern has them, and a bias."""

    weights: tuple[float, ...]
    bias: float

    def log_odds(self, features: Sequence[Floats]) -> Floats:
        """Return the log-odds of pairs from their evidence, one array for each weight."""
        return sum(
            (weight * values for weight, values in zip(self.weights, features, strict=True)), np.array(self.bias)
        )


def query_values(projections: npt.NDArray[Any], ranking: str, mean: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values that a ranking compares codes with: projections, their signs, or projections minus the mean."""
    if ranking == "hamming":
        return np.where(projections > 0, np.float32(1), np.float32(-1))
    return projections - mean if ranking == "specific" else projections


def word_evidence(coverage: Floats) -> Floats:
    """Return the evidence of the share of a query that an item's words cover: full coverage counts far more than half.

    Someone who looks for an item by its words expects all of them to match. BM25 gives short texts a coverage above 1,
    which adds little: the evidence stays below 2.
    """
    cubes = coverage**3
    return 2 * cubes / (1 + cubes)


def probability(log_odds: Floats) -> Floats:
    """Return the logistic function of log-odds."""
    # scipy.special.expit differs in the last bit, and probabilities decide the order of search results.
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))) * (log_odds > -np.inf)


def patterns(modalities: Sequence[str], texts: Sequence[str]) -> Iterator[Pattern]:
    """Yield all patterns of items, where ``texts`` are the modalities that have words."""
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
    """Fitted coefficients, and the search defaults that were best on held-out items.

    modalities: By query modality, the modalities to search by default.
    words: By query modality, whether to search words by default.
    """

    fits: dict[tuple[str, str, Pattern], Fit] = field(default_factory=dict)
    modalities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, bool] = field(default_factory=dict)

    def is_fitted_for(self, ranking: str, query: str) -> bool:
        """Return whether results for queries of a modality have probabilities."""
        return any(key[:2] == (ranking, query) for key in self.fits)

    def fit_for(self, ranking: str, query: str, pattern: Pattern) -> Fit:
        """Return the coefficients of a pattern, derived from those of single modalities or a default if not fitted."""
        fit = self.fits.get((ranking, query, pattern))
        if fit is not None:
            return fit
        n = len(pattern.modalities)
        singles = [
            self.fits.get((ranking, query, Pattern(pattern.codes, (name,), False))) for name in pattern.modalities
        ]
        words = self.fits.get((ranking, query, Pattern("hashed", (), True)))
        if n and all(singles):
            weights = [single.weights[0] / n for single in singles if single is not None]
            bias = float(np.mean([single.bias for single in singles if single is not None]))
            return Fit((*weights, *([words.weights[0] if words else 0.0] if pattern.words else [])), bias)
        return Fit((_DEFAULT_CODE_WEIGHT / max(n, 1),) * n + (_DEFAULT_WORD_WEIGHT,) * pattern.words, _DEFAULT_BIAS)

    def to_plain(self) -> dict[str, Any]:
        """Return a form that JSON can store."""
        fits = [
            {"ranking": ranking, "query": query, **pattern._asdict(), **fit._asdict()}
            for (ranking, query, pattern), fit in self.fits.items()
        ]
        modalities = {query: list(names) for query, names in self.modalities.items()}
        return {"fits": fits, "modalities": modalities, "words": dict(self.words)}

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
            if len(numbers) != len(pattern.modalities) + pattern.words + 1 or not all(map(_is_coefficient, numbers)):
                raise ValueError("its calibration coefficients must be finite numbers, one for each kind of evidence")
            if min(numbers[:-1], default=0) < 0:
                raise ValueError("its calibration weights must not be negative")
            fits[entry["ranking"], entry["query"], pattern] = Fit(tuple(map(float, numbers[:-1])), float(numbers[-1]))
        searched = {query: tuple(names) for query, names in plain["modalities"].items()}
        if not all(query in modalities and names and {*names} <= {*modalities} for query, names in searched.items()):
            raise ValueError("its calibration refers to unknown modalities")
        if not all(query in modalities and isinstance(flag, bool) for query, flag in plain["words"].items()):
            raise ValueError("its calibration must store for each modality whether words are searched")
        return cls(fits, searched, dict(plain["words"]))


def _is_coefficient(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e6
