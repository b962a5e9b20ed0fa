"""CCA-ITQ: canonical correlation analysis, then iterative quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from dlfh._arrays import Floats
from dlfh._mathematics.centred import Centred, CentredBlocks, centre
from dlfh._mathematics.correlation import Whitening, canonical_directions, principal_directions
from dlfh._mathematics.rotation import iterative_quantization, random_rotation
from dlfh._validation import check_random_state
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, NonNegativeInt

View = TypeVar("View", Centred, CentredBlocks)  #: Centred features, in memory or in blocks.
#: Maximum bytes of embedded points per modality that this process keeps; otherwise they are recomputed in each step.
_MAX_KEPT = 256 << 20


@dataclass(eq=False, repr=False, kw_only=True)
class CCAITQ(Method):
    """Canonical correlation analysis, then iterative quantization (Gong et al., PAMI 2013).

    CCA finds directions in which the two modalities correlate and scales each by its correlation. A rotation R, shared
    by both modalities, then brings the embedded points E close to their signs by minimising ``|B - E R|^2`` alternately
    over the codes B and R; no step increases it.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    rotation : {"both", "first"}, default "both"
        Learn R from the points of both modalities, or only of the first, as Gong's code does.
    ridge : float, default 1e-4
        Added to the variances; its effect depends on the scale of the features.
    max_iter : int, default 51
        Number of rotation steps.
    random_state : int, numpy Generator or None
        Seed of the initial rotation.

    Attributes
    ----------
    quantization_error_ : ndarray of float64 (max_iter + 1,)
        ``|B - E R|^2`` before each step and at the end.

    Notes
    -----
    The method learns from pairs and ignores labels. The original uses labels as the second view and hashes the first.
    As a cross-modal baseline it is usually understood to use the other modality instead, and one rotation for both.
    CCA has at most min(dx, dy) directions; with more bits, the rotation spreads them over all bits. A single modality
    is embedded by its principal components instead: PCA-ITQ, of the same paper.

    Data in blocks is read twice: for the sums, and for the embedded points (8 bytes per bit), which stay in the memory
    of a cluster's workers. A single process keeps at most 256 MB per modality and recomputes larger ones in each step.
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
        n_modalities=(1, 2),
        takes_blocks=True,
    )
    _saved_arrays = ("quantization_error_",)

    rotation: Literal["both", "first"] = "both"
    ridge: NonNegative = 1e-4
    max_iter: NonNegativeInt = 51

    quantization_error_: Floats = field(init=False)

    def _fit(self, features: dict[str, Blocks], labels: Any) -> None:
        ridge = float(self.ridge)
        views = centre(features, crosses=True)
        if len(views) == 1:
            directions: Sequence[Floats] = [principal_directions(views[0].gram, int(self.n_bits))]
        else:
            directions = correlated_embeddings(views[0], views[1], int(self.n_bits), ridge)
        n_used = 1 if self.rotation == "first" else len(views)
        embedded: list[Blocks] = [view.times(A) for view, A in zip(views[:n_used], directions, strict=False)]
        start = random_rotation(int(self.n_bits), check_random_state(self.random_state))
        if all(E.n_blocks == 1 and E.is_local for E in embedded):
            embedded = [ArrayBlocks(np.concatenate([np.asarray(E) for E in embedded]), None, "embedded points")]
        else:
            embedded = [E if E.is_local and 8 * math.prod(E.shape) > _MAX_KEPT else E.cached() for E in embedded]
        R, self.quantization_error_ = iterative_quantization(embedded, start, int(self.max_iter))
        self._hash_linearly(features, views, [A @ R for A in directions], ridges=[ridge] * len(views))


def correlated_embeddings(x: View, y: View, n_bits: int, ridge: float) -> tuple[Floats, Floats]:
    """Return canonical directions scaled by their correlations, padded with zeros to ``n_bits``."""
    degrees = max(x.n_points - 1, 1)
    whitening = Whitening(x.gram / degrees, ridge), Whitening(y.gram / degrees, ridge)
    chosen = canonical_directions(*whitening, x.cross(y) / degrees).first(n_bits)
    return chosen.x * chosen.correlations, chosen.y * chosen.correlations
