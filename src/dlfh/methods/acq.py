"""ACQ: alternating co-quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.centred import Centred
from dlfh._mathematics.rotation import closest_rotation, random_rotation, signs
from dlfh._parallel import Workers
from dlfh._validation import Features, check_integer, check_positive, check_random_state
from dlfh.errors import InputError
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.cca_itq import correlated_embeddings
from dlfh.methods.info import MethodInfo

__all__ = ["ACQ"]

Floats = npt.NDArray[np.float64]


class ACQ(CrossModalHasher):
    """Alternating co-quantization (Irie, Arai and Taniguchi, ICCV 2015).

    As CCA-ITQ, but with a rotation for each modality. Px and Py are the points in canonical directions;

        ``J = |Bx - Px Rx|^2 + |By - Py Ry|^2 + coupling (|By - Px Rx|^2 + |Bx - Py Ry|^2)``

    is minimised over codes Bx, By and rotations Rx, Ry in turn. Each step is exact, so J never rises.

    Parameters
    ----------
    n_bits : int, default 64
    coupling : float, default 1
        How much a modality's rotation follows the other's codes, 0 to 1. With 1, Bx and By are one (hashed codes,
        which see one modality, still differ); with 0 the rotations are independent, and the modalities lose each
        other.
    ridge : float, default 1e-4
        Added to the variances in CCA.
    max_iter : int, default 50
    random_state : int, numpy Generator or None
        Seed of the rotations' start, the same for both: other starts would undo the alignment by CCA.
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    objective_ : ndarray of float64 (max_iter + 1,)
        J at the start and after each iteration.

    Notes
    -----
    No code of the authors was found. The objective is a reconstruction from the paper's idea, and the
    coupling weight is ours. It learns from pairs alone.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> model = ACQ(n_bits=16, random_state=0).fit(data.modalities)
    >>> model.encode_unified(data.modalities).shape
    (300, 2)
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

    objective_: Floats

    def __init__(
        self,
        n_bits: int = 64,
        *,
        coupling: float = 1.0,
        ridge: float = 1e-4,
        max_iter: int = 50,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.coupling = coupling
        self.ridge = ridge
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        if check_positive(self.coupling, "coupling", allow_zero=True) > 1:
            raise InputError(f"coupling must be a number from 0 to 1, got {self.coupling!r}")
        check_positive(self.ridge, "ridge", allow_zero=True)
        check_integer(self.max_iter, "max_iter", 0)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        centred = [Centred(matrix, name) for name, matrix in features.items()]
        weights = correlated_embeddings(centred[0], centred[1], int(self.n_bits), float(self.ridge))
        embedded = [each.times(A) for each, A in zip(centred, weights, strict=True)]
        start = random_rotation(int(self.n_bits), check_random_state(self.random_state))
        rotations, self.objective_ = co_quantize(embedded, start, float(self.coupling), int(self.max_iter))
        self.hash_functions_ = {
            each.modality: LinearHash.of_centred(each, A @ R, ridge=float(self.ridge))
            for each, A, R in zip(centred, weights, rotations, strict=True)
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)

    def _unify(self, features: dict[str, Features]) -> npt.NDArray[Any]:
        first, second = (self.project(name, features[name]) for name in self.modalities_)
        return first + second


def co_quantize(
    points: list[Floats], start: Floats, coupling: float, max_iter: int
) -> tuple[tuple[Floats, Floats], Floats]:
    """Return a rotation for each of two sets of points, and J at the start and after each iteration."""
    rotations = [start, start]
    rotated = [each @ start for each in points]

    def codes(own: int) -> Floats:
        return signs(rotated[own] + coupling * rotated[1 - own])

    def objective() -> float:
        B = codes(0), codes(1)
        own = sum(float(np.sum((b - r) ** 2)) for b, r in zip(B, rotated, strict=True))
        other = sum(float(np.sum((b - r) ** 2)) for b, r in zip(reversed(B), rotated, strict=True))
        return own + coupling * other

    history = [objective()]
    for _ in range(max_iter):
        for own in (0, 1):
            rotations[own] = closest_rotation(points[own].T @ (codes(own) + coupling * codes(1 - own)))
            rotated[own] = points[own] @ rotations[own]
        history.append(objective())
    return (rotations[0], rotations[1]), np.array(history)
