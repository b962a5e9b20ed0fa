"""What the solver asks of S, whether it comes from labels or pair by pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._parallel import Workers
from dlfh.codes import Codes

__all__ = ["Sample", "Supervision"]

Integers = npt.NDArray[np.int64]


class Supervision(Protocol):
    """Which pairs of rows are similar, and how codes are moved to agree: what `factorize` needs to know.

    Rows are those of the code matrices; ``row_of_point`` says which row a point has.
    """

    @property
    def row_of_point(self) -> Integers:
        """Which row each point has."""

    def __len__(self) -> int: ...

    def similar_share(self, n_modalities: int) -> float:
        """Return the share p of similar pairs among those that count, each as often as it counts."""

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
