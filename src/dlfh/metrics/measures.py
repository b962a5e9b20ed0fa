"""Measures as objects, named as ir_measures names them: ``AP``, ``P@10``, ``nDCG(gain="linear")@20``.

A measure is one class, which says what sums over ranked items it needs and what it is of them, and one row in
`MEASURES`. Sums add up over parts of a database, so databases in memory and in blocks have the same measures.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError
from dlfh.metrics.expected import expected_average_precision, expected_hits
from dlfh.metrics.gains import Gain, discounted, gains_of
from dlfh.metrics.sums import About, Floats, Integers, Match, RankedBlock, Sum, Taken, TiedRuns

__all__ = ["AP", "MEASURES", "PR", "PRH", "Measure", "P", "PrecisionRecall", "R", "measure", "nDCG"]

#: Sums by runs of tied items: how many there are, and how many are relevant.
_BY_RUN = (Sum(RankedBlock.sizes), Sum(RankedBlock.relevant, ("any",)))


@dataclass(frozen=True, repr=False)
class Measure:
    """A measure of rankings; ``measure @ k`` is the same of rankings cut at rank k, ``measure(...)`` sets options.

    Attributes
    ----------
    k : int or None
        Rank that rankings are cut at; None for the whole database.

    Examples
    --------
    >>> AP @ 50, nDCG(gain="linear") @ 20
    (AP@50, nDCG(gain="linear")@20)
    >>> AP @ 50 == measure("AP@50")
    True
    """

    name: ClassVar[str]
    k: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", check_integer(self.k, "k", 1))

    def __matmul__(self, k: int) -> Self:
        return replace(self, k=k)

    def __call__(self, **options: Any) -> Self:
        """Return the measure with options of its own."""
        known = [each.name for each in fields(self) if each.name != "k"]
        for name in options:
            if name not in known:
                there_are = f"it has {', '.join(known)}" if known else "it has none"
                raise InputError(f"{self.name} has no option {name!r}: {there_are}; a cut is written {self.name}@10")
        return replace(self, **options)

    def __str__(self) -> str:
        chosen = [each for each in fields(self) if each.name != "k" and getattr(self, each.name) != each.default]
        options = ", ".join(f"{each.name}={_written(getattr(self, each.name))}" for each in chosen)
        return self.name + (f"({options})" if options else "") + ("" if self.k is None else f"@{self.k}")

    __repr__ = __str__

    def over(self, rankings: About) -> Taken:
        """Check that the measure can be taken of these rankings, and return how: NaN where nothing is relevant."""
        raise NotImplementedError

    def summary(self, mean: Any, rankings: About) -> Any:
        """Return the mean over queries in the form that users get."""
        return float(mean)

    def _depth(self, rankings: About) -> int:
        """Return how many ranks count: k, or all."""
        return rankings.n_items if self.k is None else self._within(self.k, rankings)

    def _within(self, k: int, rankings: About) -> int:
        if k > rankings.n_items:
            raise InputError(f"{self} cuts rankings at k = {k}, but the database has only {rankings.n_items} items")
        return k


@dataclass(frozen=True, repr=False)
class AveragePrecision(Measure):
    """Mean, over the relevant items, of the precision at the item's rank; its mean over queries is MAP."""

    name = "AP"
    normalize: Literal["retrieved", "possible"] = "retrieved"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.normalize, "normalize", ("retrieved", "possible"))

    def over(self, rankings: About) -> Taken:
        k = self._depth(rankings)

        def expected(sizes: Integers, relevant: Integers) -> Floats:
            return _where(relevant.sum(axis=1), expected_average_precision(sizes, relevant, k, self.normalize))

        def in_order(found: Floats) -> Floats:
            sums, hits, n_relevant = found.T
            denominators = hits if self.normalize == "retrieved" else np.minimum(k, n_relevant)
            return _where(n_relevant, sums / np.maximum(denominators, 1))

        if rankings.ties == "expected":
            return Taken(_BY_RUN, expected)
        return Taken((Sum(RankedBlock.precisions, (k,)),), in_order)


@dataclass(frozen=True, repr=False)
class Precision(Measure):
    """Share of relevant items among the first k; without a cut that is the precision of a random order.

    With ``match="all"`` an item is relevant if it has the query's labels, all of them and no others; with "any", the
    default, if it shares one.
    """

    name = "P"
    match: Match = "any"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.match, "match", ("any", "all"))

    def over(self, rankings: About) -> Taken:
        k = self._depth(rankings)
        if self.match == "all" and not rankings.has_labels:
            raise InputError(f"{self} compares labels: pass query_labels and database_labels, not relevance")
        return _hits(rankings, (k,), self.match).then(lambda hits: _where(hits[:, -1], hits[:, 0] / k))


@dataclass(frozen=True, repr=False)
class Recall(Measure):
    """Share of the relevant items that is among the first k."""

    name = "R"

    def over(self, rankings: About) -> Taken:
        hits = _hits(rankings, (self._depth(rankings),))
        return hits.then(lambda hits: _where(hits[:, -1], hits[:, 0] / np.maximum(hits[:, -1], 1)))


@dataclass(frozen=True, repr=False)
class DiscountedGain(Measure):
    """Graded: sum of gains divided by log2(rank + 1), as a share of the sum of the best possible ranking."""

    name = "nDCG"
    gain: Gain = "exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.gain, "gain", ("exponential", "linear"))

    def over(self, rankings: About) -> Taken:
        found, best = self._found(rankings), self._best(rankings)
        n = len(found.sums)

        def values(*sums: Any) -> Floats:
            own, possible = found.values(*sums[:n]), best.values(*sums[n:])
            return _where(possible, own / np.where(possible > 0, possible, 1))

        return Taken(found.sums + best.sums, values)

    def _found(self, rankings: About) -> Taken:
        k = self._depth(rankings)
        if rankings.ties == "order":
            return Taken((Sum(RankedBlock.discounted_gains, (k, self.gain)),), _itself)

        def expected(sizes: Integers, gains: Floats) -> Floats:
            runs = TiedRuns(sizes)
            return discounted(gains / np.maximum(sizes, 1), runs.starts, runs.stops, k)

        return Taken((_BY_RUN[0], Sum(RankedBlock.gains, (self.gain,))), expected)

    def _best(self, rankings: About) -> Taken:
        """Take the best ranking, whose runs are of equal grades, from the highest down."""
        k = self._depth(rankings)
        if rankings.n_grades is None:
            return Taken((Sum(RankedBlock.best_gains, (k, self.gain)),), _itself)

        def of_counts(counts: Integers) -> Floats:
            grades = np.flatnonzero(counts.any(axis=0))[::-1]
            runs = TiedRuns(counts[:, grades])
            return discounted(gains_of(grades, self.gain), runs.starts, runs.stops, k)

        return Taken((Sum(RankedBlock.n_of_grade, (rankings.n_grades,)),), of_counts)


class PrecisionRecall(NamedTuple):
    """A precision-recall curve: mean precision and recall within each rank or Hamming radius."""

    cuts: Integers
    precision: Floats
    recall: Floats


@dataclass(frozen=True, repr=False)
class Curve(Measure):
    """Precision and recall along the ranking: at about 100 ranks up to k, evenly in log scale, or at given ranks."""

    name = "PR"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranks is None:
            return
        ranks = tuple(check_integer(rank, "k", 1) for rank in np.atleast_1d(self.ranks).tolist())
        if not ranks:
            raise InputError("no k is given")
        if self.k is not None:
            raise InputError("PR takes ranks or a cut, not both")
        object.__setattr__(self, "ranks", ranks)

    def over(self, rankings: About) -> Taken:
        cuts = self._cuts(rankings)
        return _hits(rankings, tuple(cuts.tolist())).then(lambda hits: _curve(hits[:, :-1], cuts, hits[:, -1]))

    def summary(self, mean: Any, rankings: About) -> PrecisionRecall:
        return PrecisionRecall(self._cuts(rankings), *np.split(mean, 2))

    def _cuts(self, rankings: About) -> Integers:
        if self.ranks is None:
            return np.unique(np.geomspace(1, self._depth(rankings), 100).round().astype(np.int64))
        return np.array([self._within(rank, rankings) for rank in self.ranks], np.int64)


@dataclass(frozen=True, repr=False)
class RadiusCurve(Measure):
    """Precision and recall of the items within Hamming distance 0, 1, ..., k; precision 0 where there are none."""

    name = "PRH"

    def over(self, rankings: About) -> Taken:
        if rankings.is_asymmetric:
            raise InputError(f"{self} needs queries that are packed codes (uint8): projections have no Hamming radius")
        n_radii = len(self._radii(rankings))

        def of_counts(sizes: Integers, relevant: Integers) -> Floats:
            retrieved, hits = (np.cumsum(each[:, :n_radii], axis=1) for each in (sizes, relevant))
            return _curve(hits, np.maximum(retrieved, 1), relevant.sum(axis=1))

        return Taken(_BY_RUN, of_counts)

    def summary(self, mean: Any, rankings: About) -> PrecisionRecall:
        return PrecisionRecall(self._radii(rankings), *np.split(mean, 2))

    def _radii(self, rankings: About) -> Integers:
        if self.k is not None and self.k > rankings.n_bits:
            raise InputError(
                f"{self} asks for a Hamming radius of {self.k}, but codes have only {rankings.n_bits} bits"
            )
        return np.arange((self.k or rankings.n_bits) + 1)


AP, P, R, nDCG = AveragePrecision(), Precision(), Recall(), DiscountedGain()  # noqa: N816 (its usual name)
PR, PRH = Curve(), RadiusCurve()

#: The measures by name, without cut and options.
MEASURES: dict[str, Measure] = {each.name: each for each in (AP, P, R, nDCG, PR, PRH)}

_NOTATION = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*(?:@\s*([0-9]+))?\s*")
_OPTION = re.compile(r"""\s*(\w+)\s*=\s*("\w*"|'\w*'|[0-9]+|\([0-9\s,]*\))\s*(?:,|$)""")


def measure(asked: str | Measure) -> Measure:
    """Return a measure by its name, with options in brackets and a cut after ``@``; measures pass through.

    Examples
    --------
    >>> measure("AP@50").k
    50
    >>> measure("nDCG(gain='linear')@10")
    nDCG(gain="linear")@10
    """
    if isinstance(asked, Measure):
        return asked
    parts = _NOTATION.fullmatch(asked) if isinstance(asked, str) else None
    if parts is None or parts[1] not in MEASURES:
        raise InputError(_unknown(asked))
    found = MEASURES[parts[1]]
    if parts[2] is not None:
        found = found(**_options(parts[2], asked))
    return found if parts[3] is None else found @ int(parts[3])


def _options(text: str, asked: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    place = 0
    while place < len(text):
        option = _OPTION.match(text, place)
        if option is None or option[1] in options:
            raise InputError(_unknown(asked))
        try:
            options[option[1]] = ast.literal_eval(option[2])
        except (SyntaxError, ValueError):
            raise InputError(_unknown(asked)) from None
        place = option.end()
    return options


def _unknown(asked: Any) -> str:
    return (
        f"unknown measure {asked!r}: there are {', '.join(MEASURES)}, with a cut as in AP@50 "
        'and options as in nDCG(gain="linear")@10'
    )


def _written(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _hits(rankings: About, cuts: tuple[int, ...], match: Match = "any") -> Taken:
    """Take the (expected) numbers of relevant items within each cut, and of all of them after these."""
    cuts = (*cuts, rankings.n_items)
    if rankings.ties == "order":
        return Taken((Sum(RankedBlock.hits, (cuts, match)),), _itself)
    sums = Sum(RankedBlock.sizes), Sum(RankedBlock.relevant, (match,))
    return Taken(sums, lambda sizes, relevant: expected_hits(sizes, relevant, cuts))


def _itself(values: Any) -> Any:
    return values


def _where(relevant: Any, values: Floats) -> Floats:
    """Put NaN where a query has nothing relevant."""
    some = relevant > 0
    return np.where(some if values.ndim == 1 else some[:, None], values, np.nan)


def _curve(hits: Any, retrieved: Any, n_relevant: Any) -> Floats:
    """Return precision at each cut and then recall at each, a row per query."""
    return _where(n_relevant, np.hstack([hits / retrieved, hits / np.maximum(n_relevant, 1)[:, None]]))
