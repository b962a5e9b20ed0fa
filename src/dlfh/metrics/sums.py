"""Sums over ranked items, which add up over parts of a database: the ground that measures stand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh.metrics.gains import Gain, discounts, gains_of

__all__ = ["About", "Before", "Match", "RankedBlock", "Sum", "Taken", "TiedRuns", "Ties", "values_of"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Ties = Literal["order", "expected"]
Match = Literal["any", "all"]


class About(NamedTuple):
    """What measures know of rankings before anything is ranked.

    Attributes
    ----------
    ties : {"order", "expected"}
        Whether measures follow database order among tied items, or are expectations over all orders.
    n_grades : int or None
        Grades are whole numbers below this; None where they are real numbers.
    """

    n_queries: int
    n_items: int
    n_bits: int
    ties: Ties
    is_asymmetric: bool
    has_labels: bool
    n_grades: int | None


class Sum(NamedTuple):
    """Something of ranked items that adds up over parts of the database: a method of `RankedBlock`, its arguments."""

    method: Callable[..., Array]
    arguments: tuple[Any, ...] = ()

    @property
    def is_by_rank(self) -> bool:
        """Whether it asks for the items' ranks among all; other sums follow from distances and grades alone."""
        return self.method in _BY_RANK


class Taken(NamedTuple):
    """A measure, taken of rankings: the sums that it needs, and its values for queries with these sums."""

    sums: tuple[Sum, ...]
    values: Callable[..., Array]

    def then(self, function: Callable[[Array], Floats]) -> Taken:
        """Return a function of the values."""
        return Taken(self.sums, lambda *sums: function(self.values(*sums)))


def values_of(taken: Sequence[Taken], add_up: Callable[[list[Sum]], Sequence[Array]]) -> list[Floats]:
    """Return the values of measures by query; ``add_up`` is asked once for all sums that they need."""
    wanted = list(dict.fromkeys(each for own in taken for each in own.sums))
    found = dict(zip(wanted, add_up(wanted), strict=True))
    return [own.values(*(found[each] for each in own.sums)) for own in taken]


@dataclass(frozen=True)
class TiedRuns:
    """Runs of tied items in rank order: how many items each has, by query; runs may be empty."""

    sizes: Integers

    @cached_property
    def stops(self) -> Integers:
        """How many items are ranked up to the end of each run."""
        return np.cumsum(self.sizes, axis=1)

    @cached_property
    def starts(self) -> Integers:
        """How many items are ranked before each run."""
        return self.stops - self.sizes

    def add_up(self, ranked: Array) -> Floats:
        """Return the sum over each run of values in rank order."""
        running = np.cumsum(ranked, axis=1, dtype=np.float64)
        running = np.hstack([np.zeros((len(ranked), 1)), running])
        bounds = np.hstack([np.zeros((len(self.sizes), 1), np.int64), self.stops])
        return np.diff(np.take_along_axis(running, bounds, axis=1), axis=1)


class Before(NamedTuple):
    """How many items of all, and relevant ones, are ranked before a part's first of each run: by query and run."""

    items: Integers
    relevant: Integers


@dataclass(frozen=True)
class RankedBlock:
    """The database, or a part of it, as ranked for a few queries. What sums share is computed once.

    Every sum has a row for each query, and adds up over parts of the database.

    Attributes
    ----------
    places : ndarray of uint32 (queries, items)
        Each item's place among these items in the ranking of each query, ties in database order.
    judged : ndarray (queries, items)
        Grades of the items in database order; 0 is not relevant.
    runs_of_ties : callable
        Returns the runs of tied items.
    equal : callable
        Returns, in database order, 1 for the items that have the query's labels, all of them and no others.
    before : Before or None
        What comes before runs of a part; None if these are all items.
    """

    places: npt.NDArray[np.uint32]
    judged: Array
    runs_of_ties: Callable[[], TiedRuns]
    equal: Callable[[], npt.NDArray[np.uint8]]
    before: Before | None

    def sums(self, wanted: Sequence[Sum]) -> list[Array]:
        """Return the sums that are asked for."""
        return [each.method(self, *each.arguments) for each in wanted]

    def sizes(self) -> Integers:
        """Return how many items each run of ties has."""
        return self._runs.sizes

    def relevant(self, match: Match) -> Integers:
        """Return how many relevant items each run has."""
        return np.diff(self._count(match, self._runs.stops), axis=1, prepend=0)

    def gains(self, gain: Gain) -> Floats:
        """Return the sum of the gains of each run."""
        return self._runs.add_up(gains_of(self._grades, gain))

    def n_of_grade(self, n_grades: int) -> Integers:
        """Return how many items have each grade, from 0 on."""
        return np.stack([np.bincount(row, minlength=n_grades) for row in self.judged])

    def best_gains(self, k: int, gain: Gain) -> Floats:
        """Return the discounted gains of the best ranking, of all items: it does not add up."""
        assert self.before is None
        highest = np.sort(self.judged, axis=1)[:, ::-1][:, :k]
        return (gains_of(highest, gain) * discounts(np.arange(1, k + 1))).sum(axis=1)

    def hits(self, cuts: tuple[int, ...], match: Match) -> Integers:
        """Return how many of these items are relevant and among the first of all, for each cut."""
        stops, which = np.unique(cuts, return_inverse=True)
        return self._count(match, np.stack([self._within(int(stop)) for stop in stops], axis=1))[:, which]

    def precisions(self, k: int) -> Floats:
        """Return the sum of precisions at those, how many these are, and how many are relevant in all."""
        found = np.empty((len(self.judged), 3))
        _kernels.sum_precisions(self._marks("any"), *self._counted_from, k, found)
        return found

    def discounted_gains(self, k: int, gain: Gain) -> Floats:
        """Return the sum of the gains of those among the first k of all, each divided as its rank asks."""
        stops = self._within(k)
        grades = self._grades[:, : stops.max()]
        row, place = np.nonzero(grades)
        row, place = (each[place < stops[row]] for each in (row, place))
        ranks = 1 + place + self._later[row, place]
        gains = gains_of(grades[row, place], gain) * discounts(ranks)
        return np.bincount(row, gains, len(grades)).astype(np.float64, copy=False)

    @cached_property
    def _runs(self) -> TiedRuns:
        return self.runs_of_ties()

    @cached_property
    def _counted_from(self) -> tuple[Integers, Integers, Integers]:
        """Sizes of runs whose ranks follow one another, and items and relevant ones before each."""
        if self.before is not None:
            return self._runs.sizes, *self.before
        n_queries, n_items = self.judged.shape
        nothing = np.zeros((n_queries, 1), np.int64)
        return nothing + n_items, nothing, nothing

    @cached_property
    def _later(self) -> Integers:
        """By how much an item's place among all is later than its place among these."""
        if self.before is None:
            return np.broadcast_to(np.int64(0), self.judged.shape)
        later = self.before.items - self._runs.starts
        return np.repeat(later.ravel(), self._runs.sizes.ravel()).reshape(self.judged.shape)

    def _within(self, k: int) -> Integers:
        """Return how many of these items are among the first k of all."""
        sizes, before, _ = self._counted_from
        return np.clip(k - before, 0, sizes).sum(axis=1)

    def _count(self, match: Match, stops: Integers) -> Integers:
        """Return how many of the first of these items are relevant, for each stop."""
        found = np.empty(stops.shape, np.int64)
        _kernels.count_marks(self._marks(match), stops, found)
        return found

    def _marks(self, match: Match) -> npt.NDArray[np.uint8]:
        return self._relevant if match == "any" else self._equal

    @cached_property
    def _relevant(self) -> npt.NDArray[np.uint8]:
        """A byte for each rank, positive where the item is relevant: the grades themselves, if they are bytes."""
        if self.judged.dtype == np.uint8:
            return self._grades
        return self._in_rank_order((self.judged > 0).view(np.uint8))

    @cached_property
    def _equal(self) -> npt.NDArray[np.uint8]:
        """The same, where the item has the query's labels, all of them and no others."""
        return self._in_rank_order(self.equal())

    @cached_property
    def _grades(self) -> Array:
        return self._in_rank_order(self.judged)

    def _in_rank_order(self, values: Array) -> Array:
        ranked = np.empty_like(values)
        _kernels.reorder(values, self.places, ranked)
        return ranked


_BY_RANK = (RankedBlock.hits, RankedBlock.precisions, RankedBlock.discounted_gains)
