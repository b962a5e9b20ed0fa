"""SCM: semantic correlation maximization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dlfh._arrays import Floats
from dlfh._mathematics.centred import CentredBlocks, centre
from dlfh._mathematics.correlation import NO_CORRELATION, CanonicalDirections, Whitening, canonical_directions, top_pair
from dlfh._parallel import blas_threads
from dlfh._progress import progress
from dlfh.blocks.base import Blocks
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative


@dataclass(eq=False, repr=False, kw_only=True)
class SCM(Method):
    """Semantic correlation maximization (Zhang and Li, AAAI 2014).

    Minimises ``|sgn(X Wx) sgn(Y Wy)' - c S|^2`` for the semantic similarity S = 2 L L' - 1, where L is the label matrix
    with rows of length 1. Relaxed to real numbers under Wx'X'X Wx = Wy'Y'Y Wy = n I, this maximises tr(Wx' X'SY Wy), a
    canonical correlation problem. S (n x n) is never formed: X'SY = 2 (X'L)(Y'L)' for centred X and Y.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    variant : {"sequential", "orthogonal"}, default "sequential"
        Learn bits one by one, each from the residual of S, so that directions may repeat; or all at once, all distinct.
    ridge : float, default 1e-6
        Added to the diagonals of X'X and Y'Y.

    Notes
    -----
    Like the authors' code, the sequential variant ends when a bit explains more than its predecessor; the remaining
    bits are canonical directions of the pairs, learned without labels, the strongest last. The orthogonal variant has
    at most min(dx, dy, labels) informative bits. Bits without a direction are constant; the authors' code fills them
    with noise. The method is deterministic. Data in blocks is read once, and once more per sequential bit, so prefer
    the orthogonal variant there.
    """

    kind = "SCM"
    info = MethodInfo(
        title="Semantic correlation maximization",
        paper="Zhang and Li, AAAI 2014",
        supervised=True,
        discrete=False,
        protocols=("hashed",),
        complexity="n d² + c (d³ + n d)",
        surplus_bits="constant",
        is_deterministic=True,
        takes_blocks=True,
    )

    variant: Literal["sequential", "orthogonal"] = "sequential"
    ridge: NonNegative = 1e-6
    random_state: None = field(default=None, init=False)  # deterministic

    def _fit(self, features: dict[str, Blocks], labels: Any) -> None:
        n_bits = int(self.n_bits)
        L = self._unit_label_rows(labels, features)
        x, y = centre(features, L)
        semantic = 2 * n_bits * x.transposed_times(L) @ y.transposed_times(L).T
        whitening = Whitening(x.gram, self.ridge), Whitening(y.gram, self.ridge)
        if self.variant == "orthogonal":
            chosen = canonical_directions(*whitening, semantic / x.n_points / n_bits).first(n_bits)
        else:
            with blas_threads(1), progress(self.verbose) as bar:
                chosen = _sequential(x, y, whitening, semantic, n_bits, bar)
        # Directions have unit length under X'X; this scale gives them unit variance.
        scale = np.sqrt(x.n_points)
        weights = [scale * chosen.x, scale * chosen.y]
        self._hash_linearly(features, [x, y], weights, ridges=[white.ridge for white in whitening])


def _sequential(
    x: CentredBlocks, y: CentredBlocks, whitening: tuple[Whitening, Whitening], cross: Floats, n_bits: int, bar: Any
) -> CanonicalDirections:
    """Learn one bit at a time, each from the residual of ``cross``."""
    advance = bar.counter("bits", n_bits)
    residual = whitening[1].whiten(whitening[0].whiten(cross).T).T
    Wx, Wy, strength = np.zeros((x.n_features, n_bits)), np.zeros((y.n_features, n_bits)), np.zeros(n_bits)
    for bit in range(n_bits):
        u, v, rho = top_pair(residual)
        # Singular values of this matrix are n c times the correlations of the points.
        if rho <= NO_CORRELATION * x.n_points * n_bits or (bit > 0 and rho > strength[bit - 1]):
            plain = canonical_directions(*whitening, x.cross(y)).first(n_bits)
            Wx[:, bit:], Wy[:, bit:] = plain.x[:, ::-1][:, bit:], plain.y[:, ::-1][:, bit:]
            break
        Wx[:, bit], Wy[:, bit] = whitening[0].directions(u), whitening[1].directions(v)
        strength[bit] = rho
        a, b = (view.products_with_signs(W[:, bit : bit + 1]) for view, W in ((x, Wx), (y, Wy)))
        residual -= np.outer(whitening[0].whiten(a), whitening[1].whiten(b))
        advance(1)
    return CanonicalDirections(Wx, Wy, strength)
