"""Additive statistics of ranked items, from which every measure is computed, with the gains and discounts of nDCG.

Sums over blocks of the database add up to the sums over the whole, so a measure need not know whether its database is
in memory. Tied items form runs in rank order, given by their sizes (queries, runs); runs may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expi

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers
from dlfh.errors import InputError

Ties = Literal["order", "expected"]
Match = Literal["any", "all"]
Gain = Literal["exponential", "linear"]
_EXPONENTIAL = np.exp2(np.arange(256.0)) - 1
_TABULATED = 1 << 20  # number of ranks whose discounts are summed one by one


class RankingInfo(NamedTuple):
    """Properties of a set of rankings that are known before anything is ranked."""

    n_queries: int
    n_items: int
    n_bits: int
    ties: Ties
    is_asymmetric: bool
    has_labels: bool
    n_grades: int | None  # grades are whole numbers below this; None if they are real numbers


class Sum(NamedTuple):
    """An additive statistic: a method of `RankedBlock` and its arguments."""

    method: Callable[..., Array]
    arguments: tuple[Any, ...] = ()

    @property
    def needs_ranks(self) -> bool:
        """Whether it depends on ranks within the whole database, not only on distances and grades."""
        return self.method in _NEED_RANKS


class Aggregation(NamedTuple):
    """The sums that a measure needs, and the function from these sums to its values by query."""

    sums: tuple[Sum, ...]
    finalize: Callable[..., Array] = np.asarray

    def then(self, function: Callable[[Array], Floats]) -> Aggregation:
        return Aggregation(self.sums, lambda *sums: function(self.finalize(*sums)))


def finalize_all(aggregations: Sequence[Aggregation], compute: Callable[[list[Sum]], Sequence[Array]]) -> list[Floats]:
    """Return the values of each aggregation; ``compute`` is called once with all the sums they need."""
    needed = list(dict.fromkeys(each for aggregation in aggregations for each in aggregation.sums))
    values = dict(zip(needed, compute(needed), strict=True))
    return [each.finalize(*(values[part] for part in each.sums)) for each in aggregations]


class RankOffsets(NamedTuple):
    """Numbers of items and of relevant items that precede the block's first item of each run: (queries, runs)."""

    items: Integers
    relevant: Integers


@dataclass(frozen=True)
class RankedBlock:
    """A block of the database, or all of it, ranked for some queries; every sum has one row per query."""

    ranks: npt.NDArray[np.uint32]  # of each item within the block (queries, items), from 0, ties in database order
    grades: Array  # in database order (queries, items)
    tied_runs: Callable[[], Integers]  # sizes of the runs of tied items (queries, runs), in rank order
    has_equal_labels: Callable[[], Codes] | None  # 1 for items whose label set equals the query's, in database order
    offsets: RankOffsets | None  # of the runs in the whole database; None if the block is the whole database

    def compute(self, sums: Sequence[Sum]) -> list[Array]:
        return [each.method(self, *each.arguments) for each in sums]

    def run_sizes(self) -> Integers:
        return self._sizes

    def run_hits(self, match: Match) -> Integers:
        return np.diff(self._count(match, run_bounds(self._sizes)[1]), axis=1, prepend=0)

    def run_gains(self, gain: Gain) -> Floats:
        gains = np.cumsum(gains_of(self._ranked_grades, gain), axis=1, dtype=np.float64)
        running = np.hstack([np.zeros((len(gains), 1)), gains])
        bounds = np.hstack([np.zeros((len(gains), 1), np.int64), run_bounds(self._sizes)[1]])
        return np.diff(np.take_along_axis(running, bounds, axis=1), axis=1)

    def grade_counts(self, n_grades: int) -> Integers:
        return np.stack([np.bincount(row, minlength=n_grades) for row in self.grades])

    def ideal_gains(self, k: int, gain: Gain) -> Floats:
        """Return the discounted gain of the best ranking; not additive, so the block must be the whole database."""
        assert self.offsets is None
        highest = np.sort(self.grades, axis=1)[:, ::-1][:, :k]
        return (gains_of(highest, gain) * discounts(np.arange(1, k + 1))).sum(axis=1)

    def hits(self, cuts: tuple[int, ...], match: Match) -> Integers:
        """Return the number of the block's relevant items within each cut-off of the whole ranking."""
        stops, which = np.unique(cuts, return_inverse=True)
        return self._count(match, np.stack([self._n_within(int(stop)) for stop in stops], axis=1))[:, which]

    def precisions(self, k: int) -> Floats:
        """Return three columns: sum of precisions at relevant ranks up to k, number of these, number of all hits."""
        found = np.empty((len(self.grades), 3))
        _kernels.sum_precisions(self._relevant, *self._consecutive_ranks, k, found)
        return found

    def discounted_gains(self, k: int, gain: Gain) -> Floats:
        """Return the discounted gain of the block's items within the first k of the whole ranking."""
        stops = self._n_within(k)
        grades = self._ranked_grades[:, : stops.max()]
        row, place = np.nonzero(grades)
        row, place = (each[place < stops[row]] for each in (row, place))
        ranks = 1 + place + self._rank_shift[row, place]
        gains = gains_of(grades[row, place], gain) * discounts(ranks)
        return np.bincount(row, gains, len(grades)).astype(np.float64, copy=False)

    @cached_property
    def _sizes(self) -> Integers:
        return self.tied_runs()

    @cached_property
    def _consecutive_ranks(self) -> tuple[Integers, Integers, Integers]:
        """Sizes of the runs of consecutive ranks, and items and relevant items ranked before each."""
        if self.offsets is not None:
            return self._sizes, *self.offsets
        n_queries, n_items = self.grades.shape
        zeros = np.zeros((n_queries, 1), np.int64)
        return zeros + n_items, zeros, zeros

    @cached_property
    def _rank_shift(self) -> Integers:
        """Difference between an item's rank in the whole database and its rank in the block."""
        if self.offsets is None:
            return np.broadcast_to(np.int64(0), self.grades.shape)
        shift = self.offsets.items - run_bounds(self._sizes)[0]
        return np.repeat(shift.ravel(), self._sizes.ravel()).reshape(self.grades.shape)

    def _n_within(self, k: int) -> Integers:
        """Return the number of the block's items within the first k of the whole ranking."""
        sizes, items_before, _ = self._consecutive_ranks
        return np.clip(k - items_before, 0, sizes).sum(axis=1)

    def _count(self, match: Match, stops: Integers) -> Integers:
        """Return the number of relevant items before each stop, a rank within the block."""
        found = np.empty(stops.shape, np.int64)
        _kernels.count_marks(self._relevant if match == "any" else self._equal, stops, found)
        return found

    @cached_property
    def _relevant(self) -> Codes:
        """One byte per rank, positive where the item shares a label with the query."""
        if self.grades.dtype == np.uint8:
            return self._ranked_grades
        return self._in_rank_order((self.grades > 0).view(np.uint8))

    @cached_property
    def _equal(self) -> Codes:
        """One byte per rank, positive where the item has exactly the query's labels."""
        assert self.has_equal_labels is not None  # measures that compare labels check this before ranking
        return self._in_rank_order(self.has_equal_labels())

    @cached_property
    def _ranked_grades(self) -> Array:
        return self._in_rank_order(self.grades)

    def _in_rank_order(self, values: Array) -> Array:
        ranked = np.empty_like(values)
        _kernels.reorder(values, self.ranks, ranked)
        return ranked


_NEED_RANKS = (RankedBlock.hits, RankedBlock.precisions, RankedBlock.discounted_gains)


def run_bounds(sizes: Integers) -> tuple[Integers, Integers]:
    """Return the number of items ranked before each run of ties, and up to its end."""
    stops = np.cumsum(sizes, axis=1)
    return stops - sizes, stops


def gains_of(grades: Any, gain: Gain) -> Floats:
    """Return the exponential gain, 2 ** grade - 1, or the linear gain, the grade."""
    if gain == "linear":
        return np.asarray(grades, np.float64)
    if grades.dtype == np.uint8:
        return _EXPONENTIAL[grades]
    if grades.max(initial=0) > 1000:
        problem = f'relevance has a grade of {grades.max():g}, too large for gain="exponential"'
        raise InputError(f'{problem}; use gain="linear"')
    return np.exp2(grades) - 1


def discounts(ranks: Any) -> Floats:
    """Return 1 / log2(rank + 1)."""
    return 1 / np.log2(ranks + 1.0)


def discount_sums(ranks: Integers) -> Floats:
    """Return the sum of the discounts up to each rank, in closed form beyond the first million ranks."""

    def antiderivative(x: Any) -> Any:
        # Euler-Maclaurin formula for f(x) = 1 / log(x), x = rank + 1; further terms are below rounding error.
        log = np.log(x)
        return expi(log) + 0.5 / log - 1 / (12 * x * log**2)

    first = _first_sums(min(_TABULATED, 1 << int(ranks.max(initial=0)).bit_length()))
    last = len(first) - 1
    sums = first[np.minimum(ranks, last)]
    beyond = ranks > last
    sums[beyond] += np.log(2) * (antiderivative(ranks[beyond] + 1.0) - antiderivative(last + 1.0))
    return sums


@cache
def _first_sums(n: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(discounts(np.arange(1, n + 1)))])


def discounted(means: Floats, sizes: Integers, k: int) -> Floats:
    """Return the discounted gain of the first k items by query, for runs of items with the given mean gains."""
    first, last = (discount_sums(np.minimum(bounds, k)) for bounds in run_bounds(sizes))
    return (means * (last - first)).sum(axis=1)
