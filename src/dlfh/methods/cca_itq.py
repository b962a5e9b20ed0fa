"""CCA-ITQ: canonical correlation analysis and iterative quantization."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.centred_blocks import CentredView, centred_views
from dlfh._mathematics.correlation import Whitening, canonical_directions
from dlfh._mathematics.rotation import iterative_quantization, random_rotation
from dlfh._parallel import Workers
from dlfh._validation import Features, check_choice, check_integer, check_positive, check_random_state
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

__all__ = ["CCAITQ", "correlated_embeddings"]

Floats = npt.NDArray[np.float64]

#: Bytes of a modality's embedded points that are kept in this process; more are projected again in each step.
_MOST_KEPT = 256 << 20


class CCAITQ(CrossModalHasher):
    """Canonical correlation analysis, then iterative quantization (Gong et al., PAMI 2013).

    CCA finds directions Ax and Ay in which the two modalities correlate, each scaled by its correlation.
    Then a rotation R, one for both modalities, brings the points close to their own signs: minimise
    ``|B - E R|^2`` over codes B and rotations R in turn, which never raises it.

    Parameters
    ----------
    n_bits : int, default 64
    rotation : {"both", "first"}, default "both"
        Learn R from the points of both modalities, or of the first alone as Gong's own code does.
    ridge : float, default 1e-4
        Added to the variances. It is absolute, so the scale of the features matters.
    max_iter : int, default 51
        Steps of the rotation.
    random_state : int, numpy Generator or None
        Seed of the rotation's start.
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    quantization_error_ : ndarray of float64 (max_iter + 1,)
        ``|B - E R|^2`` before each step and at the end.

    Notes
    -----
    It learns from pairs alone. The original takes labels for the second view and hashes the first; that the
    paper's baseline takes the other modality instead, and one rotation for both, is the usual reading.
    There are at most min(dx, dy) directions; with more bits than these the rotation spreads them over all.
    By blocks, features are read twice: for the sums, and for the points that are rotated, 8 bytes a bit, which stay in
    the memory of a cluster's workers. In this process they stay up to 256 MB of a modality; beyond that, features are
    read again in each step.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> CCAITQ(n_bits=16, random_state=0).fit(data.modalities).codes_["text"].shape
    (300, 2)
    """

    kind = "CCAITQ"
    info = MethodInfo(
        title="Canonical correlation analysis with iterative quantization",
        paper="Gong, Lazebnik, Gordo and Perronnin, IEEE PAMI 2013",
        supervised=False,
        discrete=False,
        protocols=("hashed",),
        complexity="n d² + d³ + T n c²",
        surplus_bits="spread",
        takes_blocks=True,
    )
    _saved_arrays = ("quantization_error_",)

    quantization_error_: Floats

    def __init__(
        self,
        n_bits: int = 64,
        *,
        rotation: Literal["both", "first"] = "both",
        ridge: float = 1e-4,
        max_iter: int = 51,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.rotation = rotation
        self.ridge = ridge
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.rotation, "rotation", ("both", "first"))
        check_positive(self.ridge, "ridge", allow_zero=True)
        check_integer(self.max_iter, "max_iter", 0)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        centred = centred_views(features, crosses=True)
        weights = correlated_embeddings(centred[0], centred[1], int(self.n_bits), float(self.ridge))
        n_used = 1 if self.rotation == "first" else 2
        embedded = [each.times(A) for each, A in zip(centred[:n_used], weights, strict=False)]
        start = random_rotation(int(self.n_bits), check_random_state(self.random_state))
        R, self.quantization_error_ = iterative_quantization(_together(embedded), start, int(self.max_iter))
        self.hash_functions_ = {
            each.modality: LinearHash.of_centred(each, A @ R, ridge=float(self.ridge))
            for each, A in zip(centred, weights, strict=True)
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)


def _together(embedded: list[Any]) -> Any:
    """Return the points to rotate: all in one array; or in blocks, projected once where there is room for them."""
    if isinstance(embedded[0], np.ndarray):
        return np.concatenate(embedded)
    return [own if own.is_here and 8 * math.prod(own.shape) > _MOST_KEPT else own.kept() for own in embedded]


def correlated_embeddings(x: CentredView, y: CentredView, n_bits: int, ridge: float) -> tuple[Floats, Floats]:
    """Return canonical directions scaled by their correlations, zeros beyond the last that correlates."""
    degrees = max(x.n_points - 1, 1)
    whitening = Whitening(x.gram / degrees, ridge), Whitening(y.gram / degrees, ridge)
    chosen = canonical_directions(*whitening, x.cross(y) / degrees).first(n_bits)
    return chosen.x * chosen.correlations, chosen.y * chosen.correlations
