"""CVH: cross-view hashing."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from dlfh._parallel import Workers
from dlfh._validation import Features, check_choice, check_positive
from dlfh.hashing._linear import LinearHash
from dlfh.mathematics._centred import Centred
from dlfh.mathematics._correlation import NO_CORRELATION, Whitening, oriented
from dlfh.methods._base import CrossModalHasher
from dlfh.methods._info import MethodInfo

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
    smallest view has features, and with labels as there are labels. Nothing is random.

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
        views = [Centred(matrix, name) for name, matrix in features.items()]
        whitening = [Whitening(view.gram, float(self.ridge)) for view in views]
        if self.similarity == "labels":
            label_sets = self._read_labels(labels, features)
            L = label_sets.unit_rows_of_points()
            sums = [view.transposed_times(L) for view in views]
            blocks = _label_blocks(views, sums, L)
            seen = [white.whiten(each) for white, each in zip(whitening, sums, strict=True)]
            n_directions = min(int(np.linalg.matrix_rank(each, rtol=NO_CORRELATION)) for each in seen)
            most = np.inf
        else:
            blocks = _pair_blocks(views, whitening)
            n_directions = min(view.n_features for view in views)
            # Views that do not correlate at all have this eigenvalue, whatever the direction.
            most = len(views) - 1 - NO_CORRELATION
        weights = _smallest(blocks, whitening, min(int(self.n_bits), n_directions), int(self.n_bits), most)
        scale = np.sqrt(views[0].n_points)
        self.hash_functions_ = {
            view.modality: LinearHash.of_centred(view, scale * W, ridge=white.ridge)
            for view, W, white in zip(views, weights, whitening, strict=True)
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)


Blocks = list[list[Floats]]


def _pair_blocks(views: list[Centred], whitening: list[Whitening]) -> Blocks:
    """Return the blocks for W = I: L = 0 and D = I, ridges included as in CCA."""
    others = len(views) - 1
    return [
        [others * white.factor @ white.factor.T if view is other else -view.cross(other) for other in views]
        for view, white in zip(views, whitening, strict=True)
    ]


def _label_blocks(views: list[Centred], sums: list[Floats], L: sp.csr_array) -> Blocks:
    """Return the blocks for W = L L', divided by the mean degree, from the views' X'L."""
    degrees = L @ np.asarray(L.sum(axis=0)).ravel()
    scale = float(degrees.mean())
    # X'WX = (X'L)(X'L)' and 2 L + (K - 1) D = (K + 1) D - 2 W.
    return [
        [
            ((len(views) + 1) * _weighted_gram(view, degrees) - 2 * own @ own.T) / scale
            if view is other
            else -(own @ others.T) / scale
            for other, others in zip(views, sums, strict=True)
        ]
        for view, own in zip(views, sums, strict=True)
    ]


def _weighted_gram(view: Centred, degrees: Floats) -> Floats:
    """Return X'DX of the centred features."""
    gram = np.zeros((view.n_features, view.n_features))
    for start, rows in view.chunks():
        gram += rows.T @ (degrees[start : start + len(rows), None] * rows)
    return gram


def _smallest(blocks: Blocks, whitening: list[Whitening], n_directions: int, n_bits: int, most: float) -> list[Floats]:
    """Return each view's weights for the smallest eigenvalues below ``most``, and zeros for the other bits."""
    if n_directions == 0:
        return [np.zeros((len(white.factor), n_bits)) for white in whitening]
    rows = [
        [white.whiten(other.whiten(block.T).T) for block, other in zip(row, whitening, strict=True)]
        for row, white in zip(blocks, whitening, strict=True)
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
