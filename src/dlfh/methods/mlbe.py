"""MLBE: multimodal latent binary embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.optimize
import scipy.sparse.linalg
import scipy.special

from dlfh import _kernels
from dlfh._arrays import Floats, Singles
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._mathematics.rotation import iterative_quantization, random_rotation, signs
from dlfh._parallel import Workers
from dlfh._progress import Bar, progress
from dlfh._validation import Features, check_random_state
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import pack, pad_to_words
from dlfh.errors import InputError
from dlfh.hashing import HashFunction
from dlfh.hashing.feature_maps import RBFMap, fit_kernel
from dlfh.hashing.kernel import KernelHash, LatentBinaryHash
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import AtLeastTwo, Fraction, NonNegative, NonNegativeInt, Positive, PositiveInt

Bits = npt.NDArray[np.int8]


@dataclass(eq=False, repr=False, kw_only=True)
class MLBE(Method):
    """Multimodal latent binary embedding (Zhen and Yeung, KDD 2012).

    A probabilistic model of codes u_i, v_j in {-1, +1}^K. Similarities within a modality are S_ij ~ N(u_i'W u_j, theta)
    for a symmetric W with W_kl ~ N(0, phi). Points of different modalities are similar (share a label) with probability
    sigma(w u_i'v_j), w half-normal. The precisions 1/theta and 1/phi have Gamma priors. Block coordinate ascent
    maximises the posterior: W, phi, the codes bit by bit and theta of each modality, then w.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    bit_prior : float, default 0.5
        Prior probability that a bit is 1.
    shape, rate : float, default 1
        Parameters of all Gamma priors; the shape is at least 1.
    init : {"spectral", "random"}, default "spectral"
        Start both modalities from the leading eigenvectors of the similarities, rotated towards their signs as in
        CCA-ITQ; or, like the authors, from random codes, which rarely recover planted codes.
    max_iter : int, default 30
    tol : float, default 1e-2
        Stop when an iteration increases the log-posterior by less than this.
    encoding : {"mean", "sweep"}, default "mean"
        Encode a new point, from its similarities to the training points, as signs of the posterior mean of a real code
        with a standard normal prior; or, like the authors, by one sweep of the bit rule, which ends in poor optima.
    n_train : int, optional
        Train on a random sample of this size and encode the other points. Default: all points. (The paper: 1,000.)
    memory : int, default 4 GiB
        Maximum memory in bytes for the similarities, which take 8 n^2 bytes.

    Attributes
    ----------
    objective_ : ndarray of float64
        Log-posterior, up to a constant, at the start and after every block.

    Notes
    -----
    Every block is maximised exactly with the others fixed, so the log-posterior never decreases. S_ij, S_ji and S_ii
    each have weight one half; W then has a closed form in K x K matrices, where the authors' code builds a matrix of
    size n^2 x K^2, and w is a stationary point instead of the result of a hundred small steps. The authors' choice of
    similarities and priors was not found; exp(-|x - y|^2 / mean) and the constants of the priors are ours. Sweeps over
    new points all start from the same random code, so that a code depends on its point only.
    """

    kind = "MLBE"
    info = MethodInfo(
        title="Multimodal latent binary embedding",
        paper="Zhen and Yeung, KDD 2012",
        supervised=True,
        discrete=True,
        complexity="T n² c, and n² memory",
    )
    _saved_arrays = ("objective_",)

    bit_prior: Fraction = 0.5
    shape: Positive = 1.0
    rate: Positive = 1.0
    init: Literal["spectral", "random"] = "spectral"
    max_iter: NonNegativeInt = 30
    tol: NonNegative = 1e-2
    encoding: Literal["mean", "sweep"] = "mean"
    n_train: AtLeastTwo | None = None
    memory: PositiveInt = 4 << 30

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.shape < 1:
            raise InputError(f"shape must be at least 1, got {self.shape!r}")

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        n_points = label_sets.n_points
        rng = check_random_state(self.random_state)
        n_train = min(int(self.n_train or n_points), n_points)
        if 8 * n_train**2 > self.memory:
            raise InputError(
                f"MLBE on {n_train} points needs {8 * n_train**2 / 2**30:.1f} GiB for their similarities, more than "
                f"memory={self.memory} bytes: reduce n_train or increase memory"
            )
        chosen = np.sort(rng.permutation(n_points)[:n_train])
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            seed = int(rng.integers(2**63))
            kernels = [fit_kernel(matrix[chosen], n_train, seed, name) for name, matrix in features.items()]
            similarities = [_similarities(kernel) for kernel in kernels]
            codes = start_codes(similarities, int(self.n_bits), str(self.init), rng)
            posterior = Posterior(similarities, label_sets.take(chosen), codes, workers, self)
            self.objective_ = posterior.ascend(int(self.max_iter), float(self.tol), bar)
            start = rng.choice(np.array([-1, 1], np.int8), int(self.n_bits))
            self.codes_, self.hash_functions_ = {}, {}
            for (name, matrix), kernel, view in zip(features.items(), kernels, posterior.views, strict=True):
                function: HashFunction
                if self.encoding == "mean":
                    function = KernelHash(kernel, view.posterior_mean(), np.zeros(len(view.W)), is_logistic=False)
                else:
                    function = LatentBinaryHash(kernel, view.embedded, start, 1 / view.theta, posterior.log_prior)
                packed = pack(view.codes) if n_train == n_points else function.encode(matrix, name, workers)
                packed[chosen] = pack(view.codes)
                self.codes_[name], self.hash_functions_[name] = packed, function


def _similarities(kernel: RBFMap) -> Singles:
    """Return the kernel values of the training points, computed in blocks of rows."""
    points = kernel.bases.astype(np.float64) + kernel.centre
    S = np.empty((len(points), len(points)), np.float32)
    for first in range(0, len(points), 512):
        S[first : first + 512] = kernel(points[first : first + 512])
    return S


def start_codes(similarities: list[Singles], n_bits: int, kind: str, rng: np.random.Generator) -> list[Bits]:
    """Return initial codes for both modalities."""
    n = len(similarities[0])
    random = rng.choice(np.array([-1, 1], np.int8), (2, n, n_bits))
    n_vectors = min(n_bits, n - 1)
    if kind == "random" or n_vectors < 1:
        return list(random)
    scales = [1 / np.sqrt(max(_sum_of_squares(S), 1e-300)) for S in similarities]

    def total(vector: Floats) -> Floats:
        single = vector.astype(np.float32)
        return sum(scale * (S @ single).astype(np.float64) for scale, S in zip(scales, similarities, strict=True))

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=total, dtype=np.float64)
    _, vectors = scipy.sparse.linalg.eigsh(operator, n_vectors, v0=rng.standard_normal(n), tol=1e-3)
    points = ArrayBlocks(np.sqrt(n) * vectors, None, "eigenvectors")
    rotation, _ = iterative_quantization([points], random_rotation(n_vectors, rng), 50)
    codes = random[0]
    codes[:, :n_vectors] = signs(vectors @ rotation)
    return [codes, codes.copy()]


def _sum_of_squares(S: Singles) -> float:
    return float(sum(np.sum(row.astype(np.float64) ** 2) for row in S))


@dataclass
class _View:
    """Similarities S of one modality with |S|^2, its codes U, and the parameters W, theta and phi."""

    S: Singles
    square: float
    codes: Bits
    W: Floats
    theta: float = 1.0
    phi: float = 1.0

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Compute A = U W and A'A."""
        U = self.codes.astype(np.float64)
        self.embedded = U @ self.W
        self.gram = self.embedded.T @ self.embedded

    def products(self) -> tuple[Floats, Floats]:
        """Return U'U and U'S U."""
        U = self.codes.astype(np.float32)
        return U.T.astype(np.float64) @ U, U.T.astype(np.float64) @ (self.S @ U)

    def posterior_mean(self) -> Floats:
        """Return A (A'A + theta I)^-1, which maps a new point's similarities to the mean of its code."""
        regular = self.gram + self.theta * np.eye(len(self.gram))
        return scipy.linalg.solve(regular, self.embedded.T, assume_a="pos", check_finite=False).T

    def squared_error(self) -> float:
        """Return |S - U W U'|^2."""
        G, USU = self.products()
        return max(self.square - 2 * float(np.sum(self.W * USU)) + float(np.sum((self.W @ G) * (G @ self.W))), 0.0)


class Posterior:
    """MLBE's log-posterior and its block updates, which change the initial codes in place."""

    def __init__(
        self, similarities: list[Singles], labels: LabelSets, codes: list[Bits], workers: Workers, model: MLBE
    ) -> None:
        self.n_points, self.n_bits = codes[0].shape
        self.labels, self.workers = labels, workers
        self.shape, self.rate, self.prior = float(model.shape), float(model.rate), float(model.bit_prior)
        self.log_prior = float(np.log(self.prior / (1 - self.prior)))
        self.lists = labels.inverted_lists()
        W = np.eye(self.n_bits) / self.n_bits
        self.views = [_View(S, _sum_of_squares(S), U, W) for S, U in zip(similarities, codes, strict=True)]
        self.link, self.phi = 0.1, 1.0

    def ascend(self, max_iter: int, tol: float, bar: Bar | None = None) -> Floats:
        """Maximise the log-posterior block by block; return it at the start and after every block."""
        history = [self.log_posterior()]
        count = (bar or Bar()).counter("codes", max_iter)
        for _ in range(max_iter):
            before = history[-1]
            for view, other in (self.views, self.views[::-1]):
                for block in (self.update_weights, self.update_phi, self.update_codes, self.update_theta):
                    block(view, other)
                    history.append(self.log_posterior())
            for step in (self.update_link, self.update_link_phi):
                step()
                history.append(self.log_posterior())
            count(1)
            if history[-1] - before <= tol:
                break
        return np.array(history)

    def update_weights(self, view: _View, other: _View) -> None:
        """Solve G W G + (theta / phi) W = U'S U by the eigenvectors of G = U'U."""
        G, USU = view.products()
        values, E = np.linalg.eigh(G)
        view.W = E @ ((E.T @ USU @ E) / (np.outer(values, values) + view.theta / view.phi + 1e-9)) @ E.T
        view.W = (view.W + view.W.T) / 2
        view.refresh()

    def update_phi(self, view: _View, other: _View) -> None:
        view.phi = (self.rate + float(np.sum(view.W**2)) / 4) / (self.n_bits**2 / 4 + self.shape - 1)

    def update_theta(self, view: _View, other: _View) -> None:
        view.theta = (self.rate + view.squared_error() / 4) / (self.n_points**2 / 4 + self.shape - 1)

    def update_codes(self, view: _View, other: _View) -> None:
        """Set each bit of each point in turn to its more probable value."""
        labels, K = self.labels, self.n_bits
        set_sums = np.zeros((labels.n_sets, K))
        np.add.at(set_sums, labels.set_of_point, other.codes)
        t = np.arange(-K, K + 1)
        slopes = np.logaddexp(0, self.link * (t + 1)) - np.logaddexp(0, self.link * (t - 1))
        own = view.S, view.codes, view.W, view.embedded, view.gram
        others = np.ascontiguousarray(other.codes.T), labels.set_of_point, labels.lists, self.lists, set_sums
        _kernels.update_latent_bits(*own, *others, (1 / view.theta, self.link, slopes, self.log_prior))
        view.refresh()

    def _link_terms(self) -> tuple[Floats, Floats, Floats]:
        """Return, by Hamming distance, u'v and the numbers of similar pairs and of all pairs across modalities."""
        codes = [pad_to_words(pack(view.codes)) for view in self.views]
        rows = LabelRows.of_points(self.labels)
        counts = rows.count_pairs(self.n_bits, (0, 1), codes, self.workers).astype(np.float64)
        theta = self.n_bits - 2 * np.arange(self.n_bits + 1, dtype=np.float64)
        return theta, counts[1], counts.sum(axis=0)

    def update_link(self) -> None:
        """Set w to the root of the derivative, which decreases with w."""
        theta, similar, total = self._link_terms()

        def slope(w: float) -> float:
            return float(similar @ theta - total @ (theta * scipy.special.expit(w * theta)) - w / self.phi)

        high = 1.0
        while slope(high) > 0:
            high *= 2
        self.link = float(scipy.optimize.brentq(slope, 0.0, high, xtol=1e-12)) if slope(0.0) > 0 else 0.0

    def update_link_phi(self) -> None:
        self.phi = (2 * self.rate + self.link**2) / (2 * self.shape - 1)

    def log_posterior(self) -> float:
        """Return the log-posterior up to a constant."""
        theta, similar, total = self._link_terms()
        value = self.link * float(similar @ theta) - float(total @ np.logaddexp(0, self.link * theta))
        value -= self.link**2 / (2 * self.phi) + np.log(self.phi) / 2 + self._gamma(self.phi)
        for view in self.views:
            value -= self.n_points**2 / 4 * np.log(view.theta) + view.squared_error() / (4 * view.theta)
            value -= self.n_bits**2 / 4 * np.log(view.phi) + float(np.sum(view.W**2)) / (4 * view.phi)
            value -= self._gamma(view.theta) + self._gamma(view.phi)
            ones = float(np.count_nonzero(view.codes > 0))
            value += ones * np.log(self.prior) + (view.codes.size - ones) * np.log(1 - self.prior)
        return float(value)

    def _gamma(self, variance: float) -> float:
        """Return the negative log of the Gamma prior of a precision 1 / variance, up to a constant."""
        return (self.shape - 1) * np.log(variance) + self.rate / variance
