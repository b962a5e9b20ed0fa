"""BATCH: scalable asymmetric discrete cross-modal hashing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dlfh._arrays import Floats
from dlfh._factorization.solver import LabelRows
from dlfh._mathematics.ridge import solve_ridge
from dlfh._mathematics.rotation import uncorrelated
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.codes import pack
from dlfh.methods.anchors import AnchorFeatures, fit_labels
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, Positive, PositiveInt


@dataclass(eq=False, repr=False, kw_only=True)
class BATCH(Method):
    """Scalable asymmetric discrete cross-modal hashing (Wang, Luo, Nie, Song, Zhang and Xu, TKDE 2020).

    Learns codes B (n x c), shared by all modalities, and real-valued counterparts V from the labels L, the kernel
    features X_m and the similarities S = G G', where G is L with rows scaled to length 1. It minimises

        ``|c S - B V'|^2 + omega |B - V|^2 + feature_weight sum_m |X_m - V U_m|^2 + label_weight |L - V U|^2
        + delta (feature_weight sum_m |U_m|^2 + label_weight |U|^2)``,  ``V'V = n I, V'1 = 0``,

    alternately over U, V and B. Under the constraints the objective is linear in B and in V, so each step is exact, the
    objective never increases, and S (n x n) is never formed. Ridge regressions then predict B from kernel features.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    feature_weight : float, default 0.05
        The authors' eta_1 = eta_2. At this value the labels outweigh the features: on Wiki, 0 gives the same codes.
    label_weight : float, default 0.9
        The authors' eta_0.
    omega : float, default 0.01
        Weight of the difference between B and V.
    delta : float, default 1e-3
        Weight of the penalties on U.
    max_iter : int, default 6
        Number of rounds.
    init : {"random", "labels"}, default "random"
        Start from one random code per point, like the authors, or per distinct label set. With "labels" and
        ``feature_weight=0``, points with equal labels keep equal codes, and the cost grows with the number of sets.
    n_anchors : int, default 500
        Number of kernel anchors of the first modality, which are random training points; all points if fewer.
    n_other_anchors : int, default 1000
        Number of anchors of each other modality. (The authors: 500 for images, 1,000 for texts.)
    ridge : float, default 0.01
        Ridge of the hash functions, the authors' xi.
    fit_intercept : bool, default False
        Whether hash functions have an intercept. The authors' have none.

    Attributes
    ----------
    objective_ : ndarray of float64 (max_iter,)
        Objective after each round. The initial V may violate the constraints.

    Notes
    -----
    Defaults follow the authors' code, which supports two modalities only. Their code computes V from eigenvectors of a
    Gram matrix with an absolute cut-off, which leaves columns correlated (they deviate by .6 of their length on Wiki,
    64 bits), and fills missing directions with columns that violate the constraints. Here V comes from an SVD, and the
    constraints hold up to rounding. If every point has one label, all points of a class get the same code.
    """

    kind = "BATCH"
    info = MethodInfo(
        title="Scalable asymmetric discrete cross-modal hashing",
        paper="Wang, Luo, Nie, Song, Zhang and Xu, IEEE TKDE 2020",
        supervised=True,
        discrete=True,
        complexity="T n c (k + c) for codes, k anchors (T g c² for g label sets, without features); n k (d + k) for "
        "hash functions",
        n_modalities=(2, None),
    )
    _saved_arrays = ("objective_",)

    feature_weight: NonNegative = 0.05
    label_weight: NonNegative = 0.9
    omega: NonNegative = 0.01
    delta: Positive = 1e-3
    max_iter: PositiveInt = 6
    init: Literal["random", "labels"] = "random"
    n_anchors: PositiveInt = 500
    n_other_anchors: PositiveInt = 1000
    ridge: Positive = 0.01
    fit_intercept: bool = False

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        by_set = self.init == "labels" and self.feature_weight == 0
        rows = LabelRows.of_label_sets(label_sets) if by_set else LabelRows.of_points(label_sets)
        rng = check_random_state(self.random_state)
        with progress(self.verbose) as bar:
            views = [
                AnchorFeatures(matrix, int(self.n_other_anchors if index else self.n_anchors), name, rng)
                for index, (name, matrix) in enumerate(features.items())
            ]
            n_starts = label_sets.n_sets if self.init == "labels" else len(rows)
            B = rng.choice(np.array([-1.0, 1.0]), (n_starts, int(self.n_bits)))
            V = rng.standard_normal(B.shape)
            if self.init == "labels":
                B, V = B[rows.set_of_row], V[rows.set_of_row]
            codes = SharedCodes(rows, views if self.feature_weight else [], B, V, self)
            history = []
            for _ in bar.track(range(int(self.max_iter)), "codes"):
                codes.update(None if by_set else rng)
                history.append(codes.objective())
            B = codes.B[rows.row_of_point]
            intercept = B.mean(axis=0) if self.fit_intercept else 0.0
            self.hash_functions_ = {
                view.modality: view.hash_function(
                    solve_ridge(view.gram.copy(), float(self.ridge), view.transposed_times(B)), intercept
                )
                for view in bar.track(views, "hash functions")
            }
        self.objective_ = np.array(history)
        self.codes_ = dict.fromkeys(features, pack(B))
        self._calibrate_later(fit_labels(views, label_sets, float(self.ridge), self, int(rng.integers(2**63))))


class SharedCodes:
    """B and V by point, or by label set without views, and BATCH's updates; the first V may violate the constraints."""

    def __init__(self, rows: LabelRows, views: list[AnchorFeatures], B: Floats, V: Floats, model: BATCH) -> None:
        self.views, self.B, self.V, self.model = views, B, V, model
        self.weights: Floats = rows.weights.astype(np.float64)
        self.L, self.G, self._sums = rows.indicator, rows.unit_indicator, rows.sums
        self.term_weights = [float(model.feature_weight)] * len(views) + [float(model.label_weight)]
        self.products = self._products()
        self.U: list[Floats] = []

    def _products(self) -> list[Floats]:
        """Return V'X for each modality, and V'L."""
        return [*(view.transposed_times(self.V).T for view in self.views), self._sums(self.L, self.V).T]

    def update(self, rng: np.random.Generator | None) -> None:
        """Update U, V and B; ``rng`` draws missing directions of V."""
        c, omega = self.B.shape[1], float(self.model.omega)
        VV = self._sums(self.V, self.V)
        self.U = [solve_ridge(VV.copy(), float(self.model.delta), product) for product in self.products]
        Z = c * (self.G @ self._sums(self.G, self.B)) + omega * self.B
        for weight, X, U in zip(self.term_weights, [*self.views, self.L], self.U, strict=True):
            Z += weight * (X.times(U.T) if isinstance(X, AnchorFeatures) else X @ U.T)
        self.V = uncorrelated(Z, self.weights, rng)
        self.B = np.where(c * (self.G @ self._sums(self.G, self.V)) + omega * self.V >= 0, 1.0, -1.0)
        self.products = self._products()

    def objective(self) -> float:
        """Return the objective from sums over the points."""
        c, n, model = self.B.shape[1], float(self.weights.sum()), self.model
        VV, BB = self._sums(self.V, self.V), self._sums(self.B, self.B)
        label_gram = (self.G.T @ (self.G * self.weights[:, None])).toarray()
        value = c**2 * np.sum(label_gram**2) + np.sum(BB * VV)
        value -= 2 * c * np.sum(self._sums(self.G, self.B) * self._sums(self.G, self.V))
        value += model.omega * (n * c - 2 * np.sum(self.weights @ (self.B * self.V)) + np.trace(VV))
        squares = [*(float(np.trace(view.gram)) for view in self.views), float(self.weights @ self.L.sum(axis=1))]
        for weight, square, U, product in zip(self.term_weights, squares, self.U, self.products, strict=True):
            value += weight * (square - 2 * np.sum(U * product) + np.sum((U @ U.T) * VV))
            value += weight * float(model.delta) * np.sum(U**2)
        return float(value)
