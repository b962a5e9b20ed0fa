"""The discrete latent factor model of section 3: the likelihood of S, and codes that maximise it.

Theta_ij = (scale / n_bits) U_i V_j' and S_ij ~ Bernoulli(sigma(Theta_ij)). Codes are learned directly
in {-1, +1}, one bit at a time, by a lower bound of the log-likelihood with a closed-form maximiser.

Three facts make it fast and exact. With V fixed, the rows of U do not interact. Theta takes c + 1
values, so sigma is a table, kept in fixed point: every sum that decides a bit is exact. And points
with one label set and one code stay together for ever, so rows may stand for label sets instead of
points, each weighted by its number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._parallel import Workers
from dlfh.codes import Codes, by_word, n_bytes, pad_to_words, random_codes
from dlfh.supervision import LabelSets

__all__ = ["Factorization", "LatentFactorModel", "Rows", "factorize", "random_start"]

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


@dataclass(frozen=True)
class Rows:
    """What the rows of the code matrices stand for: points, or label sets weighted by their points."""

    labels: LabelSets
    row_of_point: Integers
    set_of_row: Integers
    weights: Integers

    @classmethod
    def of_points(cls, labels: LabelSets) -> Rows:
        """Let every point be a row of its own."""
        n = labels.n_points
        return cls(labels, np.arange(n), labels.set_of_point, np.ones(n, np.int64))

    @classmethod
    def of_label_sets(cls, labels: LabelSets) -> Rows:
        """Let every distinct label set be a row, weighted by its points."""
        return cls(labels, labels.set_of_point, np.arange(labels.n_sets), labels.counts)

    def __len__(self) -> int:
        return len(self.set_of_row)


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


def log_likelihood(model: LatentFactorModel, codes: list[Codes], rows: Rows, workers: Workers) -> float:
    """Return eq. (1), summed over the pairs of modalities, exact but for one final rounding."""
    everything = np.arange(len(rows))
    pairs = [(a, b) for a in range(len(codes)) for b in range(a + 1, len(codes))] or [(0, 0)]
    total = 0.0
    for a, b in pairs:
        columns = Columns.gather(rows, [everything], [rows.weights], [codes[b]])
        total += model.log_likelihood(_count_pairs(model, codes[a], rows, columns, workers))
    return total


def _count_pairs(model: LatentFactorModel, codes: Codes, rows: Rows, columns: Columns, workers: Workers) -> Integers:
    words, column_words = codes.view(np.uint64), by_word(columns.codes)
    weights = columns.weights.astype(np.int64)

    def count_block(start: int, stop: int) -> Integers:
        counts: Integers = _kernels.count_pairs(
            words,
            rows.set_of_row,
            rows.weights,
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
    rows : Rows
        What the rows stand for.
    flips : list of int
        How many bits each iteration changed.
    objective : list of float
        The log-likelihood at the start and after each iteration, when asked for.
    """

    codes: list[Codes]
    rows: Rows
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
    rows: Rows,
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
    choose = _all_columns(rows) if sample_size is None else _sampled_columns(rows, sample_size, rng)
    if track_objective:
        result.objective.append(log_likelihood(model, codes, rows, workers))
    for _ in range(max_iter):
        flips = 0
        for a, code in enumerate(codes):
            if len(codes) == 1 and sample_size is None:
                flips += update_shared(model, code, rows)
                continue
            others = [other for b, other in enumerate(codes) if b != a] or codes
            chosen, weights = zip(*(next(choose) for _ in others), strict=True)
            columns = Columns.gather(rows, list(chosen), list(weights), others)
            flips += update(model, code, rows, columns, workers)
        result.flips.append(flips)
        if track_objective:
            result.objective.append(log_likelihood(model, codes, rows, workers))
        on_iteration()
        if flips == 0 and (sample_size is None or early_stopping):
            break
    width = n_bytes(model.n_bits)
    result.codes = [np.ascontiguousarray(code[:, :width]) for code in codes]
    return result


def _all_columns(rows: Rows) -> Iterator[tuple[Integers, Integers]]:
    while True:
        yield np.arange(len(rows)), rows.weights


def _sampled_columns(rows: Rows, sample_size: int, rng: np.random.Generator) -> Iterator[tuple[Integers, Integers]]:
    # Points are drawn by their place in the order of label sets. The same draw then means the same
    # label sets whether rows are points or label sets, and whatever order the points came in.
    row_in_order = rows.row_of_point[np.argsort(rows.labels.set_of_point, kind="stable")]
    while True:
        places = rng.choice(len(row_in_order), sample_size, replace=False)
        yield np.unique(row_in_order[places], return_counts=True)


def random_start(rows: Rows, n_codes: int, n_bits: int, rng: np.random.Generator) -> list[Codes]:
    """Return independent uniformly random codes for every row, ``n_codes`` times."""
    return [random_codes(rng, len(rows), n_bits) for _ in range(n_codes)]
