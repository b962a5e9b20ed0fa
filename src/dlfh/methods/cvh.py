"""CVH: cross-view hashing."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dlfh._arrays import Floats
from dlfh._mathematics.centred import CentredBlocks, centre
from dlfh._mathematics.correlation import NO_CORRELATION, Whitening, oriented
from dlfh.blocks.base import Blocks
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative


@dataclass(eq=False, repr=False, kw_only=True)
class CVH(Method):
    """Cross-view hashing (Kumar and Udupa, IJCAI 2011), for two or more views.

    Similar points get similar values y_v = X_v a_v within each view and across views. For K views and point
    similarities W with degrees D and Laplacian L = D - W, each bit minimises

        ``sum_v y_v'(2 L + (K - 1) D) y_v - 2 sum_(v < w) y_v' W y_w``   subject to ``sum_v y_v'y_v = n``,

    with uncorrelated bits. This is a symmetric generalised eigenproblem over all features; the smallest eigenvalues are
    used. Without labels W = I, which for two views is exactly CCA. With labels W holds the cosines of label sets; its
    rank is at most the number of labels, and it is never formed.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    similarity : {"pairs", "labels"}, default "pairs"
        Whether W comes from the pairing, as in every published comparison, or from the labels.
    ridge : float, default 1e-4
        Added to the diagonal of each view's X'X.

    Notes
    -----
    The public code omits an inverse and does not centre features; this implementation follows the paper. With labels,
    which no published comparison uses, it is worse than with pairs on Wiki, and at chance on IAPR TC-12: the
    constraint is on the sum over views, so a direction can concentrate on the view that predicts the labels best. The
    number of directions is at most the number of features of the smallest view and, with labels, the number of labels;
    further bits are constant. The method is deterministic. Data in blocks is read once, and twice with labels.
    """

    kind = "CVH"
    info = MethodInfo(
        title="Cross-view hashing",
        paper="Kumar and Udupa, IJCAI 2011",
        supervised=False,
        discrete=False,
        protocols=("hashed",),
        complexity="n d² + d³",
        surplus_bits="constant",
        n_modalities=(2, None),
        is_deterministic=True,
        takes_blocks=True,
    )

    similarity: Literal["pairs", "labels"] = "pairs"
    ridge: NonNegative = 1e-4
    random_state: None = field(default=None, init=False)  # deterministic

    def _fit(self, features: dict[str, Blocks], labels: Any) -> None:
        from_labels = self.similarity == "labels"
        L = self._unit_label_rows(labels, features) if from_labels else None
        views = centre(features, L, crosses=not from_labels)
        whitening = [Whitening(view.gram, float(self.ridge)) for view in views]
        if L is not None:
            sums = [view.transposed_times(L) for view in views]
            tiles = _label_tiles(views, sums, L)
            whitened = [white.whiten(XL) for white, XL in zip(whitening, sums, strict=True)]
            n_directions = min(int(np.linalg.matrix_rank(XL, rtol=NO_CORRELATION)) for XL in whitened)
            limit = np.inf
        else:
            # For W = I, L = 0 and D = I; ridges are included, as in CCA.
            n_others = len(views) - 1
            tiles = [
                [n_others * white.factor @ white.factor.T if view is other else -view.cross(other) for other in views]
                for view, white in zip(views, whitening, strict=True)
            ]
            n_directions = min(view.n_features for view in views)
            # If the views are uncorrelated, every direction has the eigenvalue len(views) - 1.
            limit = n_others - NO_CORRELATION
        weights = _smallest(tiles, whitening, min(int(self.n_bits), n_directions), int(self.n_bits), limit)
        scale = np.sqrt(views[0].n_points)
        self._hash_linearly(features, views, [scale * W for W in weights], ridges=[white.ridge for white in whitening])


Tiles = list[list[Floats]]  #: The matrix over all features, as one tile per pair of views.


def _label_tiles(views: list[CentredBlocks], sums: list[Floats], L: Blocks) -> Tiles:
    """Return the tiles for W = L L', divided by the mean degree, from the views' X'L."""
    # The degrees are L L'1.
    degrees = L.map(functools.partial(_products, L.map_reduce(_column_sums, operator.add)), None, np.float64)
    scale = float(degrees.map_reduce(_sum, operator.add)) / L.shape[0]
    # X'WX = (X'L)(X'L)' and 2 L + (K - 1) D = (K + 1) D - 2 W.
    return [
        [
            ((len(views) + 1) * view.weighted_gram(degrees) - 2 * XL @ XL.T) / scale
            if view is other
            else -(XL @ YL.T) / scale
            for other, YL in zip(views, sums, strict=True)
        ]
        for view, XL in zip(views, sums, strict=True)
    ]


def _column_sums(_: int, rows: sp.csr_array) -> Floats:
    return np.asarray(rows.sum(axis=0)).ravel()


def _sum(_: int, values: Floats) -> np.float64:
    return np.sum(values)


def _products(vector: Floats, rows: sp.csr_array) -> Floats:
    return np.asarray(rows @ vector)


def _smallest(tiles: Tiles, whitening: list[Whitening], n_directions: int, n_bits: int, limit: float) -> list[Floats]:
    """Return each view's weights for the smallest eigenvalues below ``limit``, padded with zeros to ``n_bits``."""
    if n_directions == 0:
        return [np.zeros((len(white.factor), n_bits)) for white in whitening]
    rows = [
        [white.whiten(other.whiten(tile.T).T) for tile, other in zip(row, whitening, strict=True)]
        for row, white in zip(tiles, whitening, strict=True)
    ]
    matrix = np.block(rows)
    symmetric = (matrix + matrix.T) / 2
    values, vectors = scipy.linalg.eigh(symmetric, subset_by_index=(0, n_directions - 1), check_finite=False)
    vectors = vectors[:, values < limit]
    vectors = vectors * oriented(vectors)  # a sign independent of rounding
    parts = np.split(vectors, np.cumsum([len(white.factor) for white in whitening])[:-1])
    weights = []
    for white, part in zip(whitening, parts, strict=True):
        W = np.zeros((len(part), n_bits))
        W[:, : part.shape[1]] = white.directions(part)
        weights.append(W)
    return weights
