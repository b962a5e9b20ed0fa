"""CVH: cross-view hashing."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from dlfh._mathematics.centred_blocks import CentredView, centred_views
from dlfh._mathematics.correlation import NO_CORRELATION, Whitening, oriented
from dlfh._parallel import Workers
from dlfh._validation import Features, check_choice, check_positive
from dlfh.blocks import Blocks
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

__all__ = ["CVH"]

Floats = npt.NDArray[np.float64]


class CVH(CrossModalHasher):
    """Cross-view hashing (Kumar and Udupa, IJCAI 2011), for two views or more.

    Similar points get similar values y_v = X_v a_v in every view and across views. Given similarities W of
    points with degrees D and Laplacian L = D - W, minimise per bit, for K views,

        ``sum_v y_v'(2 L + (K - 1) D) y_v - 2 sum_(v < w) y_v' W y_w``   with ``sum_v y_v'y_v = n``,

    bits uncorrelated: one symmetric generalised eigenproblem over all features, of which the smallest
    eigenvalues are taken. Without labels W = I, which for two views is exactly CCA. With labels W holds
    the cosines of label sets, of rank at most the number of labels, and is never formed.

    Parameters
    ----------
    n_bits : int, default 64
    similarity : {"pairs", "labels"}, default "pairs"
        Whether W comes from the pairing alone, as in every published comparison, or from the labels.
    ridge : float, default 1e-4
        Added to the diagonals of the X'X.
    n_jobs, verbose
        As for `DLFH`.

    Notes
    -----
    A public code leaves out an inverse and does not centre; this follows the paper. The version with labels is from
    the formulas alone, and worse than pairs on Wiki and IAPR TC-12 (there at chance): the constraint is on the sum
    over views, so a direction may live in the view that knows the labels best. Bits beyond the
    directions in which views can agree are constant for every point: there are at most as many as the
    smallest view has features, and with labels as there are labels. Nothing is random. By blocks, features are
    read once, and twice with labels.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> CVH(n_bits=16).fit(data.modalities).codes_["text"].shape
    (300, 2)
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

    def __init__(
        self,
        n_bits: int = 64,
        *,
        similarity: Literal["pairs", "labels"] = "pairs",
        ridge: float = 1e-4,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.similarity = similarity
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.similarity, "similarity", ("labels", "pairs"))
        check_positive(self.ridge, "ridge", allow_zero=True)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        from_labels = self.similarity == "labels"
        L = self._unit_label_rows(labels, features) if from_labels else None
        views = centred_views(features, beside=L, crosses=not from_labels)
        whitening = [Whitening(view.gram, float(self.ridge)) for view in views]
        if from_labels:
            sums = [view.transposed_times(L) for view in views]
            tiles = _label_tiles(views, sums, L)
            seen = [white.whiten(each) for white, each in zip(whitening, sums, strict=True)]
            n_directions = min(int(np.linalg.matrix_rank(each, rtol=NO_CORRELATION)) for each in seen)
            most = np.inf
        else:
            tiles = _pair_tiles(views, whitening)
            n_directions = min(view.n_features for view in views)
            # Views that do not correlate at all have this eigenvalue, whatever the direction.
            most = len(views) - 1 - NO_CORRELATION
        weights = _smallest(tiles, whitening, min(int(self.n_bits), n_directions), int(self.n_bits), most)
        scale = np.sqrt(views[0].n_points)
        self.hash_functions_ = {
            view.modality: LinearHash.of_centred(view, scale * W, ridge=white.ridge)
            for view, W, white in zip(views, weights, whitening, strict=True)
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)


#: What of the matrix over all features belongs to each two views.
Tiles = list[list[Floats]]


def _pair_tiles(views: list[CentredView], whitening: list[Whitening]) -> Tiles:
    """Return the tiles for W = I: L = 0 and D = I, ridges included as in CCA."""
    others = len(views) - 1
    return [
        [others * white.factor @ white.factor.T if view is other else -view.cross(other) for other in views]
        for view, white in zip(views, whitening, strict=True)
    ]


def _label_tiles(views: list[CentredView], sums: list[Floats], L: Any) -> Tiles:
    """Return the tiles for W = L L', divided by the mean degree, from the views' X'L."""
    degrees, scale = _degrees(L)
    # X'WX = (X'L)(X'L)' and 2 L + (K - 1) D = (K + 1) D - 2 W.
    return [
        [
            ((len(views) + 1) * view.weighted_gram(degrees) - 2 * own @ own.T) / scale
            if view is other
            else -(own @ others.T) / scale
            for other, others in zip(views, sums, strict=True)
        ]
        for view, own in zip(views, sums, strict=True)
    ]


def _degrees(L: Any) -> tuple[Any, float]:
    """Return L L'1, in blocks as L is, and its mean."""
    if isinstance(L, Blocks):
        sums = L.map_reduce(_column_sums, operator.add)
        return L.map(functools.partial(_products, sums), None, np.float64), float(sums @ sums) / L.shape[0]
    degrees = L @ np.asarray(L.sum(axis=0)).ravel()
    return degrees, float(degrees.mean())


def _column_sums(_: int, rows: sp.csr_array) -> Floats:
    return np.asarray(rows.sum(axis=0)).ravel()


def _products(vector: Floats, rows: sp.csr_array) -> Floats:
    return np.asarray(rows @ vector)


def _smallest(tiles: Tiles, whitening: list[Whitening], n_directions: int, n_bits: int, most: float) -> list[Floats]:
    """Return each view's weights for the smallest eigenvalues below ``most``, and zeros for the other bits."""
    if n_directions == 0:
        return [np.zeros((len(white.factor), n_bits)) for white in whitening]
    rows = [
        [white.whiten(other.whiten(tile.T).T) for tile, other in zip(row, whitening, strict=True)]
        for row, white in zip(tiles, whitening, strict=True)
    ]
    matrix = np.block(rows)
    symmetric = (matrix + matrix.T) / 2
    values, vectors = scipy.linalg.eigh(symmetric, subset_by_index=(0, n_directions - 1), check_finite=False)
    vectors = vectors[:, values < most]
    vectors = vectors * oriented(vectors)  # a sign that does not depend on rounding
    parts = np.split(vectors, np.cumsum([len(white.factor) for white in whitening])[:-1])
    weights = []
    for white, part in zip(whitening, parts, strict=True):
        W = np.zeros((len(part), n_bits))
        W[:, : part.shape[1]] = white.directions(part)
        weights.append(W)
    return weights
