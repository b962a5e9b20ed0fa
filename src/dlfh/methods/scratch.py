"""SCRATCH: scalable discrete matrix factorization hashing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats
from dlfh._mathematics.correlation import Whitening
from dlfh._mathematics.ridge import solve_ridge
from dlfh._mathematics.rotation import closest_rotation, random_rotation
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.codes import pack
from dlfh.methods.anchors import AnchorFeatures, fit_labels
from dlfh.methods.cmfh import add_errors
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import Fraction, Positive, PositiveInt


@dataclass(eq=False, repr=False, kw_only=True)
class SCRATCH(Method):
    """Scalable discrete matrix factorization hashing (Li, Chen, Zhang, Luo, Nie, Zhang and Xu, ACM MM 2018).

    Kernel features X_m of both modalities and the labels L are factorised with one latent matrix V (n x c). Linear
    functions W_m predict V, and a rotation R maps it to the codes B of -1 and +1. The method minimises

        ``sum_m a_m |X_m - V U_m|^2 + alpha |L - V G|^2 + |B - V R'|^2 + mu sum_m |V - X_m W_m|^2
        + gamma (|V|^2 + |G|^2 + sum_m |U_m|^2 + |W_m|^2)``

    with a = (modality_weight, 1 - modality_weight), alternately over B, U and G, W, V and R. Each step is exact, so the
    objective never increases. Both modalities share the codes; the hash functions are X_m W_m R'.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    modality_weight : float, default 0.5
        Weight of the first modality, the paper's lambda, between 0 and 1.
    alpha : float, default 500
        Weight of the labels.
    mu : float, default 1000
        Weight of the errors of the hash functions.
    gamma : float, default 5
        Weight of the penalties, which is not relative to the number of points: more points make it weaker.
    max_iter : int, default 20
        Number of rounds. The objective is still decreasing after 20, and long codes still improve.
    n_anchors : int, default 500
        Number of kernel anchors, training points that are drawn for each modality; all points if there are fewer.
    refresh : bool, default False
        Compute W and B once more from the final V. As published, they precede the last update of V, and R follows it.

    Attributes
    ----------
    objective_ : ndarray of float64 (max_iter,)
        Objective after each round, including the penalties, which the authors' code omits.

    Notes
    -----
    Defaults follow the authors' code, which computes X'X in every round; here it is computed once. Features on
    another scale need other weights: ``alpha`` is relative to kernel values between 0 and 1.
    """

    kind = "SCRATCH"
    info = MethodInfo(
        title="Scalable discrete matrix factorization hashing",
        paper="Li, Chen, Zhang, Luo, Nie, Zhang and Xu, ACM MM 2018",
        supervised=True,
        discrete=True,
        complexity="n k (d + k) + T n c (k + c), k anchors",
    )
    _saved_arrays = ("objective_",)

    modality_weight: Fraction = 0.5
    alpha: Positive = 500.0
    mu: Positive = 1000.0
    gamma: Positive = 5.0
    max_iter: PositiveInt = 20
    n_anchors: PositiveInt = 500
    refresh: bool = False

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        L = label_sets.rows()[label_sets.set_of_point]
        rng = check_random_state(self.random_state)
        with progress(self.verbose) as bar:
            views = [AnchorFeatures(matrix, int(self.n_anchors), name, rng) for name, matrix in features.items()]
            V = rng.standard_normal((label_sets.n_points, int(self.n_bits)))
            state = LatentCodes(views, L, V, random_rotation(int(self.n_bits), rng), self)
            history = []
            for _ in bar.track(range(int(self.max_iter)), "rounds"):
                state.update()
                history.append(state.objective())
        self.objective_ = np.array(history)
        if self.refresh:
            state.update_codes()
            state.update_functions()
        self.hash_functions_ = {
            view.modality: view.hash_function(W @ state.R.T) for view, W in zip(views, state.W, strict=True)
        }
        self.codes_ = dict.fromkeys(features, pack(state.B))
        ridge, seed = float(self.gamma / self.mu), int(rng.integers(2**63))
        self._calibrate_later(fit_labels(views, label_sets, ridge, self, seed))


class LatentCodes:
    """V, B, R, U, G and W, and SCRATCH's updates, from initial V and R."""

    def __init__(self, views: list[AnchorFeatures], L: sp.csr_array, V: Floats, R: Floats, model: SCRATCH) -> None:
        self.views, self.L, self.V, self.R, self.model = views, L, V, R, model
        self.a = float(model.modality_weight), 1 - float(model.modality_weight)
        # One Cholesky factor of X'X + (gamma / mu) I serves all rounds.
        self.whitening = [Whitening(view.gram, float(model.gamma / model.mu)) for view in views]
        self.XV = [view.transposed_times(V) for view in views]
        self.B: Floats = np.empty_like(V)
        self.U: list[Floats] = []
        self.W: list[Floats] = []
        self.G: Floats = np.empty(0)

    def update(self) -> None:
        self.update_codes()
        gamma, alpha, VV = float(self.model.gamma), float(self.model.alpha), self.V.T @ self.V
        self.U = [solve_ridge(weight * VV, gamma, weight * XV.T) for weight, XV in zip(self.a, self.XV, strict=True)]
        self.G = solve_ridge(alpha * VV, gamma, alpha * (self.L.T @ self.V).T)
        self.update_functions()
        mu, c = float(self.model.mu), self.V.shape[1]
        M = alpha * (self.G @ self.G.T) + (1 + 2 * mu + gamma) * np.eye(c)
        for weight, U in zip(self.a, self.U, strict=True):
            M += weight * (U @ U.T)
        V = alpha * (self.L @ self.G.T) + self.B @ self.R
        for weight, view, U, W in zip(self.a, self.views, self.U, self.W, strict=True):
            V += view.times(weight * U.T + mu * W)
        self.V = solve_ridge(M, 0.0, V.T).T
        self.XV = [view.transposed_times(self.V) for view in self.views]
        self.R = closest_rotation(self.B.T @ self.V)

    def update_codes(self) -> None:
        self.B = np.where(self.V @ self.R.T >= 0, 1.0, -1.0)

    def update_functions(self) -> None:
        self.W = [white.directions(white.whiten(XV)) for white, XV in zip(self.whitening, self.XV, strict=True)]

    def objective(self) -> float:
        """Return the objective from sums over the points."""
        alpha, mu, gamma = float(self.model.alpha), float(self.model.mu), float(self.model.gamma)
        VV = self.V.T @ self.V
        value = float(np.sum((self.B - self.V @ self.R.T) ** 2)) + gamma * np.trace(VV)
        value += alpha * (self.L.nnz - 2 * np.sum(self.G * (self.L.T @ self.V).T) + np.sum((self.G @ self.G.T) * VV))
        value += gamma * np.sum(self.G**2)
        for weight, view, XV, U, W in zip(self.a, self.views, self.XV, self.U, self.W, strict=True):
            value = add_errors(value, weight, view.gram, XV, U, W, VV, mu, gamma)
        return float(value)
