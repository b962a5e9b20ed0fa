"""ACQ: alternating co-quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlfh._arrays import Array, Floats
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.rotation import closest_rotation, random_rotation, signs
from dlfh._validation import Features, check_random_state
from dlfh.errors import InputError
from dlfh.methods.ccaitq import correlated_embeddings
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, NonNegativeInt


@dataclass(eq=False, repr=False, kw_only=True)
class ACQ(Method):
    """Alternating co-quantization (Irie, Arai and Taniguchi, ICCV 2015).

    Like CCA-ITQ, but with one rotation per modality. Given points Px and Py in canonical directions, it minimises

        ``J = |Bx - Px Rx|^2 + |By - Py Ry|^2 + coupling (|By - Px Rx|^2 + |Bx - Py Ry|^2)``

    alternately over the codes Bx, By and the rotations Rx, Ry. Each step is exact, so J never increases.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    coupling : float, default 1
        Weight of the other modality's codes, from 0 to 1. With 1 the training codes Bx and By are equal (hashed codes,
        computed from one modality, still differ). With 0 the rotations are independent, and codes are not aligned.
    ridge : float, default 1e-4
        Added to the variances in CCA.
    max_iter : int, default 50
    random_state : int, numpy Generator or None
        Seed of the initial rotation. Both modalities share it, because different rotations would undo CCA's alignment.

    Attributes
    ----------
    objective_ : ndarray of float64 (max_iter + 1,)
        J at the start and after each iteration.

    Notes
    -----
    The authors' code was not found. The objective is reconstructed from the paper, and the coupling weight is our
    addition. The method learns from pairs and ignores labels.
    """

    kind = "ACQ"
    info = MethodInfo(
        title="Alternating co-quantization",
        paper="Irie, Arai and Taniguchi, ICCV 2015",
        supervised=False,
        discrete=True,
        protocols=("hashed", "unified"),
        complexity="n d² + d³ + T n c²",
        surplus_bits="spread",
    )
    _saved_arrays = ("objective_",)

    coupling: NonNegative = 1.0
    ridge: NonNegative = 1e-4
    max_iter: NonNegativeInt = 50

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.coupling > 1:
            raise InputError(f"coupling must be a number from 0 to 1, got {self.coupling!r}")

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        ridge = float(self.ridge)
        views = [Centred(matrix, name) for name, matrix in features.items()]
        directions = correlated_embeddings(views[0], views[1], int(self.n_bits), ridge)
        P = [view.times(A) for view, A in zip(views, directions, strict=True)]
        start = random_rotation(int(self.n_bits), check_random_state(self.random_state))
        rotations, self.objective_ = co_quantize(P, start, float(self.coupling), int(self.max_iter))
        weights = [A @ R for A, R in zip(directions, rotations, strict=True)]
        self._hash_linearly(features, views, weights, ridges=[ridge, ridge])

    def _unify(self, features: dict[str, Features]) -> Array:
        first, second = (self.project(name, features[name]) for name in self.modalities_)
        return first + second


def co_quantize(P: list[Floats], start: Floats, coupling: float, max_iter: int) -> tuple[list[Floats], Floats]:
    """Return a rotation for each of two sets of points, and J at the start and after each iteration."""
    R = [start, start]
    rotated = [points @ start for points in P]

    def codes(m: int) -> Floats:
        return signs(rotated[m] + coupling * rotated[1 - m])

    def objective() -> float:
        B = codes(0), codes(1)
        within = sum(float(np.sum((b - r) ** 2)) for b, r in zip(B, rotated, strict=True))
        across = sum(float(np.sum((b - r) ** 2)) for b, r in zip(reversed(B), rotated, strict=True))
        return within + coupling * across

    history = [objective()]
    for _ in range(max_iter):
        for m in (0, 1):
            R[m] = closest_rotation(P[m].T @ (codes(m) + coupling * codes(1 - m)))
            rotated[m] = P[m] @ R[m]
        history.append(objective())
    return R, np.array(history)
