"""Algorithm 1 of section 3.2: alternate between the modalities until no bit changes, or for T iterations.

Full DLFH updates codes by eq. (3) and (4) and converges (Theorem 1: no update decreases the likelihood, which is at
most 0); stochastic DLFH, section 3.2.3, by eq. (5) and (6).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dlfh._arrays import Codes, Integers
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.codes import n_bytes, pad_to_words, random_codes

if TYPE_CHECKING:
    from dlfh._factorization.label_rows import LabelRows
    from dlfh._factorization.observed_pairs import ObservedPairs

#: Weight of a pair of points, by their two modalities (modalities, modalities); None for weights of 1.
PairWeights = Integers | None


@dataclass(frozen=True)
class Sample:
    """Number of points sampled from each other modality for an update (the paper's m), and their generator."""

    size: int
    rng: np.random.Generator


def other_modalities(modality: int, n_codes: int) -> list[int]:
    """Return the modalities that one is updated against: itself if all modalities share one code."""
    return [b for b in range(n_codes) if b != modality] or [0]


def pair_weight(weights: PairWeights, a: int, b: int) -> int:
    """Return the weight of a pair of modalities a and b."""
    return 1 if weights is None else int(weights[a, b])


@dataclass
class Factorization:
    """Learned codes of every row, with statistics of the iterations.

    codes: Packed codes of the rows; a single array if the modalities share one code.
    rows: The points or label sets of the rows.
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

    def targets(self, modality: int) -> Targets:
        """Return the codes to which a modality's hash function is fitted."""
        return Targets(self.codes_of_rows(modality), self.rows.row_of_point, self.n_bits)


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
    max_iter: Number of iterations T; each updates every modality in turn.
    sample_size: Number m of points sampled without replacement from each other modality for each update. None uses all
        points (full DLFH), and stops when an iteration changes no bit.
    early_stopping: Whether the stochastic solver also stops after an iteration that changes no bit.
    track_objective: Whether to compute the log-likelihood before the first and after each iteration.
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
