"""LFH: latent factor hashing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._mathematics.targets import RealTargets, Targets
from dlfh._parallel import Workers, blas_threads
from dlfh._progress import Bar, progress
from dlfh._validation import Features, check_choice, check_flag, check_integer, check_positive, check_random_state
from dlfh.codes import pack
from dlfh.errors import InputError
from dlfh.hashing import FitContext, LinearRidge
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

__all__ = ["LFH"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(eq=False, repr=False)
class LFH(CrossModalHasher):
    """Latent factor hashing (Zhang, Zhang, Li and Guo, SIGIR 2014), for one modality or more.

    The probability that points i and j share a label is sigma(Theta_ij), Theta = U U' / 2, for real factors
    U (n x c) in place of codes. With a Gaussian prior of variance beta, maximise

        ``L = sum_(i != j) [s_ij Theta_ij - log(1 + exp(Theta_ij))] - |U|^2 / (2 beta)``

    row after row: with all other rows fixed, L is at least a quadratic function that touches it at U_i, and
    U_i moves to where that one is largest,

        ``U_i += H^-1 g``,  ``g = sum_j (s_ij - sigma(Theta_ij)) U_j - U_i / beta``,
        ``H = sum_j U_j'U_j / 8 + I / beta``,

    so no step lowers L. Codes are the signs of U. Hash functions are ridge regressions of U on the features.
    With several modalities all have the same codes: what DLFH is with a shared code, but relaxed.

    Parameters
    ----------
    n_bits : int, default 64
    beta : float, default 30
        Variance of the factors' prior.
    ridge : float or "auto", default 1
        Ridge of the hash functions, the paper's lambda_e; "auto" as for `LinearRidge`.
    max_iter : int, default 50
        Number of sweeps.
    tol : float, default 0.001
        Stop when a sweep changes L by less than this share. The stochastic solver estimates L from about a million
        pairs, always the same.
    solver : {"stochastic", "full"}, default "stochastic"
        "stochastic" draws points J for each sweep: the others see these alone, and share one H; those in J
        see all. "full" lets every point see all, in n / |J| times the time.
    sample_size : int, optional
        Number of points in J; ``n_bits`` by default.
    regress_on : {"factors", "codes"}, default "factors"
        What hash functions are fitted to: U, or its signs, as DLFH does.
    fit_intercept : bool, default False
        Whether hash functions have an intercept.
    track_objective : bool, default False
        Compute L at the start and after each sweep, in ``objective_``: n^2 c operations each time.
    random_state : int, numpy Generator or None
        Seed of the start, standard normal, and of J.
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_iter_ + 1,)
        L by sweep; empty unless ``track_objective``.
    changes_ : ndarray of float64 (n_iter_,)
        By what share each sweep changed L, as far as the solver knows it.
    n_iter_ : int

    Notes
    -----
    No code of the authors was found. The formulas are the paper's, as others restate them; beta, ridge and
    the start are unverified. A point's pair with itself is left out: its Theta is quadratic in U_i, and the
    steps would not be monotone.

    The stochastic solver does not raise L steadily. With few bits, and so few points in J, factors grow in
    directions that J does not show, and rounding is amplified: a seed gives the same codes again on the same
    machine and number of threads, not on any, as DLFH's does.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> model = LFH(n_bits=16, random_state=0).fit({"image": data.modalities["image"]}, data.labels)
    >>> model.encode("image", data.modalities["image"]).shape
    (300, 2)
    """

    kind = "LFH"
    info = MethodInfo(
        title="Latent factor hashing",
        paper="Zhang, Zhang, Li and Guo, SIGIR 2014",
        supervised=True,
        discrete=False,
        protocols=("learned", "hashed"),
        complexity="T (n m c + m c³) for factors, m samples; n d² for hash functions",
        n_modalities=(1, None),
    )
    _saved_arrays = ("objective_", "changes_")

    n_bits: int = 64
    _: KW_ONLY
    beta: float = 30.0
    ridge: float | Literal["auto"] = 1.0
    max_iter: int = 50
    tol: float = 1e-3
    solver: Literal["stochastic", "full"] = "stochastic"
    sample_size: int | None = None
    regress_on: Literal["factors", "codes"] = "factors"
    fit_intercept: bool = False
    track_objective: bool = False
    random_state: int | np.random.Generator | None = None
    n_jobs: int | None = None
    verbose: bool = False

    objective_: Floats = field(init=False)
    changes_: Floats = field(init=False)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(self.beta, "beta")
        LinearRidge(self.ridge, fit_intercept=self.fit_intercept).check_parameters()
        check_integer(self.max_iter, "max_iter", 0)
        check_positive(self.tol, "tol", allow_zero=True)
        check_choice(self.solver, "solver", ("stochastic", "full"))
        if self.sample_size is not None:
            check_integer(self.sample_size, "sample_size", 1)
        check_choice(self.regress_on, "regress_on", ("factors", "codes"))
        check_flag(self.track_objective, "track_objective")

    @property
    def n_iter_(self) -> int:
        return len(self.changes_)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        n_points, n_bits = label_sets.n_points, int(self.n_bits)
        if self.sample_size is not None and self.sample_size > n_points and self.solver == "stochastic":
            raise InputError(f"sample_size is {self.sample_size} but there are only {n_points} points")
        rng = check_random_state(self.random_state)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            factors = Factors(label_sets, rng.standard_normal((n_points, n_bits)), float(self.beta))
            with blas_threads(1):  # blocks of a few thousand points: two threads would wait for each other
                self._ascend(factors, rng, bar)
            codes = pack(factors.U)
            values: Targets = RealTargets(factors.U, np.arange(n_points), n_bits)
            if self.regress_on == "codes":
                values = Targets(codes, np.arange(n_points), n_bits)
            learner = LinearRidge(self.ridge, fit_intercept=self.fit_intercept)
            context = FitContext(workers, int(rng.integers(2**63)), bar)
            self.hash_functions_ = {
                name: learner.fit(matrix, values, name, context)
                for name, matrix in bar.track(features.items(), "hash functions")
            }
        self.codes_ = {name: codes.copy() for name in features}

    def _ascend(self, factors: Factors, rng: np.random.Generator, bar: Bar) -> None:
        """Sweep until L settles; set ``objective_`` and ``changes_``."""
        everyone = np.arange(len(factors.U))
        full = self.solver == "full"
        n_sampled = min(int(self.sample_size or self.n_bits), len(everyone))
        # Pairs that are always the same ones: what their L gains or loses is not an accident of sampling.
        watched = everyone if full else rng.choice(everyone, min(_WATCHED, len(everyone)), replace=False)
        # L is compared with what it was before, by thousandths: single precision will do, and a million pairs.
        how: Any = {} if full else {"step": -(-len(everyone) // _SEEN), "dtype": np.float32}
        value = factors.log_posterior(watched, **how)
        objective = [factors.log_posterior(everyone)] if self.track_objective else []
        advance = bar.counter("sweeps", int(self.max_iter))
        changes: list[float] = []
        for _ in range(int(self.max_iter)):
            if full:
                factors.sweep()
            else:
                factors.sample_sweep(rng.choice(everyone, n_sampled, replace=False))
            before, value = value, factors.log_posterior(watched, **how)
            if self.track_objective:
                objective.append(factors.log_posterior(everyone))
            changes.append((value - before) / abs(value) if value else 0.0)
            advance()
            if abs(changes[-1]) < self.tol:
                break
        self.objective_, self.changes_ = np.array(objective), np.array(changes)


#: Points whose similarities to all points are held at once.
_BLOCK = 256

#: Points that are looked at, or updated, at once.
_ROWS = 8192

#: Points whose pairs tell the stochastic solver how it is doing, and with how many others, at the most.
_WATCHED, _SEEN = 64, 16384


class Factors:
    """The factors of points, which share a label with probability sigma(U U' / 2).

    Parameters
    ----------
    labels : LabelSets
    U : ndarray of float64 (n, c)
        Where to start; changed in place.
    beta : float
        Variance of the prior.
    """

    def __init__(self, labels: LabelSets, U: Floats, beta: float) -> None:
        self.labels = labels
        self.U = U
        self.beta = beta

    def similar(self, points: Integers, step: int = 1) -> npt.NDArray[np.uint8]:
        """Return S for some points against all, or every so many-th."""
        return self.labels.similar(self.labels.set_of_point[points], self.labels.set_of_point[::step])

    def log_posterior(self, points: Integers, step: int = 1, dtype: npt.DTypeLike = np.float64) -> float:
        """Return L from the pairs of some points with all, or every so many-th, as if the other pairs were like these.

        Terms are computed in ``dtype``, and summed in double precision.
        """
        total, others = 0.0, self.U[::step]
        for block in _blocks(points, _BLOCK):
            # s Theta - log(1 + exp(Theta)) is -log(1 + exp(-Theta)) where s = 1.
            flips, own = 1 - 2 * self.similar(block, step).astype(np.int8), (self.U[block] / 2).astype(dtype)
            for start in range(0, len(others), _ROWS):
                columns = slice(start, start + _ROWS)
                Theta = own @ others[columns].T.astype(dtype)
                Theta *= flips[:, columns]
                terms = np.maximum(Theta, Theta.dtype.type(0))
                np.abs(Theta, out=Theta)
                np.negative(Theta, out=Theta)
                np.exp(Theta, out=Theta)
                if dtype == np.float64:
                    np.log1p(Theta, out=Theta)
                else:
                    Theta += 1
                    np.log(Theta, out=Theta)
                terms += Theta
                place = block // step - start
                inside = (block % step == 0) & (place >= 0) & (place < terms.shape[1])
                terms[inside, place[inside]] = 0
                total -= float(terms.sum(dtype=np.float64))
        return len(self.U) ** 2 / (len(points) * len(others)) * total - float(np.sum(self.U**2)) / (2 * self.beta)

    def gradients(self, points: Integers, S: npt.NDArray[np.uint8]) -> Floats:
        """Return the gradients of L by the points' factors, from their pairs with points that are not among them."""
        own = self.U[points]
        total = -own / self.beta
        for start in range(0, len(self.U), _ROWS):
            U = self.U[start : start + _ROWS]
            residuals = S[:, start : start + _ROWS] - _sigma_of_half(own @ U.T)
            inside = points[(points >= start) & (points < start + _ROWS)] - start
            residuals[:, inside] = 0
            total += residuals @ U
        return total

    def sweep(self) -> None:
        """Update all points in turn, each against all others."""
        for block in _blocks(np.arange(len(self.U)), _BLOCK):
            self._update_each(block, self.similar(block))

    def sample_sweep(self, sample: Integers) -> None:
        """Update all points, of whose pairs only those with a point of the sample are looked at."""
        S = self.similar(sample)
        V = self.U[sample]
        inverse = np.linalg.inv(self._curvature(V.T @ V))
        # Points outside the sample do not see each other: at once is the same as in turn.
        for start in range(0, len(self.U), _ROWS):
            U = self.U[start : start + _ROWS]
            residuals = S[:, start : start + _ROWS].T - _sigma_of_half(U @ V.T)
            U += (residuals @ V - U / self.beta) @ inverse
        self.U[sample] = V
        self._update_each(sample, S)

    def _update_each(self, points: Integers, S: npt.NDArray[np.uint8]) -> None:
        """Update some points in turn, each against all others: of these, only the points themselves change."""
        gradients, own, among = self.gradients(points, S), self.U[points], S[:, points]
        gram = self.U.T @ self.U
        for i in range(len(points)):
            residuals = among[i] - _sigma_of_half(own @ own[i])
            residuals[i] = 0
            gram -= np.outer(own[i], own[i])
            own[i] += np.linalg.solve(self._curvature(gram), gradients[i] + residuals @ own)
            gram += np.outer(own[i], own[i])
        self.U[points] = own

    def _curvature(self, gram: Floats) -> Floats:
        """Return H for the Gram matrix of the factors that are seen."""
        H = gram / 8
        # Not below rounding: a larger H makes a shorter step, and still does not lower L.
        H.flat[:: len(H) + 1] += max(1 / self.beta, 1e-12 * float(np.trace(H)))
        return H


def _sigma_of_half(products: Floats) -> Floats:
    """Return sigma(z / 2) in place: tanh is several times faster than exp and a division."""
    products /= 4
    np.tanh(products, out=products)
    products += 1
    products /= 2
    return products


def _blocks(points: Integers, size: int) -> Iterator[Integers]:
    for start in range(0, len(points), size):
        yield points[start : start + size]
