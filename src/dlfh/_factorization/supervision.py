"""The interface between the solver and S, which comes from labels or from observed pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dlfh._arrays import Codes, Integers
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._parallel import Workers

#: Weight of a pair of points, by their two modalities (modalities, modalities); None for weights of 1.
PairWeights = Integers | None


class Supervision(Protocol):
    """The similarities S of points, and the updates of codes that agree with them.

    A row of the code matrices stands for a point, or for all points with the same labels.
    """

    @property
    def row_of_point(self) -> Integers:
        """The row of each point."""

    def __len__(self) -> int: ...

    def similar_share(self, n_modalities: int) -> float:
        """Return the weighted share p of similar pairs."""

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        """Update one modality's codes in place, by eq. (3) or, with a sample, eq. (5); return the number of flips."""

    def count_pairs(self, n_bits: int, modalities: tuple[int, int], codes: list[Codes], workers: Workers) -> Integers:
        """Count pairs of two modalities' points by (dissimilar or similar, Hamming distance), shape (2, n_bits + 1)."""


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
