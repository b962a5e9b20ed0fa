"""LEMON: label embedding online hashing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dlfh._arrays import Floats
from dlfh._factorization.solver import LabelRows
from dlfh._mathematics.ridge import solve_ridge
from dlfh._mathematics.rotation import closest_rotation, random_rotation, uncorrelated
from dlfh._parallel import Workers
from dlfh.methods.method import MethodInfo
from dlfh.methods.online import OnlineHasher, Stream
from dlfh.methods.parameter_types import Positive, PositiveInt, RidgeOrAuto


@dataclass(eq=False, repr=False, kw_only=True)
class LEMON(OnlineHasher):
    """Label embedding online hashing (Wang, Luo and Xu, ACM MM 2020).

    Data arrives in chunks, and learned codes never change. The codes B of a new chunk, shared by all modalities, and
    their real-valued counterparts V minimise, over all old and new points a,

        ``alpha |c S_aa - B_a V_a'|^2 + beta (|L_a - V_a P|^2 + gamma |P|^2) + |B_a - V_a R|^2``,
        ``V'V = n I, V'1 = 0 in each chunk, R'R = I``,

    alternately over P, V, R and B, where L is the label matrix and S = 2 G G' - 1 are the similarities, with G = L
    scaled to rows of length 1. Each step is exact, so the objective never increases within a chunk. Old points enter
    through sums. Only the hash functions use features; they are ridge regressions on all points so far.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    alpha, beta : float, default 1e4
        Weights of the similarities and of the labels.
    gamma : float, default 0.1
    max_iter : int, default 5
        Number of rounds per chunk.
    chunk_size, init, fit_intercept : as for `DOCH`
    ridge : float or "auto", default 1
        Ridge of the hash functions, the authors' xi; its effect depends on the scale of the features. "auto" as for
        `LinearRidge`.

    Attributes
    ----------
    stream_ : Stream
        Sums over all chunks. `save` stores them, so that `partial_fit` can continue after `load`.

    Notes
    -----
    Defaults follow the authors' code, except that `fit` learns from one chunk; `LEMON.paper` uses their chunk size.
    Their code computes V from eigenvectors of a Gram matrix, which leaves its columns correlated; here V comes from an
    SVD. Constants in S have no effect on a balanced V and are omitted. A label that first appears in a later chunk does
    not change earlier results. The order of the chunks matters, because old codes do not change.
    """

    kind = "LEMON"
    info = MethodInfo(
        title="Label embedding online hashing",
        paper="Wang, Luo and Xu, ACM MM 2020",
        supervised=True,
        discrete=True,
        complexity="T n c² for codes (T g c² for g label sets); n d² for hash functions, d³ for each chunk",
        n_modalities=(2, None),
    )
    _sum_names = ("VV", "LV", "GB", "BV", "GV")

    alpha: Positive = 1e4
    beta: Positive = 1e4
    gamma: Positive = 0.1
    max_iter: PositiveInt = 5
    ridge: RidgeOrAuto = 1.0

    def _learn_chunk(
        self, chunk: LabelRows, past: Stream, rng: np.random.Generator, workers: Workers
    ) -> tuple[Floats, dict[str, Floats]]:
        c = int(self.n_bits)
        B = rng.choice(np.array([-1.0, 1.0]), (len(chunk.weights), c))
        state = EmbeddedChunk(chunk, past, B, rng.standard_normal(B.shape), random_rotation(c, rng), self)
        for _ in range(int(self.max_iter)):
            # Label sets are too few to replace missing directions by random ones.
            state.update(rng if self.init == "random" else None)
        return state.B, state.sums()


class EmbeddedChunk:
    """B, V, P and R of one chunk, and LEMON's updates; the initial V need not satisfy the constraints."""

    def __init__(self, chunk: LabelRows, past: Stream, B: Floats, V: Floats, R: Floats, model: LEMON) -> None:
        self.chunk, self.past, self.model = chunk, past.sums, model
        self.L, self.G = chunk.indicator, chunk.unit_indicator
        self.B, self.V, self.R, self.P = B, V, R, np.empty(0)

    def _sum(self, name: str) -> Floats:
        """Return a sum over old and new points, such as V'V for "VV"."""
        return self.past[name] + self._chunk_sum(name)

    def _chunk_sum(self, name: str) -> Floats:
        left, right = (getattr(self, letter) for letter in name)
        return self.chunk.sums(left, right)

    def sums(self) -> dict[str, Floats]:
        """Return the sums over the chunk."""
        return {name: self._chunk_sum(name) for name in self.past}

    def update(self, rng: np.random.Generator | None) -> None:
        """Update P, V, R and B; ``rng`` draws missing directions of V."""
        similar = 2 * float(self.model.alpha) * self.B.shape[1]
        self.P = solve_ridge(self._sum("VV"), float(self.model.gamma), self._sum("LV").T)
        Z = self.B @ self.R.T + float(self.model.beta) * (self.L @ self.P.T) + similar * (self.G @ self._sum("GB"))
        self.V = uncorrelated(Z, self.chunk.weights.astype(np.float64), rng)
        self.R = closest_rotation(self._sum("BV").T)
        self.B = np.where(similar * (self.G @ self._sum("GV")) + self.V @ self.R >= 0, 1.0, -1.0)
