"""CMFH: collective matrix factorization hashing."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dlfh._arrays import Array, Codes, Floats
from dlfh._mathematics.centred import CentredBlocks, centre
from dlfh._mathematics.correlation import Whitening
from dlfh._mathematics.random_rows import draw, random_rows
from dlfh._parallel import Workers, blas_threads
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.blocks.base import Blocks
from dlfh.codes import n_bytes, pack
from dlfh.hashing.linear import LinearHash
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import Fraction, NonNegative, Positive, PositiveInt


@dataclass(eq=False, repr=False, kw_only=True)
class CMFH(Method):
    """Collective matrix factorization hashing (Ding, Guo and Zhou, CVPR 2014).

    Both modalities of a point are factorised with one latent vector, a row of Y, which linear functions W_t predict
    from each modality. The method minimises

        ``sum_t a_t |X_t - Y U_t|^2 + mu sum_t |Y - X_t W_t|^2 + gamma (|Y|^2 + sum_t |U_t|^2 + |W_t|^2)``

    with a = (modality_weight, 1 - modality_weight), alternately over U, Y and W. Each step is exact, so the objective
    never increases. The signs of Y are the learned codes, shared by both modalities.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    modality_weight : float, default 0.5
        Weight of the first modality, the paper's lambda, between 0 and 1.
    mu : float, default 100
        Weight of the errors of the hash functions.
    gamma : float, default 0.01
        Weight of the penalties; its effect depends on the scale of the features.
    updates : {"exact", "code", "code-as-is"}, default "exact"
        "exact": the steps above. "code": the steps of the public code, which also weights mu and gamma by a_t.
        "code-as-is": the same with the code's operator precedence error, which divides W by mu^2. (Published settings:
        25 iterations, ``init="uniform"``.)
    init : {"gaussian", "uniform"}, default "gaussian"
        Distribution of the initial Y. Uniform values are positive, so the columns of Y become distinct only slowly.
    max_iter : int, default 200
    tol : float, default 1e-6
        Stop when an iteration decreases the objective by less than this share; 0 for exactly ``max_iter`` iterations.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_iter_,)
        Objective after each iteration.

    Notes
    -----
    From the first iteration on, Y = X_1 B_1 + X_2 B_2. Every step therefore works on the Gram matrix of all features,
    at a cost that does not depend on the number of points, and B also gives new points one code from both modalities.
    The method learns from pairs and ignores labels. Data in blocks is read twice: for the sums and the codes.
    """

    kind = "CMFH"
    info = MethodInfo(
        title="Collective matrix factorization hashing",
        paper="Ding, Guo and Zhou, CVPR 2014",
        supervised=False,
        discrete=False,
        protocols=("learned", "hashed", "unified"),
        complexity="n d² + d³ + T d² c",
        takes_blocks=True,
    )
    _saved_arrays = ("objective_", "fold_in_")

    modality_weight: Fraction = 0.5
    mu: Positive = 100.0
    gamma: Positive = 0.01
    updates: Literal["exact", "code", "code-as-is"] = "exact"
    init: Literal["gaussian", "uniform"] = "gaussian"
    max_iter: PositiveInt = 200
    tol: NonNegative = 1e-6

    fold_in_: Floats = field(init=False)

    @property
    def n_iter_(self) -> int:
        return len(self.objective_)

    def _fit(self, features: dict[str, Blocks], labels: Any) -> None:
        rng = check_random_state(self.random_state)
        first = next(iter(features.values()))
        n_bits, uniform = int(self.n_bits), self.init == "uniform"
        Y = random_rows(rng, first, n_bits, uniform=uniform)
        W = [draw(rng, matrix.shape[1], n_bits, uniform=uniform) for matrix in features.values()]
        views = centre(features, Y, crosses=True)
        # Many small steps: more threads would mostly wait for each other.
        with blas_threads(1), progress(self.verbose) as bar:
            state = _Factors(views, Y, W)
            count, history = bar.counter("iterations", int(self.max_iter)), [np.inf]
            for _ in range(int(self.max_iter)):
                state.update(self)
                history.append(state.objective(self))
                count(1)
                if self.tol > 0 and history[-2] - history[-1] <= self.tol * abs(history[-1]):
                    break
        self.objective_ = np.array(history[1:])
        self.fold_in_ = state.B
        self.hash_functions_ = {
            view.modality: LinearHash.of_centred(view, W, ridge=float(self.gamma / self.mu))
            for view, W in zip(views, state.W, strict=True)
        }
        one, other = (view.times(B) for view, B in zip(views, state.by_view(state.B), strict=True))
        codes = one.map(_codes, n_bytes(self.n_bits), np.uint8, other).lazy_result()
        self.codes_ = dict.fromkeys(features, codes)

    def _fits(self, name: str, array: Array) -> bool:
        if name != "fold_in_":
            return super()._fits(name, array)
        shape = (sum(self.n_features_.values()), self.n_bits)
        return array.shape == shape and array.dtype == np.float64 and bool(np.isfinite(array).all())

    def _unify(self, features: dict[str, Features]) -> Array:
        total, first = np.zeros(()), 0
        with Workers(self.n_jobs) as workers:
            for name in self.modalities_:
                mean = self.hash_functions_[name].to_arrays()["mean"]
                B = self.fold_in_[first : first + len(mean)].astype(np.float32)
                fold_in = LinearHash(mean, B, np.zeros(B.shape[1]), 0.0)
                total = total + fold_in.project(features[name], name, workers)
                first += len(mean)
        return total


class _Factors:
    """U, W and B, where Y = X B and X has both modalities side by side; updates need only X'X, not X."""

    def __init__(self, views: list[CentredBlocks], Y: Blocks, W: list[Floats]) -> None:
        (x, y) = views
        self.XY = [view.transposed_times(Y) for view in views]
        self.YY = Y.map_reduce(_squared, operator.add)
        cross = x.cross(y)
        self.split = x.n_features
        self.gram = np.block([[x.gram, cross], [cross.T, y.gram]])
        self.grams = (x.gram, y.gram)
        self.whitening: list[Whitening] | None = None
        self.W = W
        self.U: list[Floats] = []
        self.B = np.empty(0)

    def by_view(self, matrix: Floats) -> tuple[Floats, Floats]:
        return matrix[: self.split], matrix[self.split :]

    def update(self, model: CMFH) -> None:
        a, mu, gamma = (model.modality_weight, 1 - model.modality_weight), float(model.mu), float(model.gamma)
        exact = model.updates == "exact"
        identity = np.eye(len(self.YY))
        ridge = [gamma / weight if exact else gamma for weight in a]
        self.U = [_solve(self.YY + r * identity, XY.T) for r, XY in zip(ridge, self.XY, strict=True)]
        weights = (mu, mu) if exact else (a[0] * mu, a[1] * mu)
        right = [w * U.T + v * W for w, U, v, W in zip(a, self.U, weights, self.W, strict=True)]
        left = sum(w * (U @ U.T) for w, U in zip(a, self.U, strict=True))
        left = left + ((2 * mu + gamma) if exact else (mu + gamma)) * identity
        self.B = _solve(left, np.concatenate(right).T).T
        products = self.gram @ self.B
        self.YY = self.B.T @ products
        self.XY = list(self.by_view(products))
        if self.whitening is None:
            # The ridge is at least the rounding error, which exceeds gamma / mu for large or repeated features.
            self.whitening = [Whitening(gram, gamma / mu) for gram in self.grams]
        factor = 1 / mu**2 if model.updates == "code-as-is" else 1.0
        whitened = zip(self.whitening, self.XY, strict=True)
        self.W = [factor * white.directions(white.whiten(XY)) for white, XY in whitened]

    def objective(self, model: CMFH) -> float:
        """Return the objective from X'X, X'Y and Y'Y."""
        a, value = (model.modality_weight, 1 - model.modality_weight), model.gamma * np.trace(self.YY)
        for terms in zip(a, self.grams, self.XY, self.U, self.W, strict=True):
            value = add_errors(value, *terms, self.YY, model.mu, model.gamma)
        return float(value)


def add_errors(
    value: float, weight: float, gram: Floats, XY: Floats, U: Floats, W: Floats, YY: Floats, mu: float, gamma: float
) -> float:
    """Add weight |X - Y U|^2 + mu |Y - X W|^2 + gamma (|U|^2 + |W|^2) to a value, from X'X, X'Y and Y'Y."""
    value += weight * (np.trace(gram) - 2 * np.sum(U.T * XY) + np.sum((U @ U.T) * YY))
    value += mu * (np.trace(YY) - 2 * np.sum(W * XY) + np.sum(W * (gram @ W)))
    value += gamma * (np.sum(U**2) + np.sum(W**2))
    return value


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Solve a small positive semi-definite system, whose ridge may be smaller than the rounding error."""
    white = Whitening(matrix, 0.0)
    return white.directions(white.whiten(right))


def _squared(_: int, Y: Floats) -> Floats:
    return Y.T @ Y


def _codes(one: Floats, other: Floats) -> Codes:
    return pack(one + other)
