"""Algorithm 1 of section 3.2 and its updates, eq. (3) to (6), for S_ij = 1 if points i and j share a label.

It alternates between the modalities until no bit changes, or for T iterations. Full DLFH, eq. (3) and (4), converges
(Theorem 1: no update decreases the likelihood, which is at most 0); stochastic DLFH, section 3.2.3, is eq. (5) and (6).

With V fixed the rows of U do not interact, so "for each bit, all points" (the paper's order) and "for each point, all
bits" give the same codes; the second order keeps a point's state in the processor's cache. Points with the same label
set and code always get the same updates, so a row may represent a label set, weighted by its number of points.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Codes, Floats, Integers, Mask
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import by_word, n_bytes, pad_to_words, random_codes

if TYPE_CHECKING:
    from dlfh._factorization.observed_pairs import ObservedPairs

#: Label sets compared with all others to estimate the share of similar pairs; with fewer sets it is exact.
_SETS_FOR_SHARE = 4096
#: More columns than this are padded to a multiple of it, so that loops over them consist of vector instructions only.
_VECTOR_COLUMNS = 64
Bits = tuple[int, int] | None  #: Range of bits to which an update is restricted.
#: Weight of a pair of points, by their two modalities (modalities, modalities); None for weights of 1.
PairWeights = Integers | None


@dataclass(frozen=True)
class Sample:
    """Number of points sampled from each other modality for an update (the paper's m), and their generator."""

    size: int
    rng: np.random.Generator


def other_modalities(modality: int, n_codes: int) -> list[int]:
    """Return the modalities against which a modality is updated: itself if all modalities share one code."""
    return [b for b in range(n_codes) if b != modality] or [0]


def pair_weight(weights: PairWeights, a: int, b: int) -> int:
    return 1 if weights is None else int(weights[a, b])


@dataclass
class Factorization:
    """Packed codes of every row, one array if the modalities share one code, with statistics of the iterations.

    flips: Number of bits changed in each iteration.
    objective: Log-likelihood at the start and after each iteration, if tracked.
    """

    n_bits: int
    codes: list[Codes]
    rows: LabelRows | ObservedPairs
    flips: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)

    def codes_of_points(self, modality: int) -> Codes:
        return self.codes_of_rows(modality)[self.rows.row_of_point]

    def codes_of_rows(self, modality: int) -> Codes:
        return self.codes[modality if len(self.codes) > 1 else 0]


def factorize(
    model: LatentFactorModel,
    rows: LabelRows | ObservedPairs,
    initial: list[Codes],
    *,
    max_iter: int,
    sample_size: int | None,
    rng: np.random.Generator,
    workers: Workers,
    early_stopping: bool = False,
    track_objective: bool = False,
    on_iteration: Callable[[], None] = lambda: None,
) -> Factorization:
    """Learn codes by Algorithm 1 from initial codes.

    initial: Packed initial codes of the rows, not modified. With a single array the modalities share one code, U = V.
    sample_size: Number m of points sampled without replacement from each other modality for each update; None for all
        points (full DLFH), which stops after an iteration without flips; ``early_stopping`` does so for samples, too.
    """
    result = Factorization(model.n_bits, [pad_to_words(code) for code in initial], rows)
    codes = result.codes
    sample = None if sample_size is None else Sample(sample_size, rng)
    if track_objective:
        result.objective.append(log_likelihood(model, codes, rows, workers))
    for _ in range(max_iter):
        flips = sum(rows.step(model, modality, codes, sample, workers) for modality in range(len(codes)))
        result.flips.append(flips)
        if track_objective:
            result.objective.append(log_likelihood(model, codes, rows, workers))
        on_iteration()
        if flips == 0 and (sample_size is None or early_stopping):
            break
    width = n_bytes(model.n_bits)
    result.codes = [np.ascontiguousarray(code[:, :width]) for code in codes]
    return result


def random_start(n_rows: int, n_codes: int, n_bits: int, rng: np.random.Generator) -> list[Codes]:
    """Return ``n_codes`` arrays of independent uniformly random codes of every row."""
    return [random_codes(rng, n_rows, n_bits) for _ in range(n_codes)]


def log_likelihood(
    model: LatentFactorModel, codes: list[Codes], rows: LabelRows | ObservedPairs, workers: Workers
) -> float:
    """Return eq. (1), summed over the pairs of modalities; only the final sum is rounded."""
    pairs = list(itertools.combinations(range(len(codes)), 2)) or [(0, 0)]
    return sum(model.log_likelihood(rows.count_pairs(model.n_bits, pair, codes, workers)) for pair in pairs)


@dataclass(frozen=True)
class LabelRows:
    """Rows of the code matrices: points, or label sets weighted by their points.

    weights: Number of points of each row.
    present (n_points,): For each modality, a mask of the points that have it. Only these points are columns of updates.
    pair_weights (modalities, modalities): Weights of pairs, 1 by default.
    """

    labels: LabelSets
    row_of_point: Integers
    set_of_row: Integers
    weights: Integers
    present: tuple[Mask, ...] | None = None
    pair_weights: PairWeights = None

    @classmethod
    def of_points(cls, labels: LabelSets, **options: Any) -> LabelRows:
        n = labels.n_points
        return cls(labels, np.arange(n), labels.set_of_point, np.ones(n, np.int64), **options)

    @classmethod
    def of_label_sets(cls, labels: LabelSets, **options: Any) -> LabelRows:
        return cls(labels, labels.set_of_point, np.arange(labels.n_sets), labels.counts, **options)

    def __len__(self) -> int:
        return len(self.set_of_row)

    def weights_in(self, modality: int) -> Integers:
        """Return each row's number of points that have the modality."""
        if self.present is None:
            return self.weights
        return np.bincount(self.row_of_point[self.present[modality]], minlength=len(self)).astype(np.int64)

    def similar_share(self, n_modalities: int) -> float:
        """Return the weighted share p of similar pairs, estimated from a few thousand label sets if there are more."""
        sets = LabelRows.of_label_sets(self.labels, present=self.present)
        chosen = np.arange(0, len(sets), share_stride(len(sets)))
        counts = np.zeros(2, np.int64)
        for a, b in itertools.combinations(range(n_modalities), 2):
            rows = replace(self.labels.select(chosen), counts=sets.weights_in(a)[chosen])
            columns = replace(self.labels, counts=sets.weights_in(b))
            counts += pair_weight(self.pair_weights, a, b) * count_similar(rows, columns)
        return float(counts[1] / max(counts.sum(), 1))

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        """Update one modality's codes in place, by eq. (3) or, with a sample, eq. (5); return the number of flips."""
        if len(codes) == 1 and sample is None:
            return update_shared(model, codes[0], self)
        others = other_modalities(modality, len(codes))
        chosen, counts = zip(*(self._columns(b, sample) for b in others), strict=True)
        weights = [count * pair_weight(self.pair_weights, modality, b) for b, count in zip(others, counts, strict=True)]
        columns = Columns.gather(self, chosen, weights, [codes[b] for b in others])
        return update(model, codes[modality], self, columns, workers)

    def _columns(self, modality: int, sample: Sample | None) -> tuple[Integers, Integers]:
        weights = self.weights_in(modality)
        if sample is None:
            rows = np.flatnonzero(weights) if self.present is not None else np.arange(len(self))
            return rows, weights[rows]
        n_points = int(weights.sum())
        # Places among the points with the modality, sorted by label set: random places select the same label sets,
        # whether rows are points or label sets, for any order of points.
        places = sample.rng.choice(n_points, min(sample.size, n_points), replace=False)
        if len(self) == self.labels.n_sets and np.array_equal(self.set_of_row, np.arange(len(self))):
            rows = np.searchsorted(np.cumsum(weights), places, side="right")
        else:
            order = self._order
            rows = self.row_of_point[order if self.present is None else order[self.present[modality][order]]][places]
        return np.unique(rows, return_counts=True)

    @functools.cached_property
    def _order(self) -> Integers:
        return np.argsort(self.labels.set_of_point, kind="stable")

    @functools.cached_property
    def indicator(self) -> sp.csr_array:
        return self.labels.rows()[self.set_of_row]

    @functools.cached_property
    def unit_indicator(self) -> sp.csr_array:
        """The labels of each row, scaled to length 1; a row without labels is 0."""
        return self.labels.unit_rows()[self.set_of_row]

    def sums(self, left: Any, right: Floats) -> Floats:
        """Return left' right, summed over the points."""
        return left.T @ (self.weights[:, None] * right)

    def count_pairs(self, n_bits: int, modalities: tuple[int, int], codes: list[Codes], workers: Workers) -> Integers:
        """Count pairs of two modalities' points by (dissimilar or similar, Hamming distance), shape (2, n_bits + 1)."""
        a, b = modalities
        columns = Columns.gather(self, [np.arange(len(self))], [self.weights_in(b)], [codes[b]])
        rows = codes[a].view(np.uint64), self.set_of_row, self.weights_in(a), self.labels.lists
        others = by_word(columns.codes), columns.weights, columns.lists
        count_block = functools.partial(_kernels.count_pairs, *rows, *others, n_bits)
        block = workers.even_block(len(self), len(columns.weights))
        counts = np.sum(workers.map_blocks(count_block, len(self), block), axis=0)
        return pair_weight(self.pair_weights, a, b) * counts


def share_stride(n_sets: int) -> int:
    """Return the stride n if every n-th label set is used to estimate the share of similar pairs."""
    return -(-n_sets // _SETS_FOR_SHARE)


def count_similar(rows: LabelSets, columns: LabelSets) -> Integers:
    """Return the numbers of dissimilar and of similar pairs between the points of two groups of label sets."""
    own = np.zeros((rows.n_sets, 1), np.uint64), np.arange(rows.n_sets), rows.counts, rows.lists
    others = np.zeros((1, columns.n_sets), np.uint64), columns.counts, columns.inverted_lists()
    counts = _kernels.count_pairs(*own, *others, 1, 0, rows.n_sets)
    return np.asarray(counts.sum(axis=1))


@dataclass(frozen=True)
class Columns:
    """Codes, weights and labels of the other modalities' rows, against which rows are updated."""

    codes: Codes
    weights: Integers
    lists: tuple[Integers, npt.NDArray[np.int32]]

    @classmethod
    def gather(
        cls, rows: LabelRows, chosen: Sequence[Integers], weights: Sequence[Integers], codes: Sequence[Codes]
    ) -> Columns:
        """Return rows ``chosen[b]`` of each other modality b, with their weights and codes."""
        sets = rows.set_of_row[np.concatenate(chosen)]
        gathered = np.concatenate([code[index] for code, index in zip(codes, chosen, strict=True)])
        return cls(gathered, np.concatenate(weights), rows.labels.inverted_lists(sets))


def _masks(codes: Codes, n_bits: int) -> npt.NDArray[np.int8]:
    """Return a mask by bit and row, 0 for +1 and -1 for -1, for which ``(x ^ mask) - mask`` is x or -x."""
    return np.unpackbits(codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)


def update(
    model: LatentFactorModel, codes: Codes, rows: LabelRows, columns: Columns, workers: Workers, bits: Bits = None
) -> int:
    """Update one modality's codes, padded to whole words, in place by eq. (3) or (5); return the number of flips."""
    first_bit, last_bit = bits or (0, model.n_bits)
    own = codes, codes.view(np.uint64), rows.set_of_row, rows.labels.lists
    n = len(columns.weights)
    more = -n % _VECTOR_COLUMNS if n > _VECTOR_COLUMNS else 0  # columns of weight 0
    padded, weights = np.pad(columns.codes, ((0, more), (0, 0))), np.pad(columns.weights, (0, more))
    others = (by_word(padded), _masks(padded, model.n_bits), weights), columns.lists
    update_block = functools.partial(_kernels.update_rows, *own, *others, model.tables, first_bit, last_bit)
    row_cost = len(columns.weights) * (last_bit - first_bit) / 4
    flips = workers.map_blocks(update_block, len(rows), workers.even_block(len(rows), row_cost))
    return sum(int(block) for block in flips)


def update_shared(model: LatentFactorModel, codes: Codes, rows: LabelRows, bits: Bits = None) -> int:
    """Update the code shared by all modalities in place, row by row, against all other rows."""
    own = codes, codes.view(np.uint64), rows.set_of_row, rows.weights, rows.labels.lists
    others = by_word(codes), _masks(codes, model.n_bits), rows.labels.inverted_lists(rows.set_of_row)
    flips: int = _kernels.update_shared_rows(*own, *others, model.tables, *(bits or (0, model.n_bits)))
    return flips
