"""Many regularised linear problems that share their features, each column following its own L-BFGS direction.

For each column: minimise over w  loss(K w) + eta w'K0 w. Variables are scaled by a bound of the curvature (one Cholesky
factor for all columns). What is done with the points themselves, in memory or by blocks, is behind `Points`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]

#: Steps that L-BFGS remembers.
_MEMORY = 10


def dots(a: Floats, b: Floats) -> Floats:
    """Return the inner product of each column of two matrices."""
    return np.einsum("kc,kc->c", a, b)


def inverse(values: Floats) -> Floats:
    """Return 1 / values, and 0 where they are not above 0."""
    return np.where(values > 0, 1 / np.where(values > 0, values, 1), 0.0)


def scaling_by(bound: Floats) -> Floats:
    """Return the inverse of a curvature bound's Cholesky factor; the bound is changed.

    The inverse, because products are NumPy's: NumPy and SciPy each have a BLAS with threads of its own, which
    wait for work busily, and are in each other's way where calls alternate.
    """
    import scipy.linalg  # here, since encoding imports this module and solves nothing

    bound.flat[:: len(bound) + 1] += 1e-10 * np.trace(bound) / len(bound) + np.finfo(np.float64).tiny
    jitter = 1e-8 * np.trace(bound) / len(bound)
    while True:
        try:
            factor = scipy.linalg.cholesky(bound, lower=True, check_finite=False)
            return scipy.linalg.solve_triangular(factor, np.eye(len(bound)), lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # float32 products: rounding made it indefinite
            bound.flat[:: len(bound) + 1] += jitter
            jitter *= 10


@dataclass(frozen=True)
class Line:
    """A step of each column, and what its lengths do to the objective."""

    columns: Columns
    step: Floats
    slope: Floats
    K0_step: Floats
    linear: Floats
    quadratic: Floats

    @classmethod
    def of(cls, columns: Columns, step: Floats, slope: Floats) -> Line:
        """Return the line along a step, on which the objective has a slope."""
        K0_step = columns.K0 @ step
        linear = 2 * columns.penalty * dots(step, columns.K0_weights)
        return cls(columns, step, slope, K0_step, linear, columns.penalty * dots(step, K0_step))

    def objective(self, loss: Floats, length: Floats) -> Floats:
        """Return the objective at some lengths, from the loss there."""
        at_zero = self.columns.penalty * dots(self.columns.weights, self.columns.K0_weights)
        return loss + at_zero + length * self.linear + length**2 * self.quadratic

    def is_worse(self, objective: Floats, length: Floats) -> Chosen:
        """Return which columns do not improve enough by steps of some lengths."""
        before = self.columns.objective
        # The margins are single precision: a difference below their rounding is no reason to go back.
        allowed = before + 1e-4 * length * self.slope + 1e-7 * np.abs(before)
        return (objective > allowed) & (length > 1e-10)


class Points(Protocol):
    """The points whose losses are summed, and where columns are with them."""

    def gradient(self, of_penalty: Floats) -> Floats:
        """Return the objective's gradient where columns are, from the penalty's."""

    def move(self, line: Line) -> tuple[Floats, Floats, Chosen]:
        """Move columns; return lengths, objectives, and which columns moved. The others try a shorter step next."""

    def drop(self, done: Chosen) -> None:
        """Go on without some columns."""


@dataclass
class Columns:
    """The columns that are not done yet: where they are, and what L-BFGS remembers of their way."""

    K0: Floats
    penalty: float
    index: npt.NDArray[np.int64]
    weights: Floats
    K0_weights: Floats
    objective: Floats
    quiet: npt.NDArray[np.int64]
    steps: list[Floats] = field(default_factory=list)
    changes: list[Floats] = field(default_factory=list)
    last: tuple[Floats, Floats, Chosen] | None = None

    @classmethod
    def at(cls, weights: Floats, loss: Floats, K0: Floats, penalty: float) -> Columns:
        """Return columns that start at some weights, where they have some loss."""
        K0_weights = K0 @ weights
        n_columns = weights.shape[1]
        objective = loss + penalty * dots(weights, K0_weights)
        quiet = np.zeros(n_columns, np.int64)
        return cls(K0, penalty, np.arange(n_columns), weights.copy(), K0_weights, objective, quiet)

    def keep(self, which: Chosen) -> Columns:
        """Return some of the columns."""
        last = None
        if self.last is not None:
            last = self.last[0][:, which], self.last[1][:, which], self.last[2][which]
        return Columns(
            self.K0,
            self.penalty,
            self.index[which],
            self.weights[:, which],
            self.K0_weights[:, which],
            self.objective[which],
            self.quiet[which],
            [step[:, which] for step in self.steps],
            [change[:, which] for change in self.changes],
            last,
        )

    def direction(self, gradient: Floats) -> Floats:
        """Return L-BFGS's direction for each column (the two-loop recursion, column by column)."""
        if self.last is not None:
            step, change, moved = self.last[0], gradient - self.last[1], self.last[2]
            useful = dots(step, change) > 1e-14
            self.steps = _remembered(self.steps, np.where(useful, step, 0), moved)
            self.changes = _remembered(self.changes, np.where(useful, change, 0), moved)
        pairs = [(s, y, inverse(dots(s, y))) for s, y in zip(self.steps, self.changes, strict=True)]
        q = gradient.copy()
        factors = []
        for s, y, rho in reversed(pairs):
            factors.append(rho * dots(s, q))
            q -= factors[-1] * y
        if pairs:
            s, y, rho = pairs[-1]
            q *= np.where(rho > 0, dots(s, y) * inverse(dots(y, y)), 1.0)
        for (s, y, rho), factor in zip(pairs, reversed(factors), strict=True):
            q += s * (factor - rho * dots(y, q))
        uphill = dots(q, gradient) <= 0
        return -np.where(uphill, gradient, q)

    def go(self, line: Line, length: Floats, objective: Floats, moved: Chosen) -> None:
        """Be where steps of some lengths lead, in the columns that moved."""
        length = np.where(moved, length, 0.0)
        self.weights = self.weights + length * line.step
        self.K0_weights = self.K0_weights + length * line.K0_step
        self.objective = np.where(moved, objective, self.objective)


def _remembered(pairs: list[Floats], new: Floats, moved: Chosen) -> list[Floats]:
    """Return one more of what was remembered; columns that did not move remember what they did."""
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
    tol: float,
    max_iter: int,
    patience: int = 2,
    on_done: Callable[[int], None],
) -> tuple[Floats, Floats, int]:
    """Return weights, objectives and the number of iterations.

    Parameters
    ----------
    scaling : ndarray of float64 (k, k)
        By `scaling_by`.
    tol : float
        A column is done when ``patience`` steps in a row were each expected to improve its objective by less than
        this share.
    on_done : callable
        Told how many columns are done each time some are.
    """
    weights, objective = columns.weights.copy(), columns.objective.copy()
    n_iter = 0
    while len(columns.index) and n_iter < max_iter:
        n_iter += 1
        scaled = scaling @ points.gradient(2 * columns.penalty * columns.K0_weights)
        direction = columns.direction(scaled)
        slope = dots(direction, scaled)
        line = Line.of(columns, scaling.T @ direction, slope)
        length, reached, moved = points.move(line)
        columns.go(line, length, reached, moved)
        columns.last = length * direction, scaled, moved
        calm = -0.5 * length * slope <= tol * np.abs(columns.objective)
        columns.quiet = np.where(moved, np.where(calm, columns.quiet + 1, 0), columns.quiet)
        weights[:, columns.index], objective[columns.index] = columns.weights, columns.objective
        done = columns.quiet >= patience
        if done.any():
            columns = columns.keep(~done)
            points.drop(done)
            on_done(int(done.sum()))
    points.drop(np.ones(len(columns.index), np.bool_))
    return weights, objective, n_iter
