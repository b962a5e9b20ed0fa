"""Many logistic regressions that share their features, solved as one problem.

For each column u of signs: minimise over w  sum_i log(1 + exp(-u_i K_i w)) + eta w'K0 w. All columns
share K, so each step costs two matrix products for all of them together. Variables are scaled by the
curvature bound 1/4 K'K + 2 eta K0 (one Cholesky factor for all columns); each column then follows its
own L-BFGS direction. Margins are linear in w, so the line search needs no product at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from dlfh._parallel import Workers

__all__ = ["LogisticFit", "solve_logistic"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Yields the bounds and the rows of K, block after block, each time it is called.
Blocks = Callable[[], Iterator[tuple[int, int, Singles]]]

_MEMORY = 10


@dataclass(frozen=True)
class LogisticFit:
    """Weights (features, columns), each column's objective, and the number of iterations."""

    weights: Floats
    objective: Floats
    n_iter: int


def solve_logistic(
    blocks: Blocks,
    signs: npt.NDArray[np.int8],
    K0: Floats,
    penalty: float,
    workers: Workers,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    on_done: Callable[[int], None] = lambda n_columns: None,
) -> LogisticFit:
    """Solve one logistic regression per column of ``signs``.

    Parameters
    ----------
    blocks : callable
        Gives the rows of K (n, k) in float32 blocks, from the start, each time it is called.
    signs : ndarray of int8 (n, c)
        -1 and +1.
    K0 : ndarray of float64 (k, k)
        Positive semi-definite matrix of the penalty.
    penalty : float
        The paper's eta.
    tol : float
        A column is done when two steps in a row were each expected to improve its objective by less
        than this share.
    on_done : callable
        Told how many columns are done each time some are.
    """
    k, n_columns = len(K0), signs.shape[1]
    scaling = _scaling(blocks, K0, penalty)
    weights, objective = np.zeros((k, n_columns)), np.full(n_columns, len(signs) * np.log(2.0))
    state = _Columns.start(np.arange(n_columns), signs, k)
    state.residuals, loss = _losses(state.margins, signs, workers)
    state.objective = loss
    n_iter = 0
    while len(state.index) and n_iter < max_iter:
        n_iter += 1
        gradient = 2 * penalty * state.K0_weights
        for start, stop, K in blocks():
            gradient -= K.T @ state.residuals[start:stop]
        scaled = scipy.linalg.solve_triangular(scaling, gradient, lower=True, check_finite=False)
        direction = state.direction(scaled)
        slope = _dots(direction, scaled)
        step = scipy.linalg.solve_triangular(scaling, direction, lower=True, trans="T", check_finite=False)
        length = _line_search(state, blocks, step, slope, K0, penalty, workers)
        state.remember(length * direction, scaled)
        expected = -0.5 * length * slope
        state.quiet = np.where(expected <= tol * np.abs(state.objective), state.quiet + 1, 0)
        done = state.quiet >= 2
        if done.any():
            weights[:, state.index[done]], objective[state.index[done]] = (
                state.weights[:, done],
                state.objective[done],
            )
            state = state.keep(~done)
            on_done(int(done.sum()))
    weights[:, state.index], objective[state.index] = state.weights, state.objective
    return LogisticFit(weights, objective, n_iter)


def _scaling(blocks: Blocks, K0: Floats, penalty: float) -> Floats:
    """Return the Cholesky factor of the curvature bound: sigma' is at most 1/4."""
    bound = 2 * penalty * K0
    for _, _, K in blocks():
        bound += 0.25 * (K.T @ K)
    bound.flat[:: len(bound) + 1] += 1e-10 * np.trace(bound) / len(bound) + np.finfo(np.float64).tiny
    jitter = 1e-8 * np.trace(bound) / len(bound)
    while True:
        try:
            return scipy.linalg.cholesky(bound, lower=True, check_finite=False)
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
    steps: list[Floats]
    changes: list[Floats]
    last: tuple[Floats, Floats] | None

    @classmethod
    def start(cls, index: npt.NDArray[np.int64], signs: npt.NDArray[np.int8], k: int) -> _Columns:
        margins = np.zeros(signs.shape, np.float32)
        weights, count = np.zeros((k, len(index))), np.zeros(len(index), np.int64)
        empty = np.empty((0, 0), np.float32)
        return cls(index, signs, margins, empty, weights, weights.copy(), np.zeros(len(index)), count, [], [], None)

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


def _losses(margins: Singles, signs: npt.NDArray[np.int8], workers: Workers) -> tuple[Singles, Floats]:
    """Return u sigma(-u m), minus the derivative of the loss, and the loss of each column."""
    residuals = np.empty_like(margins)

    def block(start: int, stop: int) -> Floats:
        u = signs[start:stop]
        m = margins[start:stop] * u
        decay = np.exp(-np.abs(m))
        residuals[start:stop] = np.where(m >= 0, decay, 1) / (1 + decay) * u
        return np.sum(np.log1p(decay) - np.minimum(m, 0), axis=0, dtype=np.float64)

    return residuals, np.sum(workers.map_blocks(block, len(margins), _BLOCK), axis=0)


#: Rows per block of elementwise work: fixed, so that sums do not depend on the number of threads.
_BLOCK = 8192


def _line_search(
    state: _Columns,
    blocks: Blocks,
    step: Floats,
    slope: Floats,
    K0: Floats,
    penalty: float,
    workers: Workers,
) -> Floats:
    """Move every column along its step, by a Newton length that is halved until it improves enough."""
    K0_step = K0 @ step
    single = step.astype(np.float32)
    changes = np.empty_like(state.margins)
    for start, stop, K in blocks():
        np.matmul(K, single, out=changes[start:stop])

    def curvature_block(start: int, stop: int) -> Floats:
        p = np.abs(state.residuals[start:stop])
        return np.sum(p * (1 - p) * changes[start:stop] ** 2, axis=0, dtype=np.float64)

    curvature = np.sum(workers.map_blocks(curvature_block, len(changes), _BLOCK), axis=0)
    quadratic = penalty * _dots(step, K0_step)
    length = np.minimum(-slope * _inverse(curvature + 2 * quadratic), 1e3)
    at_zero, linear = penalty * _dots(state.weights, state.K0_weights), 2 * penalty * _dots(step, state.K0_weights)
    while True:
        margins = state.margins + length.astype(np.float32) * changes
        residuals, loss = _losses(margins, state.signs, workers)
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
