"""Measures as objects, named as in ir_measures: ``AP``, ``P@10``, ``nDCG(gain="linear")@20``.

A measure is a class that declares the sums over ranked items it needs and computes its values from them, and an entry
in `MEASURES`.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dlfh._arrays import Floats, Integers
from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError
from dlfh.metrics.sums import Aggregation, Gain, Match, RankedBlock, RankingInfo, Sum, discounted, gains_of, run_bounds

#: Number of items and of relevant items in each run of ties.
_BY_RUN = (Sum(RankedBlock.run_sizes), Sum(RankedBlock.run_hits, ("any",)))


@dataclass(frozen=True, repr=False)
class Measure:
    """A measure of rankings: ``measure @ k`` sets the cut-off, ``measure(option=value)`` sets options."""

    name: ClassVar[str]
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}  # possible values of each option
    k: int | None = None  # rank at which the ranking is cut off; None for the whole database

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", check_integer(self.k, "k", 1))
        for option, choices in self.choices.items():
            check_choice(getattr(self, option), option, choices)

    def __matmul__(self, k: int) -> Self:
        return replace(self, k=k)

    def __call__(self, **options: Any) -> Self:
        known = [each.name for each in fields(self) if each.name != "k"]
        for name in options:
            if name not in known:
                available = f"available: {', '.join(known)}" if known else "it takes no options"
                raise InputError(f"{self.name} has no option {name!r} ({available}); write a cut-off as {self.name}@10")
        return replace(self, **options)

    def __str__(self) -> str:
        values = ((each, getattr(self, each.name)) for each in fields(self) if each.name != "k")
        chosen = [(each.name, value) for each, value in values if value != each.default]
        options = ", ".join(f"{name}={json.dumps(each) if isinstance(each, str) else each}" for name, each in chosen)
        return self.name + (f"({options})" if options else "") + ("" if self.k is None else f"@{self.k}")

    __repr__ = __str__

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        """Return the computation of the measure, or raise InputError; queries without a relevant item get NaN."""
        raise NotImplementedError

    def summarise(self, mean: Any, rankings: RankingInfo) -> Any:
        """Return the mean over queries in its public form."""
        return float(mean)

    def _depth(self, rankings: RankingInfo) -> int:
        """Return the number of ranks considered: k, or all."""
        return rankings.n_items if self.k is None else self._check_rank(self.k, rankings)

    def _check_rank(self, k: int, rankings: RankingInfo) -> int:
        if k > rankings.n_items:
            raise InputError(f"{self} needs k = {k} ranks but the database has only {rankings.n_items} items")
        return k


@dataclass(frozen=True, repr=False)
class AveragePrecision(Measure):
    """Mean, over the relevant items, of the precision at the item's rank; its mean over queries is MAP."""

    name = "AP"
    choices: ClassVar = {"normalize": ("retrieved", "possible")}
    normalize: Literal["retrieved", "possible"] = "retrieved"

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        k = self._depth(rankings)

        def expected(sizes: Integers, relevant: Integers) -> Floats:
            return _where(relevant.sum(axis=1), _expected_average_precision(sizes, relevant, k, self.normalize))

        def in_order(found: Floats) -> Floats:
            sums, hits, n_relevant = found.T
            denominators = hits if self.normalize == "retrieved" else np.minimum(k, n_relevant)
            return _where(n_relevant, sums / np.maximum(denominators, 1))

        if rankings.ties == "expected":
            return Aggregation(_BY_RUN, expected)
        return Aggregation((Sum(RankedBlock.precisions, (k,)),), in_order)


@dataclass(frozen=True, repr=False)
class Precision(Measure):
    """Proportion of relevant items among the first k; without a cut-off, the precision of a random ranking."""

    name = "P"
    choices: ClassVar = {"match": ("any", "all")}
    match: Match = "any"

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        k = self._depth(rankings)
        if self.match == "all" and not rankings.has_labels:
            raise InputError(f"{self} compares label sets: pass query_labels and database_labels instead of relevance")
        return _hits(rankings, (k,), self.match).then(lambda hits: _where(hits[:, -1], hits[:, 0] / k))


@dataclass(frozen=True, repr=False)
class Recall(Measure):
    """Proportion of the relevant items that are among the first k."""

    name = "R"

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        hits = _hits(rankings, (self._depth(rankings),))
        return hits.then(lambda hits: _where(hits[:, -1], hits[:, 0] / np.maximum(hits[:, -1], 1)))


@dataclass(frozen=True, repr=False)
class DiscountedGain(Measure):
    """Sum of gains divided by log2(rank + 1), relative to the best possible ranking."""

    name = "nDCG"
    choices: ClassVar = {"gain": ("exponential", "linear")}
    gain: Gain = "exponential"

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        k = self._depth(rankings)

        def expected(sizes: Integers, gains: Floats) -> Floats:
            return discounted(gains / np.maximum(sizes, 1), sizes, k)

        def of_counts(counts: Integers) -> Floats:
            """Return the discounted gain of the ideal ranking, from the number of items of each grade."""
            grades = np.flatnonzero(counts.any(axis=0))[::-1]
            return discounted(gains_of(grades, self.gain), counts[:, grades], k)

        actual = Aggregation((Sum(RankedBlock.discounted_gains, (k, self.gain)),))
        if rankings.ties == "expected":
            actual = Aggregation((_BY_RUN[0], Sum(RankedBlock.run_gains, (self.gain,))), expected)
        ideal = Aggregation((Sum(RankedBlock.ideal_gains, (k, self.gain)),))
        if rankings.n_grades is not None:
            ideal = Aggregation((Sum(RankedBlock.grade_counts, (rankings.n_grades,)),), of_counts)
        n = len(actual.sums)

        def ratio(*sums: Any) -> Floats:
            gains, possible = actual.finalize(*sums[:n]), ideal.finalize(*sums[n:])
            return _where(possible, gains / np.where(possible > 0, possible, 1))

        return Aggregation(actual.sums + ideal.sums, ratio)


class PrecisionRecall(NamedTuple):
    """Precision-recall curve: mean precision and recall at each cut-off, a rank or a Hamming radius."""

    cuts: Integers
    precision: Floats
    recall: Floats


@dataclass(frozen=True, repr=False)
class Curve(Measure):
    """Precision and recall at given ranks, or at about 100 log-spaced ranks up to k."""

    name = "PR"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranks is None:
            return
        ranks = tuple(check_integer(rank, "each of ranks", 1) for rank in np.atleast_1d(self.ranks).tolist())
        if not ranks:
            raise InputError("PR needs at least one rank in ranks")
        if self.k is not None:
            raise InputError("PR takes either ranks or a cut-off, not both")
        object.__setattr__(self, "ranks", ranks)

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        cuts = self._cuts(rankings)
        return _hits(rankings, tuple(cuts.tolist())).then(lambda hits: _curve(hits[:, :-1], cuts, hits[:, -1]))

    def summarise(self, mean: Any, rankings: RankingInfo) -> PrecisionRecall:
        return PrecisionRecall(self._cuts(rankings), *np.split(mean, 2))

    def _cuts(self, rankings: RankingInfo) -> Integers:
        if self.ranks is None:
            return np.unique(np.geomspace(1, self._depth(rankings), 100).round().astype(np.int64))
        return np.array([self._check_rank(rank, rankings) for rank in self.ranks], np.int64)


@dataclass(frozen=True, repr=False)
class RadiusCurve(Measure):
    """Precision and recall of the items within Hamming radius 0, 1, ..., k; precision is 0 where a radius is empty."""

    name = "PRH"

    def aggregation(self, rankings: RankingInfo) -> Aggregation:
        if rankings.is_asymmetric:
            raise InputError(f"{self} needs queries as packed codes (uint8): projections have no Hamming radius")
        n_radii = len(self._radii(rankings))

        def of_counts(sizes: Integers, relevant: Integers) -> Floats:
            retrieved, hits = (np.cumsum(each[:, :n_radii], axis=1) for each in (sizes, relevant))
            return _curve(hits, np.maximum(retrieved, 1), relevant.sum(axis=1))

        return Aggregation(_BY_RUN, of_counts)

    def summarise(self, mean: Any, rankings: RankingInfo) -> PrecisionRecall:
        return PrecisionRecall(self._radii(rankings), *np.split(mean, 2))

    def _radii(self, rankings: RankingInfo) -> Integers:
        if self.k is not None and self.k > rankings.n_bits:
            raise InputError(f"{self} needs a Hamming radius of {self.k} but codes have only {rankings.n_bits} bits")
        return np.arange((self.k or rankings.n_bits) + 1)


AP, P, R, nDCG = AveragePrecision(), Precision(), Recall(), DiscountedGain()  # noqa: N816 (its usual name)
PR, PRH = Curve(), RadiusCurve()
#: Measures by name, without cut-off and with default options.
MEASURES: dict[str, Measure] = {each.name: each for each in (AP, P, R, nDCG, PR, PRH)}
_NOTATION = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*(?:@\s*([0-9]+))?\s*")
_OPTION = re.compile(r"""\s*(\w+)\s*=\s*("\w*"|'\w*'|[0-9]+|\([0-9\s,]*\))\s*(?:,|$)""")


def parse_measure(measure: object) -> Measure:
    """Parse a measure: a name, options in parentheses, and a cut-off after ``@``; return a `Measure` unchanged."""
    if isinstance(measure, Measure):
        return measure
    parts = _NOTATION.fullmatch(measure) if isinstance(measure, str) else None
    options = None if parts is None else _parse_options(parts[2] or "")
    if parts is None or parts[1] not in MEASURES or options is None:
        notation = 'with a cut-off as in AP@50 and options as in nDCG(gain="linear")@10'
        raise InputError(f"unknown measure {measure!r}; available: {', '.join(MEASURES)}, {notation}")
    parsed = MEASURES[parts[1]](**options)
    return parsed if parts[3] is None else parsed @ int(parts[3])


def _parse_options(text: str) -> dict[str, Any] | None:
    """Return options by name; None if the text is malformed."""
    pairs = _OPTION.findall(text)
    if _OPTION.sub("", text) or len(dict(pairs)) < len(pairs):
        return None
    try:
        return {name: ast.literal_eval(value) for name, value in pairs}
    except (SyntaxError, ValueError):
        return None


def _hits(rankings: RankingInfo, cuts: tuple[int, ...], match: Match = "any") -> Aggregation:
    """Return the (expected) number of relevant items within each cut-off, and in the whole ranking."""
    cuts = (*cuts, rankings.n_items)
    if rankings.ties == "order":
        return Aggregation((Sum(RankedBlock.hits, (cuts, match)),))

    def expected(sizes: Integers, relevant: Integers) -> Floats:
        (starts, _), share = run_bounds(sizes), relevant / np.maximum(sizes, 1)
        return np.stack([(share * np.clip(cut - starts, 0, sizes)).sum(axis=1) for cut in cuts], axis=1)

    return Aggregation((Sum(RankedBlock.run_sizes), Sum(RankedBlock.run_hits, (match,))), expected)


def _where(relevant: Any, values: Floats) -> Floats:
    """Return the values, with NaN for queries without a relevant item."""
    some = relevant > 0
    return np.where(some if values.ndim == 1 else some[:, None], values, np.nan)


def _curve(hits: Any, retrieved: Any, n_relevant: Any) -> Floats:
    """Return precisions, then recalls, at each cut-off: one row per query."""
    return _where(n_relevant, np.hstack([hits / retrieved, hits / np.maximum(n_relevant, 1)[:, None]]))


def _expected_average_precision(sizes: Integers, relevant: Integers, k: int, normalize: str) -> Floats:
    """Return the expected average precision over all orders of tied items.

    Consider a run of t items, r of them relevant, that follows N items, R of them relevant. The i-th item of the run is
    relevant with probability r / t; given that it is, (i - 1)(r - 1) / (t - 1) relevant items of the run are expected
    before it. If the cut-off falls inside a run, the number of relevant items before the cut-off is hypergeometric; the
    formula holds conditionally on that number and is averaged over it.
    """

    def expected_sum(before: Any, found: Any, size: Any, relevant: Any) -> Any:
        inverse = _harmonic(before + size) - _harmonic(before)  # sum of 1 / (N + i) over i = 1..t
        offset = size - (before + 1) * inverse  # sum of (i - 1) / (N + i)
        share = relevant / np.maximum(size, 1)
        return share * ((found + 1) * inverse + (relevant - 1) / np.maximum(size - 1, 1) * offset)

    starts, stops = run_bounds(sizes)
    found = np.cumsum(relevant, axis=1) - relevant
    whole = stops <= k
    sums = np.where(whole, expected_sum(starts, found, sizes, relevant), 0.0).sum(axis=1)
    values = np.empty(len(sums))
    for i, total in enumerate(sums):
        before, hits = (int(each[i, whole[i]].sum()) for each in (sizes, relevant))
        size = k - before
        draws, probabilities, totals = np.zeros(1, np.int64), np.ones(1), np.array([total])
        if size > 0:
            cut = int(np.flatnonzero(~whole[i])[0])
            draws, probabilities = _hypergeometric(int(sizes[i, cut]), int(relevant[i, cut]), size)
            totals = total + expected_sum(before, hits, size, draws)
        possible = hits + draws if normalize == "retrieved" else min(k, int(relevant[i].sum()))
        values[i] = probabilities @ (totals / np.maximum(possible, 1))
    return values


def _harmonic(n: Any) -> Any:
    return digamma(n + 1.0) + np.euler_gamma


def _hypergeometric(population: int, relevant: int, drawn: int) -> tuple[Integers, Floats]:
    """Return the possible numbers of relevant items among the items drawn, and their probabilities."""
    hits = np.arange(max(0, drawn - (population - relevant)), min(drawn, relevant) + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_p = log_choose(relevant, hits) + log_choose(population - relevant, drawn - hits) - log_choose(population, drawn)
    probabilities = np.exp(log_p - log_p.max())
    return hits, probabilities / probabilities.sum()
