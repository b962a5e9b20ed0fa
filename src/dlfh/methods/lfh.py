"""LFH: latent factor hashing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Floats, Integers
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, RealTargets, Targets
from dlfh._parallel import Workers, blas_threads
from dlfh._probabilities.fit import LabelFit
from dlfh._progress import Bar, progress
from dlfh._validation import Features, check_random_state
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack
from dlfh.errors import InputError
from dlfh.hashing import LinearRidge
from dlfh.hashing.base import FitContext
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, NonNegativeInt, Positive, PositiveInt, RidgeOrAuto


@dataclass(eq=False, repr=False, kw_only=True)
class LFH(Method):
    """Latent factor hashing (Zhang, Zhang, Li and Guo, SIGIR 2014), for one or more modalities.

    Points i and j share a label with probability sigma(Theta_ij), Theta = U U' / 2, where U (n x c) holds real factors
    in place of codes. With a Gaussian prior of variance beta, the method maximises

        ``L = sum_(i != j) [s_ij Theta_ij - log(1 + exp(Theta_ij))] - |U|^2 / (2 beta)``

    row by row. With other rows fixed, U_i moves to the maximum of a quadratic lower bound of L that is tight at U_i:

        ``U_i += H^-1 g``,  ``g = sum_j (s_ij - sigma(Theta_ij)) U_j - U_i / beta``,
        ``H = sum_j U_j'U_j / 8 + I / beta``,

    No step decreases L. Codes are the signs of U, shared by all modalities: a relaxation of DLFH with a shared code.
    Hash functions are ridge regressions of U on the features.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    beta : float, default 30
        Variance of the prior of the factors.
    ridge : float or "auto", default 1
        Ridge of the hash functions, the paper's lambda_e; "auto" as for `LinearRidge`.
    max_iter : int, default 50
        Maximum number of sweeps.
    tol : float, default 0.001
        Stop when a sweep changes L by less than this share. "stochastic" estimates L from about a million fixed pairs.
    solver : {"stochastic", "full"}, default "stochastic"
        "stochastic" samples points J for each sweep. Points outside J are updated against J only, with one common H;
        points in J against all points. "full" updates every point against all points: n / |J| times slower.
    sample_size : int, optional
        Number of points in J; ``n_bits`` by default.
    regress_on : {"factors", "codes"}, default "factors"
        Fit the hash functions to U, or to its signs as in DLFH.
    fit_intercept : bool, default False
        Whether hash functions have an intercept.
    track_objective : bool, default False
        Whether to compute L at the start and after each sweep, in ``objective_``, with n^2 c operations each time.
    random_state : int, numpy Generator or None
        Seed of the initial factors, which are standard normal, and of J.

    Attributes
    ----------
    objective_ : ndarray of float64 (n_iter_ + 1,)
        L at the start and after each sweep; empty unless ``track_objective``.
    changes_ : ndarray of float64 (n_iter_,)
        Relative change of L in each sweep, as estimated by the solver.
    n_iter_ : int

    Notes
    -----
    The authors' code was not found. The formulas follow restatements of the paper; beta, ridge and the initial factors
    are unverified. A point is not paired with itself: its Theta would be quadratic, and steps not monotone.

    The stochastic solver may decrease L. With few bits, and therefore few points in J, factors grow in directions that
    J does not contain, and rounding errors are amplified. Unlike in DLFH, a seed determines the codes only on the same
    machine with the same number of threads.

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
        complexity="T (n m c + m c³) for factors, m samples; n d² for hash functions",
        n_modalities=(1, None),
    )
    _saved_arrays = ("objective_", "changes_")

    beta: Positive = 30.0
    ridge: RidgeOrAuto = 1.0
    max_iter: NonNegativeInt = 50
    tol: NonNegative = 1e-3
    solver: Literal["stochastic", "full"] = "stochastic"
    sample_size: PositiveInt | None = None
    regress_on: Literal["factors", "codes"] = "factors"
    fit_intercept: bool = False
    track_objective: bool = False

    changes_: Floats = field(init=False)

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
            with blas_threads(1):  # blocks are too small for more threads
                self._ascend(factors, rng, bar)
            codes = pack(factors.U)
            targets: Targets = RealTargets(factors.U, np.arange(n_points), n_bits)
            if self.regress_on == "codes":
                targets = Targets(codes, np.arange(n_points), n_bits)
            learner = LinearRidge(self.ridge, fit_intercept=self.fit_intercept)
            fits = LabelFit(n_bits, FitContext(workers, int(rng.integers(2**63)), bar))
            known = BlockTargets.in_memory(targets, label_sets)
            self.hash_functions_ = {
                name: fits.fit(learner, in_one_block(matrix, name), known, name)
                for name, matrix in bar.track(features.items(), "hash functions")
            }
            self._calibrate_later(fits.model(tuple(features)))
        self.codes_ = {name: codes.copy() for name in features}

    def _ascend(self, factors: Factors, rng: np.random.Generator, bar: Bar) -> None:
        points = np.arange(len(factors.U))
        full = self.solver == "full"
        n_sampled = min(int(self.sample_size or self.n_bits), len(points))
        # A fixed sample of pairs, so that changes of L are not sampling noise.
        rows = points if full else rng.choice(points, min(_MONITORED_ROWS, len(points)), replace=False)
        # Relative changes of about 1e-3 matter: single precision and a million pairs are enough.
        estimate: Any = {} if full else {"step": -(-len(points) // _MONITORED_COLUMNS), "dtype": np.float32}
        value = factors.log_posterior(rows, **estimate)
        objective = [factors.log_posterior(points)] if self.track_objective else []
        advance = bar.counter("sweeps", int(self.max_iter))
        changes: list[float] = []
        for _ in range(int(self.max_iter)):
            if full:
                factors.sweep()
            else:
                factors.sample_sweep(rng.choice(points, n_sampled, replace=False))
            before, value = value, factors.log_posterior(rows, **estimate)
            if self.track_objective:
                objective.append(factors.log_posterior(points))
            changes.append((value - before) / abs(value) if value else 0.0)
            advance()
            if abs(changes[-1]) < self.tol:
                break
        self.objective_, self.changes_ = np.array(objective), np.array(changes)


_BLOCK = 256  #: Number of points whose similarities to all points are in memory at a time.
_ROWS = 8192  #: Points per block of products.
#: Maximum numbers of rows and columns of the pairs from which the stochastic solver estimates L.
_MONITORED_ROWS, _MONITORED_COLUMNS = 64, 16384


class Factors:
    """Factors U of points that share a label with probability sigma(U U' / 2), updated in place."""

    def __init__(self, labels: LabelSets, U: Floats, beta: float) -> None:
        self.labels, self.U, self.beta = labels, U, beta

    def similar(self, points: Integers, step: int = 1) -> npt.NDArray[np.uint8]:
        """Return S for the given points against every ``step``-th point."""
        return self.labels.similar(self.labels.set_of_point[points], self.labels.set_of_point[::step])

    def log_posterior(self, points: Integers, step: int = 1, dtype: npt.DTypeLike = np.float64) -> float:
        """Return L from the given points and every ``step``-th point; terms have ``dtype``, sums double precision."""
        total, others = 0.0, self.U[::step]
        for block in _blocks(points):
            # s Theta - log(1 + exp(Theta)) is -log(1 + exp(-Theta)) where s = 1.
            signs, half = 1 - 2 * self.similar(block, step).astype(np.int8), (self.U[block] / 2).astype(dtype)
            for start in range(0, len(others), _ROWS):
                columns = slice(start, start + _ROWS)
                Theta = half @ others[columns].T.astype(dtype)
                Theta *= signs[:, columns]
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
        """Return the gradients of L with respect to the points' factors, from their pairs with all other points."""
        factors = self.U[points]
        total = -factors / self.beta
        for start in range(0, len(self.U), _ROWS):
            U = self.U[start : start + _ROWS]
            residuals = S[:, start : start + _ROWS] - _sigma_of_half(factors @ U.T)
            inside = points[(points >= start) & (points < start + _ROWS)] - start
            residuals[:, inside] = 0
            total += residuals @ U
        return total

    def sweep(self) -> None:
        """Update all points in turn, each against all others."""
        for block in _blocks(np.arange(len(self.U))):
            self._update_each(block, self.similar(block))

    def sample_sweep(self, sample: Integers) -> None:
        """Update all points, using only pairs with a sampled point."""
        S = self.similar(sample)
        V = self.U[sample]
        inverse = np.linalg.inv(self._curvature(V.T @ V))
        # Points outside the sample do not depend on each other and are updated together.
        for start in range(0, len(self.U), _ROWS):
            U = self.U[start : start + _ROWS]
            residuals = S[:, start : start + _ROWS].T - _sigma_of_half(U @ V.T)
            U += (residuals @ V - U / self.beta) @ inverse
        self.U[sample] = V
        self._update_each(sample, S)

    def _update_each(self, points: Integers, S: npt.NDArray[np.uint8]) -> None:
        """Update the given points in turn, each against all others."""
        gradients, U, S_within = self.gradients(points, S), self.U[points], S[:, points]
        gram = self.U.T @ self.U
        for i in range(len(points)):
            residuals = S_within[i] - _sigma_of_half(U @ U[i])
            residuals[i] = 0
            gram -= np.outer(U[i], U[i])
            U[i] += np.linalg.solve(self._curvature(gram), gradients[i] + residuals @ U)
            gram += np.outer(U[i], U[i])
        self.U[points] = U

    def _curvature(self, gram: Floats) -> Floats:
        """Return H for the Gram matrix of the other points' factors."""
        H = gram / 8
        # Add at least the rounding error: a larger H makes a shorter step, which does not decrease L either.
        H.flat[:: len(H) + 1] += max(1 / self.beta, 1e-12 * float(np.trace(H)))
        return H


def _sigma_of_half(products: Floats) -> Floats:
    """Return sigma(z / 2), computed in place; tanh is several times faster than exp and a division."""
    products /= 4
    np.tanh(products, out=products)
    products += 1
    products /= 2
    return products


def _blocks(points: Integers) -> list[Integers]:
    return np.split(points, range(_BLOCK, len(points), _BLOCK))
