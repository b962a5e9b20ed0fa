"""The discrete latent factor model of section 3: the likelihood of S, and codes that maximise it.

Theta_ij = (scale / n_bits) U_i V_j' and S_ij ~ Bernoulli(sigma(Theta_ij)). Codes are learned directly
in {-1, +1}, one bit at a time, by a lower bound of the log-likelihood with a closed-form maximiser.

Three facts make it fast and exact. With V fixed, the rows of U do not interact. Theta takes c + 1
values, so sigma is a table, kept in fixed point: every sum that decides a bit is exact. And points
with one label set and one code stay together for ever, so rows may stand for label sets instead of
points, each weighted by its number of points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._parallel import Workers
from dlfh.codes import Codes, by_word, n_bytes, pad_to_words, random_codes
from dlfh.supervision import LabelSets

__all__ = ["Factorization", "LatentFactorModel", "Rows", "Sample", "Supervision", "factorize", "random_start"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LatentFactorModel:
    """The likelihood of eq. (1), as tables over the Hamming distance of two codes.

    Parameters
    ----------
    n_bits : int
        Code length, the paper's c.
    scale : float
        The paper's lambda.
    """

    n_bits: int
    scale: float

    @property
    def theta(self) -> npt.NDArray[np.float64]:
        """Theta at Hamming distance 0, 1, ..., c."""
        return self.scale / self.n_bits * (self.n_bits - 2 * np.arange(self.n_bits + 1, dtype=np.float64))

    @property
    def sigmoid(self) -> npt.NDArray[np.int32]:
        """sigma(Theta) at each distance, in fixed point, within half a unit."""
        return np.rint(_kernels.ONE * np.exp(-np.logaddexp(0, -self.theta))).astype(np.int32)

    def threshold(self, total_weight: int) -> int:
        """Return how far the sum of residuals must point away from a bit to flip it.

        Eq. (3) divided by lambda / c: the curvature bound m lambda / 4c in fixed point, rounded up and
        with the table's rounding (half a unit per column) on top. A flip is then one that eq. (3) makes
        in exact arithmetic too, so the full solver is monotone whatever the rounding.
        """
        return int(np.ceil(total_weight * self.unit_threshold)) + (total_weight + 1) // 2

    @property
    def unit_threshold(self) -> float:
        """The curvature bound for a single column: lambda / 4c in fixed point."""
        # Residuals are less than 1: from 4 on nothing flips, whatever the scale.
        return min(self.scale / (4 * self.n_bits), 4.0) * _kernels.ONE

    def log_likelihood(self, pair_counts: Integers) -> float:
        """Return eq. (1) from the counts of dissimilar and similar pairs at each distance."""
        log_dissimilar = -np.logaddexp(0, self.theta)
        log_similar = -np.logaddexp(0, -self.theta)
        return float(pair_counts[0] @ log_dissimilar + pair_counts[1] @ log_similar)


class Supervision(Protocol):
    """Which pairs of rows are similar, and how codes are moved to agree: what `factorize` needs to know.

    Rows are those of the code matrices; ``row_of_point`` says which row a point has.
    """

    @property
    def row_of_point(self) -> Integers:
        """Which row each point has."""

    def __len__(self) -> int: ...

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        """Update one modality's codes in place against the others', all or sampled; return the flips."""

    def count_pairs(
        self, model: LatentFactorModel, modalities: tuple[int, int], codes: list[Codes], workers: Workers
    ) -> Integers:
        """Count the observed pairs of two modalities' points by (similar or not, Hamming distance)."""


@dataclass(frozen=True)
class Sample:
    """How many points of each other modality an update looks at, and what draws them."""

    size: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Rows:
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
    def of_points(cls, labels: LabelSets, **options: Any) -> Rows:
        """Let every point be a row of its own."""
        n = labels.n_points
        return cls(labels, np.arange(n), labels.set_of_point, np.ones(n, np.int64), **options)

    @classmethod
    def of_label_sets(cls, labels: LabelSets, **options: Any) -> Rows:
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
        candidates = self._in_order(modality)
        places = sample.rng.choice(len(candidates), min(sample.size, len(candidates)), replace=False)
        return np.unique(candidates[places], return_counts=True)

    def _in_order(self, modality: int) -> Integers:
        """Return the rows of the points that have a modality, in the order of label sets.

        Points are drawn by their place in it. The same draw then means the same label sets whether rows are
        points or label sets, and whatever order the points came in.
        """
        order = self._order
        return self.row_of_point[order if self.present is None else order[self.present[modality][order]]]

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


@dataclass(frozen=True)
class Columns:
    """Rows of one modality (or several) that the rows of another are updated against."""

    codes: Codes
    weights: npt.NDArray[np.int32] | Integers
    list_starts: Integers
    list_members: npt.NDArray[np.int32]

    @classmethod
    def gather(cls, rows: Rows, chosen: list[Integers], weights: list[Integers], codes: list[Codes]) -> Columns:
        """Take rows ``chosen[b]`` of modality b, for each other modality b."""
        sets = rows.set_of_row[np.concatenate(chosen)]
        labels = rows.labels
        lists = _kernels.invert_lists(labels.starts, labels.labels, sets, labels.n_labels)
        weight = np.concatenate(weights)
        if np.all(weight == 1):
            weight = weight.astype(np.int32)  # the kernel's faster arithmetic
        gathered = np.concatenate([code[index] for code, index in zip(codes, chosen, strict=True)])
        return cls(gathered, weight, *lists)


def _masks(codes: Codes, n_bits: int) -> npt.NDArray[np.int8]:
    """Return, by bit and row, 0 for +1 and -1 for -1: x ^ mask - mask is x or -x."""
    return np.unpackbits(codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)


def update(
    model: LatentFactorModel,
    codes: Codes,
    rows: Rows,
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
    sigmoid, threshold = model.sigmoid, model.threshold(int(columns.weights.sum()))

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
                sigmoid,
                threshold,
                first_bit,
                last_bit,
                start,
                stop,
            )
        )

    row_cost = len(columns.weights) * (last_bit - first_bit) / 4
    return sum(workers.map_blocks(update_block, len(rows), workers.even_block(len(rows), row_cost)))


def update_shared(model: LatentFactorModel, codes: Codes, rows: Rows, bits: tuple[int, int] | None = None) -> int:
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
        model.sigmoid,
        model.unit_threshold,
        first_bit,
        last_bit,
    )
    return flips


def log_likelihood(model: LatentFactorModel, codes: list[Codes], rows: Supervision, workers: Workers) -> float:
    """Return eq. (1), summed over the pairs of modalities, exact but for one final rounding."""
    pairs = [(a, b) for a in range(len(codes)) for b in range(a + 1, len(codes))] or [(0, 0)]
    return sum(model.log_likelihood(rows.count_pairs(model, pair, codes, workers)) for pair in pairs)


def _count_pairs(
    model: LatentFactorModel, codes: Codes, rows: Rows, row_weights: Integers, columns: Columns, workers: Workers
) -> Integers:
    words, column_words = codes.view(np.uint64), by_word(columns.codes)
    weights = columns.weights.astype(np.int64)

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


@dataclass
class Factorization:
    """Learned codes of every row, and how the learning went.

    Attributes
    ----------
    codes : list of ndarray of uint8, one per modality
        Packed codes of the rows; a single array where the modalities share one code.
    rows : Rows, or other supervision
        What the rows stand for.
    flips : list of int
        How many bits each iteration changed.
    objective : list of float
        The log-likelihood at the start and after each iteration, when asked for.
    """

    codes: list[Codes]
    rows: Supervision
    flips: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)

    def codes_of_points(self, modality: int) -> Codes:
        """Return the packed codes of every point."""
        return self.codes_of_rows(modality)[self.rows.row_of_point]

    def codes_of_rows(self, modality: int) -> Codes:
        """Return the packed codes of every row."""
        return self.codes[modality if len(self.codes) > 1 else 0]


def factorize(
    model: LatentFactorModel,
    rows: Supervision,
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
    """Learn codes by Algorithm 1, from given ones.

    Parameters
    ----------
    model, rows
        The likelihood, and what the rows of the codes stand for.
    initial : list of ndarray of uint8, one per modality
        Packed codes of the rows to start from; left as they are. With a single array, the modalities
        share one code, U = V.
    max_iter : int
        Number of iterations T; each updates every modality in turn.
    sample_size : int or None
        Number m of points sampled, without replacement, from each other modality for each update;
        None takes all of them (full DLFH), and stops when an iteration changes nothing.
    early_stopping : bool
        Stop the stochastic solver, too, after an iteration that changes nothing.
    track_objective : bool
        Compute the log-likelihood before the first and after each iteration.
    """
    result = Factorization([pad_to_words(code) for code in initial], rows)
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
    """Return independent uniformly random codes for every row, ``n_codes`` times."""
    return [random_codes(rng, n_rows, n_bits) for _ in range(n_codes)]
