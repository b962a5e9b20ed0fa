"""Many linear classifiers that share their features, solved as one problem.

For each column u of signs: minimise over w  sum_i loss(u_i K_i w) + eta w'K0 w, with the loss of logistic
regression, log(1 + exp(-m)), or of a support vector machine, max(0, 1 - m)^2: squared, so that it is
smooth (LIBLINEAR's L2-loss). All columns share K, so each step costs two matrix products for all of them
together. Variables are scaled by the curvature bound b K'K + 2 eta K0 (one Cholesky factor for all
columns), b the loss's largest curvature; each column then follows its own L-BFGS direction. Margins are
linear in w, so the line search needs no product at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._parallel import Workers

__all__ = ["LOGISTIC", "SQUARED_HINGE", "Classifiers", "Fit", "Loss", "solve_logistic"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Yields the bounds and the rows of K, block after block, each time it is called. Rows are an array, or anything that
#: has products: ``K @ weights``, ``K.T @ values``, and ``K.T @ K``.
Blocks = Callable[[], Iterator[tuple[int, int, Any]]]

_MEMORY = 10


@dataclass(frozen=True)
class Loss:
    """A convex loss of margins m = u K w.

    Attributes
    ----------
    losses : callable
        From values K w and signs u, writes minus the loss's derivatives by K w, and returns each column's loss.
    curvatures : callable
        From these derivatives and changes of K w, returns each column's sum of second derivatives x changes^2.
    most_curvature : float
        No second derivative is larger.
    """

    losses: Callable[[Singles, npt.NDArray[np.int8], Singles], Floats]
    curvatures: Callable[[Singles, Singles], Floats]
    most_curvature: float


def _logistic_losses(values: Singles, signs: npt.NDArray[np.int8], residuals: Singles) -> Floats:
    m = values * signs
    decay = np.exp(-np.abs(m))
    residuals[:] = np.where(m >= 0, decay, 1) / (1 + decay) * signs
    return np.sum(np.log1p(decay) - np.minimum(m, 0), axis=0, dtype=np.float64)


def _logistic_curvatures(residuals: Singles, changes: Singles) -> Floats:
    pull = np.abs(residuals)
    return np.sum(pull * (1 - pull) * changes**2, axis=0, dtype=np.float64)


LOGISTIC = Loss(_logistic_losses, _logistic_curvatures, 0.25)
# (Kernels by another name: encoding imports this module, and has no need of Numba.)
SQUARED_HINGE = Loss(lambda *blocks: _kernels.hinge_losses(*blocks), lambda *b: _kernels.hinge_curvatures(*b), 2.0)


@dataclass(frozen=True)
class Fit:
    """Weights (features, columns), each column's objective, the number of iterations, and K w (n, columns)."""

    weights: Floats
    objective: Floats
    n_iter: int
    values: Singles


class Classifiers:
    """Features, loss and penalty of some classifiers: what can be prepared before their signs are known.

    Parameters
    ----------
    blocks : callable
        Gives the rows of K (n, k) in float32 blocks, from the start, each time it is called; see `Blocks`.
    K0 : ndarray of float64 (k, k)
        Positive semi-definite matrix of the penalty.
    penalty : float
        The paper's eta; 1 / (2 C) in terms of LIBLINEAR's C, with K0 = I.
    loss : Loss
    workers : Workers
    """

    def __init__(self, blocks: Blocks, K0: Floats, penalty: float, loss: Loss, workers: Workers) -> None:
        self.blocks = blocks
        self.K0 = K0
        self.penalty = penalty
        self.loss = loss
        self.workers = workers
        self._scaling = _scaling(blocks, K0, penalty, loss.most_curvature)

    def solve(
        self,
        signs: npt.NDArray[np.int8],
        *,
        start: Fit | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        on_done: Callable[[int], None] = lambda n_columns: None,
    ) -> Fit:
        """Return one classifier per column of ``signs``.

        Parameters
        ----------
        signs : ndarray of int8 (n, c)
            -1 and +1.
        start : Fit, optional
            Where to start, as another call left it; by default from zeros.
        tol : float
            A column is done when two steps in a row were each expected to improve its objective by less
            than this share.
        max_iter : int
        on_done : callable
            Told how many columns are done each time some are.
        """
        k, n_columns = len(self.K0), signs.shape[1]
        weights, objective = np.zeros((k, n_columns)), np.zeros(n_columns)
        values = np.zeros(signs.shape, np.float32)
        state = self._start(signs, start or Fit(weights, objective, 0, values))
        n_iter = 0
        while len(state.index) and n_iter < max_iter:
            n_iter += 1
            gradient = 2 * self.penalty * state.K0_weights
            for first, last, K in self.blocks():
                gradient -= K.T @ state.residuals[first:last]
            scaled = self._scaling @ gradient
            direction = state.direction(scaled)
            slope = _dots(direction, scaled)
            step = self._scaling.T @ direction
            length = self._line_search(state, step, slope)
            state.remember(length * direction, scaled)
            expected = -0.5 * length * slope
            state.quiet = np.where(expected <= tol * np.abs(state.objective), state.quiet + 1, 0)
            done = state.quiet >= 2
            if done.any():
                weights[:, state.index[done]], objective[state.index[done]] = (
                    state.weights[:, done],
                    state.objective[done],
                )
                values[:, state.index[done]] = state.margins[:, done]
                state = state.keep(~done)
                on_done(int(done.sum()))
        weights[:, state.index], objective[state.index] = state.weights, state.objective
        values[:, state.index] = state.margins
        return Fit(weights, objective, n_iter, values)

    def _start(self, signs: npt.NDArray[np.int8], start: Fit) -> _Columns:
        K0_weights = self.K0 @ start.weights
        residuals, loss = self._losses(start.values, signs)
        return _Columns(
            np.arange(signs.shape[1]),
            signs,
            start.values,
            residuals,
            start.weights.copy(),
            K0_weights,
            loss + self.penalty * _dots(start.weights, K0_weights),
            np.zeros(signs.shape[1], np.int64),
        )

    def _products(self, weights: Floats, out: Singles) -> None:
        single = weights.astype(np.float32)
        for first, last, K in self.blocks():
            out[first:last] = K @ single

    def _losses(self, margins: Singles, signs: npt.NDArray[np.int8]) -> tuple[Singles, Floats]:
        """Return minus the derivatives of the loss by K w, and the loss of each column."""
        residuals = np.empty_like(margins)

        def block(start: int, stop: int) -> Floats:
            return self.loss.losses(margins[start:stop], signs[start:stop], residuals[start:stop])

        return residuals, np.sum(self.workers.map_blocks(block, len(margins), _BLOCK), axis=0)

    def _line_search(self, state: _Columns, step: Floats, slope: Floats) -> Floats:
        """Move every column along its step, by a Newton length that is halved until it improves enough."""
        K0_step = self.K0 @ step
        changes = np.empty_like(state.margins)
        self._products(step, changes)

        def curvature_block(start: int, stop: int) -> Floats:
            return self.loss.curvatures(state.residuals[start:stop], changes[start:stop])

        curvature = np.sum(self.workers.map_blocks(curvature_block, len(changes), _BLOCK), axis=0)
        quadratic = self.penalty * _dots(step, K0_step)
        length = np.minimum(-slope * _inverse(curvature + 2 * quadratic), 1e3)
        at_zero = self.penalty * _dots(state.weights, state.K0_weights)
        linear = 2 * self.penalty * _dots(step, state.K0_weights)
        while True:
            margins = state.margins + length.astype(np.float32) * changes
            residuals, loss = self._losses(margins, state.signs)
            objective = loss + at_zero + length * linear + length**2 * quadratic
            # The margins are single precision: a difference below their rounding is no reason to go back.
            allowed = state.objective + 1e-4 * length * slope + 1e-7 * np.abs(state.objective)
            worse = (objective > allowed) & (length > 1e-10)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        state.margins, state.residuals, state.objective = margins, residuals, objective
        state.weights = state.weights + length * step
        state.K0_weights = state.K0_weights + length * K0_step
        return length


def solve_logistic(
    blocks: Blocks, signs: npt.NDArray[np.int8], K0: Floats, penalty: float, workers: Workers, **options: Any
) -> Fit:
    """Solve one logistic regression per column of ``signs``; options as for `Classifiers.solve`."""
    return Classifiers(blocks, K0, penalty, LOGISTIC, workers).solve(signs, **options)


#: Rows per block of elementwise work: fixed, so that sums do not depend on the number of threads.
_BLOCK = 8192


def _scaling(blocks: Blocks, K0: Floats, penalty: float, most_curvature: float) -> Floats:
    """Return the inverse of the curvature bound's Cholesky factor.

    The inverse, because products are NumPy's: NumPy and SciPy each have a BLAS with threads of its own, which
    wait for work busily, and are in each other's way where calls alternate.
    """
    import scipy.linalg  # here, since encoding imports this module and solves nothing

    bound = 2 * penalty * K0
    for _, _, K in blocks():
        bound += most_curvature * (K.T @ K)
    bound.flat[:: len(bound) + 1] += 1e-10 * np.trace(bound) / len(bound) + np.finfo(np.float64).tiny
    jitter = 1e-8 * np.trace(bound) / len(bound)
    while True:
        try:
            factor = scipy.linalg.cholesky(bound, lower=True, check_finite=False)
            return scipy.linalg.solve_triangular(factor, np.eye(len(bound)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # float32 products: rounding made it indefinite
            bound.flat[:: len(bound) + 1] += jitter
            jitter *= 10


def _dots(a: Floats, b: Floats) -> Floats:
    return np.einsum("kc,kc->c", a, b)


@dataclass
class _Columns:
    """The columns that are not done yet: where they are, and what L-BFGS remembers of their way."""

    index: npt.NDArray[np.int64]
    signs: npt.NDArray[np.int8]
    margins: Singles
    residuals: Singles
    weights: Floats
    K0_weights: Floats
    objective: Floats
    quiet: npt.NDArray[np.int64]
    steps: list[Floats] = field(default_factory=list)
    changes: list[Floats] = field(default_factory=list)
    last: tuple[Floats, Floats] | None = None

    def keep(self, which: npt.NDArray[np.bool_]) -> _Columns:
        last = None if self.last is None else (self.last[0][:, which], self.last[1][:, which])
        return _Columns(
            self.index[which],
            np.ascontiguousarray(self.signs[:, which]),
            np.ascontiguousarray(self.margins[:, which]),
            np.ascontiguousarray(self.residuals[:, which]),
            self.weights[:, which],
            self.K0_weights[:, which],
            self.objective[which],
            self.quiet[which],
            [step[:, which] for step in self.steps],
            [change[:, which] for change in self.changes],
            last,
        )

    def remember(self, step: Floats, gradient: Floats) -> None:
        self.last = step, gradient

    def direction(self, gradient: Floats) -> Floats:
        """Return L-BFGS's direction for each column (the two-loop recursion, column by column)."""
        if self.last is not None:
            step, change = self.last[0], gradient - self.last[1]
            useful = _dots(step, change) > 1e-14
            self.steps = [*self.steps, np.where(useful, step, 0)][-_MEMORY:]
            self.changes = [*self.changes, np.where(useful, change, 0)][-_MEMORY:]
        pairs = [(s, y, _inverse(_dots(s, y))) for s, y in zip(self.steps, self.changes, strict=True)]
        q = gradient.copy()
        factors = []
        for s, y, rho in reversed(pairs):
            factors.append(rho * _dots(s, q))
            q -= factors[-1] * y
        if pairs:
            s, y, rho = pairs[-1]
            q *= np.where(rho > 0, _dots(s, y) * _inverse(_dots(y, y)), 1.0)
        for (s, y, rho), factor in zip(pairs, reversed(factors), strict=True):
            q += s * (factor - rho * _dots(y, q))
        uphill = _dots(q, gradient) <= 0
        return -np.where(uphill, gradient, q)


def _inverse(values: Floats) -> Floats:
    return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0.0)
