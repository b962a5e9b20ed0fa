"""SMFH: supervised matrix factorization hashing."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._mathematics.moments import dense_gram, row_chunks, sparse_gram
from dlfh._mathematics.ridge import solve_ridge
from dlfh._parallel import blas_threads
from dlfh._progress import progress
from dlfh._validation import (
    Features,
    check_choice,
    check_fraction,
    check_integer,
    check_positive,
    check_random_state,
    raise_if_not_finite,
)
from dlfh.codes import pack
from dlfh.hashing.linear import LinearHash
from dlfh.hashing.unit import UnitLinearHash, unit_rows
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

__all__ = ["SMFH"]

Array = npt.NDArray[Any]


@dataclass(eq=False, repr=False)
class SMFH(CrossModalHasher):
    """Supervised matrix factorization hashing (Liu, Ji, Wu and Hua, IJCAI 2016).

    Both modalities, with rows of length 1, are factorised as X_m = V U_m' by one V without negative values,
    which respects the labels' graph (S = G G' for label rows G of length 1, Laplacian L = D - S) and which
    projections P_m predict:

        ``sum_m a_m |X_m - V U_m'|^2 + alpha tr(V'L V) + mu sum_m |V - X_m P_m'|^2 + gamma sum_m |P_m|^2
        + orthogonality |V'V - I|^2 + eta sum_m tr(P_m X_m' Ln X_m P_m')``

    with a = (modality_weight, 1 - modality_weight) and Ln the normalised Laplacian. V and U follow multiplicative
    updates, P is in closed form; the graph is sampled anew in each iteration. A bit is 1 where a column of V (or of
    X_m P_m') is above its mean in V. Learned codes are the same for both modalities.

    Parameters
    ----------
    n_bits : int, default 64
    modality_weight : float, default 0.5
        Weight of the first modality, the paper's lambda, between 0 and 1.
    mu : float, default 40
        (The authors: 100 for features of high dimension.)
    alpha : float, default 2
        (The authors: 10 for features of high dimension.)
    gamma, orthogonality : float, default 1e-4
    eta : float, default 1e-3
    sample_size : int, default 1000
        Points of the graph in each iteration; all where there are fewer. (The authors: 5,000 to 10,000 for
        many points.)
    stop : {"tolerance", "code"}, default "tolerance"
        When to stop before ``max_iter``: when an iteration changes the objective by less than ``tol`` (or
        doubles it, which is undone); or as the authors' code (with ``max_iter=50``), which goes back by one
        iteration when, after five, the objective falls by less than 0.1 or the graph's part of it is below
        100. That part grows with the number of bits, so the code trains short codes for a few iterations.
    max_iter : int, default 15
        More is not better: codes get worse after some twenty iterations, and long ones diverge.
    tol : float, default 1e-3
        Share of the objective.
    random_state : int, numpy Generator or None
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_iter_,)
        The authors' measure of progress after each iteration, a weighted sum of norms. The sampled graph
        makes it noisy: nothing says that it must fall. An iteration that was undone is counted.

    Notes
    -----
    The objective is read off the authors' code, followed also where it is loose: U_2 is not rescaled when the
    columns of V are, and X_m P_m' may take V below 0. Mending either made the codes worse. Multiplicative
    updates need features of at least 0. Where a modality has negative values, each of its features x enters
    as the two features max(x, 0) and max(-x, 0); the code would diverge. Another method of the same name
    (Tang, Wang and Shao, TIP 2016) is not meant.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> SMFH(n_bits=16, random_state=0).fit(data.modalities, data.labels).codes_["text"].shape
    (300, 2)
    """

    kind = "SMFH"
    info = MethodInfo(
        title="Supervised matrix factorization hashing",
        paper="Liu, Ji, Wu and Hua, IJCAI 2016",
        supervised=True,
        discrete=False,
        protocols=("learned", "hashed"),
        complexity="n d² + T (n d c + s d² + d³), s points of the graph",
    )
    _saved_arrays = ("objective_",)

    n_bits: int = 64
    _: KW_ONLY
    modality_weight: float = 0.5
    mu: float = 40.0
    alpha: float = 2.0
    gamma: float = 1e-4
    orthogonality: float = 1e-4
    eta: float = 1e-3
    sample_size: int = 1000
    stop: Literal["tolerance", "code"] = "tolerance"
    max_iter: int = 15
    tol: float = 1e-3
    random_state: int | np.random.Generator | None = None
    n_jobs: int | None = None
    verbose: bool = False

    objective_: npt.NDArray[np.float64] = field(init=False)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_fraction(self.modality_weight, "modality_weight")
        for name in ("mu", "gamma"):
            check_positive(getattr(self, name), name)
        for name in ("alpha", "orthogonality", "eta", "tol"):
            check_positive(getattr(self, name), name, allow_zero=True)
        check_integer(self.sample_size, "sample_size", 1)
        check_choice(self.stop, "stop", ("tolerance", "code"))
        check_integer(self.max_iter, "max_iter", 1)

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
            state, self.objective_ = _train(self, X, G, rng, bar.counter("iterations", int(self.max_iter)))
        V, projections = state
        mean = V.mean(axis=0, dtype=np.float64)
        self.codes_ = {name: pack(mean < V) for name in features}
        self.hash_functions_ = {}
        for name, P in zip(features, projections, strict=True):
            zero = np.zeros(P.shape[1])
            function = LinearHash(zero, np.ascontiguousarray(P.T, np.float32), -mean, float(self.gamma))
            self.hash_functions_[name] = UnitLinearHash(function, split=splits[name])


State = tuple[Array, tuple[Array, Array]]


def _train(
    model: SMFH, X: list[Features], G: sp.csr_array, rng: np.random.Generator, count: Any
) -> tuple[State, npt.NDArray[np.float64]]:
    """Return V and the projections P, and the objective after each iteration."""
    n, c = G.shape[0], int(model.n_bits)
    a = (float(model.modality_weight), 1 - float(model.modality_weight))
    mu, alpha, four_gamma = float(model.mu), float(model.alpha), 4 * float(model.orthogonality)
    U = [rng.random((each.shape[1], c)) for each in X]
    P = [rng.random((c, each.shape[1])) for each in X]
    V = rng.random((n, c))
    U[0] *= _normalise_columns(V)
    grams = [_gram(each) for each in X]
    n_sampled = min(int(model.sample_size), n)
    damping = n_sampled**-0.1
    squares = [float(np.trace(gram)) for gram in grams]
    history, last = [np.inf], (V, (P[0], P[1]))
    for _ in range(int(model.max_iter)):
        R = rng.permutation(n)[:n_sampled]
        graph = _Graph(G[R])
        numerator = four_gamma * V
        denominator = V @ (a[0] * (U[0].T @ U[0]) + a[1] * (U[1].T @ U[1]) + four_gamma * (V.T @ V)) + 2 * mu * V
        for weight, each, own, projection in zip(a, X, U, P, strict=True):
            numerator += _times(each, weight * own + mu * projection.T)
        numerator[R] += alpha * damping * graph.neighbours(V[R])
        denominator[R] += alpha * damping * graph.degrees[:, None] * V[R]
        V = V * (numerator / np.maximum(denominator, 1e-10))
        VV = V.T @ V
        XV = [_transposed_times(each, V) for each in X]
        U = [own * (product / np.maximum(own @ VV, 1e-10)) for product, own in zip(XV, U, strict=True)]
        lengths = _normalise_columns(V)
        U[0] *= lengths
        XV = [product / lengths for product in XV]
        P = [
            solve_ridge(gram + float(model.eta) * damping * graph.smoothness(each[R]), float(model.gamma), product).T
            for gram, each, product in zip(grams, X, XV, strict=True)
        ]
        graph_norm = float(np.linalg.norm(graph.laplacian(V[R])))
        objective = alpha * graph_norm + float(model.gamma) * sum(float(np.linalg.norm(each)) for each in P)
        VV = V.T @ V
        for weight, gram, own, product, projection, square in zip(a, grams, U, XV, P, squares, strict=True):
            objective += weight * _root(square - 2 * np.sum(own * product) + np.sum((own.T @ own) * VV))
            predicted = np.sum((projection @ gram) * projection)
            objective += mu * _root(np.trace(VV) - 2 * np.sum(product.T * projection) + predicted)
        history.append(objective)
        count(1)
        if model.stop == "code":
            if len(history) > 6 and (history[-2] - objective < 0.1 or graph_norm < 100):
                return last, np.array(history[1:])
        elif not objective <= 2 * history[-2]:
            return last, np.array(history[1:])
        elif abs(history[-2] - objective) <= float(model.tol) * objective:
            return (V, (P[0], P[1])), np.array(history[1:])
        last = V, (P[0], P[1])
    return last, np.array(history[1:])


def _normalise_columns(V: Array) -> Array:
    """Scale the columns of V to length 1, in place, and return what their lengths were."""
    lengths = np.maximum(np.linalg.norm(V, axis=0), 1e-15)
    V /= lengths
    return lengths


def _times(X: Features, W: Array) -> Array:
    """Return X W in double precision, a dense X multiplied in its own: converting it would cost more than all else."""
    if sp.issparse(X):
        return X @ W
    products, weights = np.empty((X.shape[0], W.shape[1])), W.astype(X.dtype)
    for start, stop in row_chunks(X):
        products[start:stop] = X[start:stop] @ weights
    return products


def _transposed_times(X: Features, V: Array) -> Array:
    """Return X'V in double precision, sums over chunks of points in that of a dense X."""
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
    return sparse_gram(X, zero)[0] if sp.issparse(X) else dense_gram(X, zero, X.dtype)


class _Graph:
    """The graph S = G G' of some points, through their label rows G alone."""

    def __init__(self, G: sp.csr_array) -> None:
        self.G = G
        self.degrees = G @ np.asarray(G.sum(axis=0)).ravel()

    def neighbours(self, values: Array) -> Array:
        """Return S v."""
        return self.G @ (self.G.T @ values)

    def laplacian(self, values: Array) -> Array:
        """Return v'(D - S) v."""
        own = self.G.T @ values
        return values.T @ (self.degrees[:, None] * values) - own.T @ own

    def smoothness(self, X: Features) -> Array:
        """Return X'(I - D^-1/2 S D^-1/2) X; points without labels have no part in it."""
        labelled = self.degrees > 0
        scale = np.where(labelled, 1 / np.sqrt(np.where(labelled, self.degrees, 1)), 0)
        X = X[labelled]
        spread = X.T @ (sp.diags_array(scale[labelled]) @ self.G[labelled])
        spread = spread.toarray() if sp.issparse(spread) else spread
        gram = X.T @ X
        return (gram.toarray() if sp.issparse(gram) else gram) - spread @ spread.T
