"""DOCH: discrete online cross-modal hashing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit

from dlfh import _kernels
from dlfh._arrays import Floats, Integers
from dlfh._factorization.solver import LabelRows
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.methods.method import MethodInfo
from dlfh.methods.online import OnlineHasher, Stream
from dlfh.methods.parameter_types import NonNegative, Positive, PositiveInt

Signs = npt.NDArray[np.int8]
#: The authors' scale by code length, interpolated along the logarithm of the length.
_SCALES = {8: 0.45, 16: 0.35, 32: 0.25, 64: 0.15, 128: 0.10}
_ROWS = 1024  #: Rows that a thread updates at a time.


@dataclass(eq=False, repr=False, kw_only=True)
class DOCH(OnlineHasher):
    """Discrete online cross-modal hashing (Zhan, Wang, Sun, Wu, Luo and Xu, Pattern Recognition 2022).

    Data arrives in chunks, and learned codes never change. The codes B (n x c) of a new chunk, shared by all
    modalities, predict labels L and similarities S (1 if points share a label) to anchors with codes A. They maximise

        ``sum_ij [S_ij Theta_ij - log(1 + exp(Theta_ij))] - theta |L - B P|^2``,  ``Theta = scale B A'``,

    bit by bit, as in DLFH, by a lower bound that is tight at the old bit. Anchors are drawn for every sweep over the
    bits: from the chunk itself if it is the first, otherwise from each earlier chunk. P is the least-squares prediction
    of all labels from all codes so far. Hash functions are least-squares predictions of all codes from all features.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    scale : float or "auto", default "auto"
        How sharply the probability of similarity depends on Hamming distance. "auto" is the authors' value for the code
        length, from .45 for 8 bits to .10 for 128.
    theta : float, default 0.1
        Weight of the label prediction.
    max_iter : int, default 7
        Number of rounds per chunk.
    n_sweeps : int, default 3
        Sweeps over the bits in each round, before P is fitted.
    n_anchors : int, default 50
        Number of anchors, or all points if fewer.
    per_chunk : bool, default True
        Whether to draw ``n_anchors`` from each earlier chunk, like the authors, which makes later chunks more costly;
        otherwise from all earlier points together.
    chunk_size : int, optional
        Number of points that `fit` learns from at a time; the last chunk also takes the remainder. Default: all points.
        (The authors: 2,000.) `partial_fit` learns from the given points at once.
    init : {"random", "labels"}, default "random"
        Start a chunk from one random code per point, like the authors, or per distinct label set. With "labels",
        points with equal labels keep equal codes, and the cost depends on the number of label sets.
    ridge : float or "auto", default 0
        Ridge of the hash functions, at least the rounding error. "auto" as for `LinearRidge`.
    fit_intercept : bool, default False
        Whether hash functions have an intercept. The authors' have none, and do not centre the features.

    Attributes
    ----------
    stream_ : Stream
        Sums and labels of all chunks. `save` stores them, so that `partial_fit` can continue after `load`.

    Notes
    -----
    Defaults follow the authors' code, except that `fit` learns from one chunk; `DOCH.paper` uses their chunk size.
    Their code draws the same positions in all chunks and fails on a shorter one; here each chunk is sampled separately.
    New points are compared with old points only, so several chunks give worse codes than one. A point without labels is
    dissimilar to all anchors.
    """

    kind = "DOCH"
    info = MethodInfo(
        title="Discrete online cross-modal hashing",
        paper="Zhan, Wang, Sun, Wu, Luo and Xu, Pattern Recognition 2022",
        supervised=True,
        discrete=True,
        complexity="T n c (m + c) for codes, m anchors (g label sets in place of n points); n d² for hash functions, "
        "d³ for each chunk",
        n_modalities=(2, None),
    )
    _sum_names = ("BB", "LB")
    _keeps_labels = True

    scale: Positive | Literal["auto"] = "auto"
    theta: NonNegative = 0.1
    max_iter: PositiveInt = 7
    n_sweeps: PositiveInt = 3
    n_anchors: PositiveInt = 50
    per_chunk: bool = True

    def _learn_chunk(
        self, chunk: LabelRows, past: Stream, rng: np.random.Generator, workers: Workers
    ) -> tuple[Floats, dict[str, Floats]]:
        c, L = int(self.n_bits), chunk.indicator
        weights = {"scale": self._scale(), "theta": float(self.theta)}
        B = rng.choice(np.array([-1, 1], np.int8), (len(chunk.weights), c))
        P = rng.standard_normal((c, L.shape[1]))
        sums: dict[str, Floats] = {}
        for _ in range(int(self.max_iter)):
            for _ in range(int(self.n_sweeps)):
                if past.n_points:
                    drawn = self._draw_old(past, rng)
                    anchors = unpack(past.codes[drawn], c), past.point_labels[drawn]
                else:
                    rows = chunk.row_of_point[_draw(len(chunk.row_of_point), int(self.n_anchors), rng)]
                    anchors = B[rows], L[rows]
                sweep(B, P, chunk, anchors, workers, **weights)
            real = B.astype(np.float64)
            sums = {"BB": chunk.sums(real, real), "LB": chunk.sums(L, real)}
            P = _least_squares(past.sums["BB"] + sums["BB"], (past.sums["LB"] + sums["LB"]).T)
        return B.astype(np.float64), sums

    def _scale(self) -> float:
        if self.scale != "auto":
            return float(self.scale)
        return float(np.interp(np.log2(int(self.n_bits)), np.log2([*_SCALES]), [*_SCALES.values()]))

    def _draw_old(self, past: Stream, rng: np.random.Generator) -> Integers:
        if not self.per_chunk:
            return _draw(past.n_points, int(self.n_anchors), rng)
        bounds = zip(past.starts[:-1], past.starts[1:], strict=True)
        return np.concatenate([start + _draw(int(stop - start), int(self.n_anchors), rng) for start, stop in bounds])


def _draw(n: int, size: int, rng: np.random.Generator) -> Integers:
    return rng.choice(n, min(n, size), replace=False)


def _least_squares(gram: Floats, right: Floats) -> Floats:
    """Return pinv(gram) @ right; ``gram`` is singular if codes repeat or if there are fewer codes than bits."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > len(values) * np.finfo(np.float64).eps * values[-1]
    return vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep, None])


Anchors = tuple[Signs, sp.csr_array]


def sweep(
    B: Signs, P: Floats, chunk: LabelRows, anchors: Anchors, workers: Workers, *, scale: float, theta: float
) -> None:
    """Update all bits of all rows of B in place, against the codes and labels of anchors."""
    c = B.shape[1]
    codes, similar = np.ascontiguousarray(anchors[0].T), (chunk.labels.rows() @ anchors[1].T).toarray() > 0
    # Theta is the scale times an integer, so sigma takes 2 c + 1 values.
    sigmas = np.rint(_kernels.ONE * expit(scale * np.arange(-c, c + 1))).astype(np.int32)
    likelihood = np.ascontiguousarray(similar, np.uint8), codes, sigmas, scale
    prediction = np.ascontiguousarray(2 * theta * (chunk.indicator @ P.T)), 2 * theta * (P @ P.T)
    update = functools.partial(_kernels.update_anchored_rows, B, chunk.set_of_row, *likelihood, *prediction)
    workers.map_blocks(update, len(B), _ROWS)
