"""SMFH: supervised matrix factorization hashing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats
from dlfh._mathematics.moments import dense_gram, sparse_gram
from dlfh._mathematics.ridge import solve_ridge
from dlfh._parallel import blas_threads, row_chunks
from dlfh._progress import Advance, progress
from dlfh._validation import Features, check_random_state, raise_if_not_finite
from dlfh.codes import pack
from dlfh.hashing.linear import LinearHash, UnitLinearHash, unit_rows
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import Fraction, NonNegative, Positive, PositiveInt


@dataclass(eq=False, repr=False, kw_only=True)
class SMFH(Method):
    """Supervised matrix factorization hashing (Liu, Ji, Wu and Hua, IJCAI 2016).

    Both modalities, with rows of length 1, are factorised as X_m = V U_m' with one non-negative V. V is smooth on the
    label graph (S = G G' for label rows G of length 1, Laplacian L = D - S); projections P_m predict it. Objective:

        ``sum_m a_m |X_m - V U_m'|^2 + alpha tr(V'L V) + mu sum_m |V - X_m P_m'|^2 + gamma sum_m |P_m|^2
        + orthogonality |V'V - I|^2 + eta sum_m tr(P_m X_m' Ln X_m P_m')``

    with a = (modality_weight, 1 - modality_weight) and Ln the normalised Laplacian. V and U have multiplicative
    updates, P a closed form; each iteration samples a new part of the graph. A bit is 1 where a column of V (or of X_m
    P_m') exceeds its mean in V. Both modalities share the learned codes.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    modality_weight : float, default 0.5
        Weight of the first modality, the paper's lambda, between 0 and 1.
    mu : float, default 40
        Weight of the prediction errors. (The authors: 100 for high-dimensional features.)
    alpha : float, default 2
        Weight of the graph. (The authors: 10 for high-dimensional features.)
    gamma, orthogonality : float, default 1e-4
        Weights of the penalty on P and of the orthogonality of V.
    eta : float, default 1e-3
        Weight of the graph in P.
    sample_size : int, default 1000
        Number of points of the graph in each iteration, or all if fewer. (The authors: 5,000 to 10,000 for large data.)
    stop : {"tolerance", "code"}, default "tolerance"
        Criterion to stop before ``max_iter``. "tolerance": an iteration changes the objective by less than ``tol``, or
        doubles it, in which case it is undone. "code": as in the authors' code (with ``max_iter=50``), which after
        five iterations returns to the previous one if the objective decreases by less than 0.1 or its graph term is
        below 100. That term grows with the number of bits, so short codes are trained for a few iterations only.
    max_iter : int, default 15
        More is not better: codes deteriorate after about twenty iterations, and long codes diverge.
    tol : float, default 1e-3
        Relative to the objective.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_iter_,)
        The authors' measure of progress after each iteration, a weighted sum of norms. The sampled graph makes it
        noisy, and it need not decrease. An undone iteration is included.

    Notes
    -----
    The objective and the updates follow the authors' code, including two inaccuracies whose correction made the
    codes worse: U_2 is not rescaled with the columns of V, and X_m P_m' can make V negative. Multiplicative updates
    need non-negative features. If a modality has negative values, each of its features x is replaced by the two
    features max(x, 0) and max(-x, 0); the authors' code would diverge. Tang et al. (TIP 2016) use the same name.
    """

    kind = "SMFH"
    info = MethodInfo(
        title="Supervised matrix factorization hashing",
        paper="Liu, Ji, Wu and Hua, IJCAI 2016",
        supervised=True,
        discrete=False,
        complexity="n d² + T (n d c + s d² + d³), s points of the graph",
    )
    _saved_arrays = ("objective_",)

    modality_weight: Fraction = 0.5
    mu: Positive = 40.0
    alpha: NonNegative = 2.0
    gamma: Positive = 1e-4
    orthogonality: NonNegative = 1e-4
    eta: NonNegative = 1e-3
    sample_size: PositiveInt = 1000
    stop: Literal["tolerance", "code"] = "tolerance"
    max_iter: PositiveInt = 15
    tol: NonNegative = 1e-3

    @property
    def n_iter_(self) -> int:
        return len(self.objective_)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        for name, matrix in features.items():
            raise_if_not_finite(matrix, name)
        splits = {name: bool(matrix.min() < 0) for name, matrix in features.items()}
        X = [unit_rows(matrix, split=splits[name]) for name, matrix in features.items()]
        G = label_sets.unit_rows_of_points()
        rng = check_random_state(self.random_state)
        with blas_threads(1), progress(self.verbose) as bar:
            count = bar.counter("iterations", int(self.max_iter))
            (V, projections), self.objective_ = _train(self, X, G, rng, count)
        mean = V.mean(axis=0, dtype=np.float64)
        self.codes_, self.hash_functions_ = {name: pack(mean < V) for name in features}, {}
        for name, P in zip(features, projections, strict=True):
            weights = np.ascontiguousarray(P.T, np.float32)
            function = LinearHash(np.zeros(len(weights)), weights, -mean, float(self.gamma))
            self.hash_functions_[name] = UnitLinearHash(function, split=splits[name])


State = tuple[Array, list[Array]]


def _train(model: SMFH, X: list[Features], G: Any, rng: np.random.Generator, count: Advance) -> tuple[State, Floats]:
    n, c = G.shape[0], int(model.n_bits)
    a = (float(model.modality_weight), 1 - float(model.modality_weight))
    mu, alpha, four_gamma = float(model.mu), float(model.alpha), 4 * float(model.orthogonality)
    U = [rng.random((matrix.shape[1], c)) for matrix in X]
    P = [rng.random((c, matrix.shape[1])) for matrix in X]
    V = rng.random((n, c))
    U[0] *= _normalise_columns(V)
    grams = [_gram(matrix) for matrix in X]
    n_sampled = min(int(model.sample_size), n)
    damping = n_sampled**-0.1
    squares = [float(np.trace(gram)) for gram in grams]
    history, last = [np.inf], (V, P)
    for _ in range(int(model.max_iter)):
        R = rng.permutation(n)[:n_sampled]
        graph = _Graph(G[R])
        numerator = four_gamma * V
        denominator = V @ (a[0] * (U[0].T @ U[0]) + a[1] * (U[1].T @ U[1]) + four_gamma * (V.T @ V)) + 2 * mu * V
        for weight, matrix, u, p in zip(a, X, U, P, strict=True):
            numerator += _times(matrix, weight * u + mu * p.T)
        numerator[R] += alpha * damping * graph.neighbours(V[R])
        denominator[R] += alpha * damping * graph.degrees[:, None] * V[R]
        V = V * (numerator / np.maximum(denominator, 1e-10))
        VV = V.T @ V
        XV = [_transposed_times(matrix, V) for matrix in X]
        U = [u * (product / np.maximum(u @ VV, 1e-10)) for product, u in zip(XV, U, strict=True)]
        lengths = _normalise_columns(V)
        U[0] *= lengths
        XV = [product / lengths for product in XV]
        P = [
            solve_ridge(gram + float(model.eta) * damping * graph.smoothness(matrix[R]), float(model.gamma), product).T
            for gram, matrix, product in zip(grams, X, XV, strict=True)
        ]
        graph_norm = float(np.linalg.norm(graph.laplacian(V[R])))
        objective = alpha * graph_norm + float(model.gamma) * sum(float(np.linalg.norm(p)) for p in P)
        VV = V.T @ V
        for weight, gram, u, product, p, square in zip(a, grams, U, XV, P, squares, strict=True):
            objective += weight * _root(square - 2 * np.sum(u * product) + np.sum((u.T @ u) * VV))
            objective += mu * _root(np.trace(VV) - 2 * np.sum(product.T * p) + np.sum((p @ gram) * p))
        history.append(objective)
        count(1)
        if model.stop == "code":
            if len(history) > 6 and (history[-2] - objective < 0.1 or graph_norm < 100):
                return last, np.array(history[1:])
        elif not objective <= 2 * history[-2]:
            return last, np.array(history[1:])
        elif abs(history[-2] - objective) <= float(model.tol) * objective:
            return (V, P), np.array(history[1:])
        last = V, P
    return last, np.array(history[1:])


def _normalise_columns(V: Array) -> Array:
    """Scale the columns of V to length 1 in place; return their previous lengths."""
    lengths = np.maximum(np.linalg.norm(V, axis=0), 1e-15)
    V /= lengths
    return lengths


def _times(X: Features, W: Array) -> Array:
    """Return X W in double precision; a dense X is multiplied in its own precision, to avoid a costly conversion."""
    if sp.issparse(X):
        return X @ W
    products, weights = np.empty((X.shape[0], W.shape[1])), W.astype(X.dtype)
    for start, stop in row_chunks(X):
        products[start:stop] = X[start:stop] @ weights
    return products


def _transposed_times(X: Features, V: Array) -> Array:
    """Return X'V in double precision, accumulated over chunks of points in the precision of a dense X."""
    if sp.issparse(X):
        return X.T @ V
    products, values = np.zeros((X.shape[1], V.shape[1])), V.astype(X.dtype)
    for start, stop in row_chunks(X):
        products += X[start:stop].T @ values[start:stop]
    return products


def _root(value: Any) -> float:
    return float(np.sqrt(max(float(value), 0.0)))


def _gram(X: Features) -> Array:
    zero = np.zeros(X.shape[1])
    return sparse_gram(X, zero) if sp.issparse(X) else dense_gram(X, zero, X.dtype)


class _Graph:
    """The graph S = G G' of sampled points, represented by their label rows G."""

    def __init__(self, G: sp.csr_array) -> None:
        self.G = G
        self.degrees = G @ np.asarray(G.sum(axis=0)).ravel()

    def neighbours(self, values: Array) -> Array:
        """Return S v."""
        return self.G @ (self.G.T @ values)

    def laplacian(self, values: Array) -> Array:
        """Return v'(D - S) v."""
        by_label = self.G.T @ values
        return values.T @ (self.degrees[:, None] * values) - by_label.T @ by_label

    def smoothness(self, X: Features) -> Array:
        """Return X'(I - D^-1/2 S D^-1/2) X over the points with labels."""
        labelled = self.degrees > 0
        scale = np.where(labelled, 1 / np.sqrt(np.where(labelled, self.degrees, 1)), 0)
        X = X[labelled]
        spread = X.T @ (sp.diags_array(scale[labelled]) @ self.G[labelled])
        spread = spread.toarray() if sp.issparse(spread) else spread
        gram = X.T @ X
        return (gram.toarray() if sp.issparse(gram) else gram) - spread @ spread.T
