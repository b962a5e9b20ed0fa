"""Many regularised linear problems that share their features, each column following its L-BFGS direction.

For each column: minimise over w  loss(K w) + eta w'K0 w. Variables are scaled by a bound of the curvature (one Cholesky
factor for all columns). `Points` hides where the points are, in memory or in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dlfh._arrays import Floats, Mask

#: Number of steps in the L-BFGS history.
_MEMORY = 10


def dots(a: Floats, b: Floats) -> Floats:
    """Return the inner products of the columns of two matrices."""
    return np.einsum("kc,kc->c", a, b)


def inverse(values: Floats) -> Floats:
    """Return 1 / values, or 0 where they are not positive."""
    return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0.0)


def scaling_by(bound: Floats) -> Floats:
    """Return the inverse of a curvature bound's Cholesky factor; the bound is overwritten.

    It is inverted so that iterations need only NumPy's products: NumPy and SciPy each have a BLAS with busy-waiting
    threads, which slow each other down when calls alternate.
    """
    import scipy.linalg  # here, because encoding imports this module but does not need SciPy

    bound.flat[:: len(bound) + 1] += 1e-10 * np.trace(bound) / len(bound) + np.finfo(np.float64).tiny
    jitter = 1e-8 * np.trace(bound) / len(bound)
    while True:
        try:
            factor = scipy.linalg.cholesky(bound, lower=True, check_finite=False)
            return scipy.linalg.solve_triangular(factor, np.eye(len(bound)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # indefinite, by the rounding of float32 products
            bound.flat[:: len(bound) + 1] += jitter
            jitter *= 10


class Line:
    """A step of each column, and the objective along it."""

    def __init__(self, columns: Columns, step: Floats, slope: Floats) -> None:
        self.columns, self.step, self.slope = columns, step, slope
        self.K0_step = columns.K0 @ step
        self.linear = 2 * columns.penalty * dots(step, columns.K0_weights)
        self.quadratic = columns.penalty * dots(step, self.K0_step)

    def objective(self, loss: Floats, length: Floats) -> Floats:
        """Return the objective at given step lengths, from the loss there."""
        at_zero = self.columns.penalty * dots(self.columns.weights, self.columns.K0_weights)
        return loss + at_zero + length * self.linear + length**2 * self.quadratic

    def is_worse(self, objective: Floats, length: Floats) -> Mask:
        """Return a mask of the columns that do not improve enough by steps of the given lengths."""
        before = self.columns.objective
        # Margins are in single precision: do not reject a step for a difference below their rounding error.
        allowed = before + 1e-4 * length * self.slope + 1e-7 * np.abs(before)
        return (objective > allowed) & (length > 1e-10)


class Points(Protocol):
    """The points whose losses are summed, and the state of the columns."""

    def gradient(self, penalty_gradient: Floats) -> Floats:
        """Return the gradient of the objective, given the gradient of the penalty."""

    def move(self, line: Line) -> tuple[Floats, Floats, Mask]:
        """Move columns; return lengths, objectives, and which columns moved: the others try a shorter step next."""

    def drop(self, done: Mask) -> None:
        """Remove columns that have converged."""


class Columns:
    """The columns that have not converged: their positions and L-BFGS histories."""

    def __init__(self, weights: Floats, loss: Floats, K0: Floats, penalty: float) -> None:
        self.K0, self.penalty = K0, penalty
        self.index = np.arange(weights.shape[1])
        self.weights, self.K0_weights = weights.copy(), K0 @ weights
        self.objective = loss + penalty * dots(weights, self.K0_weights)
        self.n_small = np.zeros(len(self.index), np.int64)
        self.steps: list[Floats] = []
        self.changes: list[Floats] = []
        self.last: tuple[Floats, Floats, Mask] | None = None

    def keep(self, which: Mask) -> None:
        self.index, self.objective, self.n_small = self.index[which], self.objective[which], self.n_small[which]
        self.weights, self.K0_weights = self.weights[:, which], self.K0_weights[:, which]
        self.steps = [step[:, which] for step in self.steps]
        self.changes = [change[:, which] for change in self.changes]
        if self.last is not None:
            self.last = self.last[0][:, which], self.last[1][:, which], self.last[2][which]

    def direction(self, gradient: Floats) -> Floats:
        """Return the L-BFGS direction of each column (the two-loop recursion, column by column)."""
        if self.last is not None:
            step, change, moved = self.last[0], gradient - self.last[1], self.last[2]
            useful = dots(step, change) > 1e-14
            self.steps = _extended(self.steps, np.where(useful, step, 0), moved)
            self.changes = _extended(self.changes, np.where(useful, change, 0), moved)
        pairs = [(s, y, inverse(dots(s, y))) for s, y in zip(self.steps, self.changes, strict=True)]
        q, factors = gradient.copy(), []
        for s, y, rho in reversed(pairs):
            factors.append(rho * dots(s, q))
            q -= factors[-1] * y
        if pairs:
            s, y, rho = pairs[-1]
            q *= np.where(rho > 0, dots(s, y) * inverse(dots(y, y)), 1.0)
        for (s, y, rho), factor in zip(pairs, reversed(factors), strict=True):
            q += s * (factor - rho * dots(y, q))
        return -np.where(dots(q, gradient) <= 0, gradient, q)  # not uphill

    def go(self, line: Line, length: Floats, objective: Floats, moved: Mask) -> None:
        """Take steps of the given lengths in the columns that moved."""
        length = np.where(moved, length, 0.0)
        self.weights = self.weights + length * line.step
        self.K0_weights = self.K0_weights + length * line.K0_step
        self.objective = np.where(moved, objective, self.objective)


def _extended(pairs: list[Floats], new: Floats, moved: Mask) -> list[Floats]:
    """Return a history with a new entry in the columns that moved."""
    more = [*pairs, new][-_MEMORY:]
    if moved.all():
        return more
    same = [np.zeros_like(new), *pairs][-_MEMORY:]
    return [np.where(moved, one, other) for one, other in zip(more, same, strict=True)]


def descend(
    columns: Columns,
    points: Points,
    scaling: Floats,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    patience: int = 2,
    on_done: Callable[[int], None] = lambda n_columns: None,
) -> tuple[Floats, Floats, int]:
    """Return weights, objectives and the number of iterations.

    scaling (k, k): By `scaling_by`.
    tol: A column has converged when each of ``patience`` consecutive steps was expected to improve its objective by
        less than this share.
    on_done: Called with the number of columns each time some converge.
    """
    weights, objective, n_iter = columns.weights.copy(), columns.objective.copy(), 0
    while len(columns.index) and n_iter < max_iter:
        n_iter += 1
        scaled = scaling @ points.gradient(2 * columns.penalty * columns.K0_weights)
        direction = columns.direction(scaled)
        slope = dots(direction, scaled)
        line = Line(columns, scaling.T @ direction, slope)
        length, reached, moved = points.move(line)
        columns.go(line, length, reached, moved)
        columns.last = length * direction, scaled, moved
        small = -0.5 * length * slope <= tol * np.abs(columns.objective)
        columns.n_small = np.where(moved, np.where(small, columns.n_small + 1, 0), columns.n_small)
        weights[:, columns.index], objective[columns.index] = columns.weights, columns.objective
        done = columns.n_small >= patience
        if done.any():
            columns.keep(~done)
            points.drop(done)
            on_done(int(done.sum()))
    points.drop(np.ones(len(columns.index), np.bool_))
    return weights, objective, n_iter
