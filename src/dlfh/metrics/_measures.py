"""Measures as objects, named as ir_measures names them: ``AP``, ``P@10``, ``nDCG(gain="linear")@20``.

A measure is one class, with what it is of a block of ranked queries, and one row in `MEASURES`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError
from dlfh.metrics._expected import expected_average_precision, harmonic_numbers
from dlfh.metrics._ranking import Floats, Integers, RankedBlock, Ranker

__all__ = ["AP", "MEASURES", "PR", "PRH", "Measure", "P", "PrecisionRecall", "R", "measure", "nDCG"]

#: What a measure gives for a block: a row of values per query, NaN where nothing is relevant.
OfBlock = Callable[[RankedBlock], Floats]


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

    def over(self, ranker: Ranker) -> OfBlock:
        """Check that the measure can be taken of these rankings, and return what takes it of a block of them."""
        raise NotImplementedError

    def summary(self, mean: Any, ranker: Ranker) -> Any:
        """Return the mean over queries in the form that users get."""
        return float(mean)

    def depth(self, ranker: Ranker) -> int:
        """Return how many ranks count: k, or all."""
        return ranker.n_items if self.k is None else self._within(self.k, ranker)

    def _within(self, k: int, ranker: Ranker) -> int:
        if k > ranker.n_items:
            raise InputError(f"{self} cuts rankings at k = {k}, but the database has only {ranker.n_items} items")
        return k


@dataclass(frozen=True, repr=False)
class AveragePrecision(Measure):
    """Mean, over the relevant items, of the precision at the item's rank; its mean over queries is MAP."""

    name = "AP"
    normalize: Literal["retrieved", "possible"] = "retrieved"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.normalize, "normalize", ("retrieved", "possible"))

    def over(self, ranker: Ranker) -> OfBlock:
        k = self.depth(ranker)
        if ranker.ties == "expected":
            harmonic = harmonic_numbers(ranker.n_items)
            return lambda block: _where_relevant(block, expected_average_precision(block, k, self.normalize, harmonic))

        def of(block: RankedBlock) -> Floats:
            cut = block.precision_sums(k)
            denominators = cut.hits if self.normalize == "retrieved" else np.minimum(k, cut.n_relevant)
            return _where_relevant(block, cut.sums / np.maximum(denominators, 1))

        return of


@dataclass(frozen=True, repr=False)
class Precision(Measure):
    """Share of relevant items among the first k; without a cut that is the precision of a random order.

    With ``match="all"`` an item is relevant if it has the query's labels, all of them and no others; with "any", the
    default, if it shares one.
    """

    name = "P"
    match: Literal["any", "all"] = "any"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.match, "match", ("any", "all"))

    def over(self, ranker: Ranker) -> OfBlock:
        k = self.depth(ranker)
        if self.match == "any":
            return lambda block: _where_relevant(block, block.hits(k) / k)
        if ranker.equal is None:
            raise InputError(f"{self} compares labels: pass query_labels and database_labels, not relevance")
        return lambda block: _where_relevant(block.of_equal_labels, block.of_equal_labels.hits(k) / k)


@dataclass(frozen=True, repr=False)
class Recall(Measure):
    """Share of the relevant items that is among the first k."""

    name = "R"

    def over(self, ranker: Ranker) -> OfBlock:
        k = self.depth(ranker)
        return lambda block: _where_relevant(block, block.hits(k) / np.maximum(block.n_relevant, 1))


@dataclass(frozen=True, repr=False)
class DiscountedGain(Measure):
    """Graded: sum of gains divided by log2(rank + 1), as a share of the sum of the best possible ranking."""

    name = "nDCG"
    gain: Literal["exponential", "linear"] = "exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.gain, "gain", ("exponential", "linear"))

    def over(self, ranker: Ranker) -> OfBlock:
        k = self.depth(ranker)
        discounts = 1 / np.log2(np.arange(2, k + 2))
        running = np.concatenate([[0.0], np.cumsum(discounts)])
        gains = _exponential if self.gain == "exponential" else _linear
        needs_all = k == ranker.n_items or ranker.ties == "expected"

        def of(block: RankedBlock) -> Floats:
            ranked = gains(block.grades if needs_all else block.grades[:, :k])
            highest = np.sort(ranked, axis=1)[:, ::-1][:, :k] if needs_all else gains(_highest(block.grades, k))
            best = (highest * discounts).sum(axis=1)
            if ranker.ties == "order":
                found = (ranked * discounts).sum(axis=1)
            else:
                runs = block.runs
                weights = running[np.minimum(runs.stops, k)] - running[np.minimum(runs.starts, k)]
                found = (runs.sums(ranked) / np.maximum(runs.sizes, 1) * weights).sum(axis=1)
            return np.where(best > 0, found / np.where(best > 0, best, 1), np.nan)

        return of


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

    def over(self, ranker: Ranker) -> OfBlock:
        cuts = self._cuts(ranker)

        def of(block: RankedBlock) -> Floats:
            hits = block.hits_along(cuts)
            return _curve(block, hits, cuts)

        return of

    def summary(self, mean: Any, ranker: Ranker) -> PrecisionRecall:
        return PrecisionRecall(self._cuts(ranker), *np.split(mean, 2))

    def _cuts(self, ranker: Ranker) -> Integers:
        if self.ranks is None:
            return np.unique(np.geomspace(1, self.depth(ranker), 100).round().astype(np.int64))
        return np.array([self._within(rank, ranker) for rank in self.ranks], np.int64)


@dataclass(frozen=True, repr=False)
class RadiusCurve(Measure):
    """Precision and recall of the items within Hamming distance 0, 1, ..., k; precision 0 where there are none."""

    name = "PRH"

    def over(self, ranker: Ranker) -> OfBlock:
        if ranker.is_asymmetric:
            raise InputError(f"{self} needs queries that are packed codes (uint8): projections have no Hamming radius")
        n_radii = len(self._radii(ranker))

        def of(block: RankedBlock) -> Floats:
            retrieved = block.runs.stops[:, :n_radii]
            hits = np.cumsum(block.relevant_by_run, axis=1)[:, :n_radii]
            return _curve(block, hits, np.maximum(retrieved, 1))

        return of

    def summary(self, mean: Any, ranker: Ranker) -> PrecisionRecall:
        return PrecisionRecall(self._radii(ranker), *np.split(mean, 2))

    def _radii(self, ranker: Ranker) -> Integers:
        if self.k is not None and self.k > ranker.n_bits:
            raise InputError(f"{self} asks for a Hamming radius of {self.k}, but codes have only {ranker.n_bits} bits")
        return np.arange((self.k or ranker.n_bits) + 1)


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


def _where_relevant(block: RankedBlock, values: Floats) -> Floats:
    """Put NaN where a query has nothing relevant."""
    some = block.n_relevant > 0
    return np.where(some if values.ndim == 1 else some[:, None], values, np.nan)


def _curve(block: RankedBlock, hits: Any, retrieved: Any) -> Floats:
    """Return precision at each cut and then recall at each, a row per query."""
    return _where_relevant(block, np.hstack([hits / retrieved, hits / np.maximum(block.n_relevant, 1)[:, None]]))


def _highest(grades: Any, k: int) -> Any:
    """Return the k highest grades of each query, in falling order."""
    # NumPy sorts small integers in linear time, if asked for a stable sort.
    kind: Any = "stable" if grades.dtype == np.uint8 else None
    return np.sort(grades, axis=1, kind=kind)[:, ::-1][:, :k]


def _linear(grades: Any) -> Floats:
    return grades.astype(np.float64)


_EXPONENTIAL = np.exp2(np.arange(256.0)) - 1


def _exponential(grades: Any) -> Floats:
    if grades.dtype == np.uint8:
        return _EXPONENTIAL[grades]
    if grades.max() > 1000:
        raise InputError(f'a grade of {grades.max():g} is too large for gain="exponential": use gain="linear"')
    return np.exp2(grades) - 1
