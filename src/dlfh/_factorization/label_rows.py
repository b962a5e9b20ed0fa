"""S from labels: rows of U and V, the columns that they are updated against, and the updates of eq. (3) to (6).

With V fixed, the rows of U do not interact, so "for each bit, all points" (the paper's order) and "for each point, all
bits in turn" give the same codes; the second keeps a point's state in a processor's cache. And points that share both
a label set and a code stay together for ever, so a row may stand for a label set instead of a point, weighted by its
number of points.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.supervision import Sample
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import Codes, by_word

__all__ = ["Columns", "LabelRows", "count_similar", "share_step", "update", "update_shared"]

Integers = npt.NDArray[np.int64]

#: How many label sets tell the share of similar pairs, against all: with fewer sets it is exact.
_SETS_FOR_SHARE = 4096


@dataclass(frozen=True)
class LabelRows:
    """What the rows of the code matrices stand for: points, or label sets weighted by their points.

    Attributes
    ----------
    labels : LabelSets
    row_of_point, set_of_row : ndarray of int64
    weights : ndarray of int64
        How many points a row stands for.
    present : tuple of ndarray of bool (n_points,), optional
        By modality: which points have it. Those that have not still get a code, but nobody is compared with it.
    pair_weights : ndarray of int64 (modalities, modalities), optional
        What a pair of two modalities' points counts for; 1 by default.
    """

    labels: LabelSets
    row_of_point: Integers
    set_of_row: Integers
    weights: Integers
    present: tuple[npt.NDArray[np.bool_], ...] | None = None
    pair_weights: Integers | None = None

    @classmethod
    def of_points(cls, labels: LabelSets, **options: Any) -> LabelRows:
        """Let every point be a row of its own."""
        n = labels.n_points
        return cls(labels, np.arange(n), labels.set_of_point, np.ones(n, np.int64), **options)

    @classmethod
    def of_label_sets(cls, labels: LabelSets, **options: Any) -> LabelRows:
        """Let every distinct label set be a row, weighted by its points."""
        return cls(labels, labels.set_of_point, np.arange(labels.n_sets), labels.counts, **options)

    def __len__(self) -> int:
        return len(self.set_of_row)

    def weights_in(self, modality: int) -> Integers:
        """Return how many points each row stands for that have the modality."""
        if self.present is None:
            return self.weights
        return np.bincount(self.row_of_point[self.present[modality]], minlength=len(self)).astype(np.int64)

    def pair_weight(self, a: int, b: int) -> int:
        """Return what a pair of these two modalities counts for."""
        return 1 if self.pair_weights is None else int(self.pair_weights[a, b])

    def similar_share(self, n_modalities: int) -> float:
        """Return the share p of similar pairs among those that count, each as often as it counts.

        Counted by label sets; where these are many, from some thousands of them against all.
        """
        sets = LabelRows.of_label_sets(self.labels, present=self.present, pair_weights=self.pair_weights)
        chosen = np.arange(0, len(sets), share_step(len(sets)))
        counts = np.zeros(2, np.int64)
        for a, b in itertools.combinations(range(n_modalities), 2):
            rows = replace(self.labels.some(chosen), counts=sets.weights_in(a)[chosen])
            columns = replace(self.labels, counts=sets.weights_in(b))
            counts += sets.pair_weight(a, b) * count_similar(rows, columns)
        return float(counts[1] / max(counts.sum(), 1))

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        """Update one modality's codes in place against the others', all or sampled; return the flips."""
        if len(codes) == 1 and sample is None:
            return update_shared(model, codes[0], self)
        others = [b for b in range(len(codes)) if b != modality] or [0]
        chosen, weights = [], []
        for b in others:
            rows, counts = self._columns(b, sample)
            chosen.append(rows)
            weights.append(counts * self.pair_weight(modality, b))
        columns = Columns.gather(self, chosen, weights, [codes[b] for b in others])
        return update(model, codes[modality], self, columns, workers)

    def _columns(self, modality: int, sample: Sample | None) -> tuple[Integers, Integers]:
        """Return rows of a modality to compare with, all or sampled, and how many points each stands for."""
        if sample is None:
            weights = self.weights_in(modality)
            rows = np.flatnonzero(weights) if self.present is not None else np.arange(len(self))
            return rows, weights[rows]
        n_points = int(self.weights_in(modality).sum())
        places = sample.rng.choice(n_points, min(sample.size, n_points), replace=False)
        return np.unique(self._in_order(modality, places), return_counts=True)

    def _in_order(self, modality: int, places: Integers) -> Integers:
        """Return the rows of points by their places among those that have a modality, in the order of label sets.

        The same draw then means the same label sets whether rows are points or label sets, and whatever order the
        points came in. Rows that are label sets need not know their points.
        """
        if len(self) == self.labels.n_sets and np.array_equal(self.set_of_row, np.arange(len(self))):
            return np.searchsorted(np.cumsum(self.weights_in(modality)), places, side="right")
        order = self._order
        return self.row_of_point[order if self.present is None else order[self.present[modality][order]]][places]

    @functools.cached_property
    def _order(self) -> Integers:
        return np.argsort(self.labels.set_of_point, kind="stable")

    def count_pairs(
        self, model: LatentFactorModel, modalities: tuple[int, int], codes: list[Codes], workers: Workers
    ) -> Integers:
        """Count the pairs of two modalities' points by (similar or not, Hamming distance)."""
        a, b = modalities
        everything = np.arange(len(self))
        columns = Columns.gather(self, [everything], [self.weights_in(b)], [codes[b]])
        return self.pair_weight(a, b) * _count_pairs(model, codes[a], self, self.weights_in(a), columns, workers)


def share_step(n_sets: int) -> int:
    """Return how many label sets there are for each one that tells the share of similar pairs."""
    return -(-n_sets // _SETS_FOR_SHARE)


def count_similar(rows: LabelSets, columns: LabelSets) -> Integers:
    """Return how many pairs of points, of the sets of some and of others, are dissimilar, and how many similar."""
    codes = np.zeros((rows.n_sets, 1), np.uint64), np.zeros((1, columns.n_sets), np.uint64)
    lists = _kernels.invert_lists(columns.starts, columns.labels, np.arange(columns.n_sets), columns.n_labels)
    everything = np.arange(rows.n_sets)
    counts = _kernels.count_pairs(
        codes[0], everything, rows.counts, rows.starts, rows.labels, codes[1], columns.counts, *lists, 1, 0, rows.n_sets
    )
    return np.asarray(counts.sum(axis=1))


@dataclass(frozen=True)
class Columns:
    """Rows of one modality (or several) that the rows of another are updated against."""

    codes: Codes
    weights: Integers
    list_starts: Integers
    list_members: npt.NDArray[np.int32]

    @classmethod
    def gather(cls, rows: LabelRows, chosen: list[Integers], weights: list[Integers], codes: list[Codes]) -> Columns:
        """Take rows ``chosen[b]`` of modality b, for each other modality b."""
        sets = rows.set_of_row[np.concatenate(chosen)]
        labels = rows.labels
        lists = _kernels.invert_lists(labels.starts, labels.labels, sets, labels.n_labels)
        weight = np.concatenate(weights)
        gathered = np.concatenate([code[index] for code, index in zip(codes, chosen, strict=True)])
        return cls(gathered, weight, *lists)


def _masks(codes: Codes, n_bits: int) -> npt.NDArray[np.int8]:
    """Return, by bit and row, 0 for +1 and -1 for -1: x ^ mask - mask is x or -x."""
    return np.unpackbits(codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)


def update(
    model: LatentFactorModel,
    codes: Codes,
    rows: LabelRows,
    columns: Columns,
    workers: Workers,
    bits: tuple[int, int] | None = None,
) -> int:
    """Update the codes of one modality in place, eq. (3) and (5), and return the number of flips.

    ``codes`` and ``columns.codes`` are padded to whole words. ``bits`` restricts the update to a range
    of bits.
    """
    first_bit, last_bit = bits or (0, model.n_bits)
    masks = _masks(columns.codes, model.n_bits)
    words, column_words = codes.view(np.uint64), by_word(columns.codes)
    tables = model.tables

    def update_block(start: int, stop: int) -> int:
        return int(
            _kernels.update_rows(
                codes,
                words,
                rows.set_of_row,
                rows.labels.starts,
                rows.labels.labels,
                column_words,
                masks,
                columns.weights,
                columns.list_starts,
                columns.list_members,
                *tables,
                first_bit,
                last_bit,
                start,
                stop,
            )
        )

    row_cost = len(columns.weights) * (last_bit - first_bit) / 4
    return sum(workers.map_blocks(update_block, len(rows), workers.even_block(len(rows), row_cost)))


def update_shared(model: LatentFactorModel, codes: Codes, rows: LabelRows, bits: tuple[int, int] | None = None) -> int:
    """Update one code shared by the modalities in place, row after row, against all other rows."""
    first_bit, last_bit = bits or (0, model.n_bits)
    labels = rows.labels
    lists = _kernels.invert_lists(labels.starts, labels.labels, rows.set_of_row, labels.n_labels)
    flips: int = _kernels.update_shared_rows(
        codes,
        codes.view(np.uint64),
        rows.set_of_row,
        rows.weights,
        labels.starts,
        labels.labels,
        by_word(codes),
        _masks(codes, model.n_bits),
        *lists,
        *model.tables,
        first_bit,
        last_bit,
    )
    return flips


def _count_pairs(
    model: LatentFactorModel, codes: Codes, rows: LabelRows, row_weights: Integers, columns: Columns, workers: Workers
) -> Integers:
    words, column_words = codes.view(np.uint64), by_word(columns.codes)
    weights = columns.weights

    def count_block(start: int, stop: int) -> Integers:
        counts: Integers = _kernels.count_pairs(
            words,
            rows.set_of_row,
            row_weights,
            rows.labels.starts,
            rows.labels.labels,
            column_words,
            weights,
            columns.list_starts,
            columns.list_members,
            model.n_bits,
            start,
            stop,
        )
        return counts

    block = workers.even_block(len(rows), len(weights))
    return np.sum(workers.map_blocks(count_block, len(rows), block), axis=0)
