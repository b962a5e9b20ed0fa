"""Many linear classifiers that share their features, solved as one problem.

For each column u of signs: minimise over w  sum_i loss(u_i K_i w) + eta w'K0 w, with the loss of logistic regression,
log(1 + exp(-m)), or of a support vector machine, max(0, 1 - m)^2: squared, so that it is smooth (LIBLINEAR's L2-loss).
All columns share K, so each step costs two matrix products for all of them together. Variables are scaled by the
curvature bound b K'K + 2 eta K0 (one Cholesky factor for all columns), b the largest curvature of the loss; each column
then follows its L-BFGS direction (`dlfh._mathematics.descent`).

The two solvers differ in the line search. `Classifiers` keeps the margins of points in memory, which are linear in w,
so its line search needs no product at all. `solve_by_sums` keeps no data of points, which may be on a cluster or too
many for memory: each trial step is one sum over all points that also returns the gradient. A column tries the step
length 1 first; if its objective increases, it tries half the length in the next sum, while the other columns proceed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Floats, Integers, Mask, Singles
from dlfh._mathematics.descent import Columns, Line, descend, inverse, scaling_by
from dlfh._parallel import Workers

Signs = npt.NDArray[np.int8]

#: Yields the bounds and the rows of K, chunk by chunk, each time it is called. Rows are an array, or any object with
#: the products ``K @ weights``, ``K.T @ values`` and ``K.T @ K``.
Chunks = Callable[[], Iterator[tuple[int, int, Any]]]

#: Returns `loss_sums` over all points, from weights (k, c) of some columns and the numbers of these columns.
Sums = Callable[[Floats, Integers], Floats]

#: Rows per chunk of elementwise work, in memory and in sums: fixed, so that sums do not depend on the threads.
_ROWS, _SUMMED_ROWS = 8192, 1024


@dataclass(frozen=True)
class Loss:
    """A convex loss of margins m = u K w.

    losses: From values K w and signs u, writes minus d loss / d (K w), and returns each column's
        loss.
    curvatures: From these derivatives and changes of K w, returns each column's sum of second derivatives x changes^2.
    max_curvature: Upper bound of the second derivative.
    """

    losses: Callable[[Singles, Signs, Singles], Floats]
    curvatures: Callable[[Singles, Singles], Floats]
    max_curvature: float


def _logistic_losses(values: Singles, signs: Signs, residuals: Singles) -> Floats:
    m = values * signs
    decay = np.exp(-np.abs(m))
    residuals[:] = np.where(m >= 0, decay, 1) / (1 + decay) * signs
    return np.sum(np.log1p(decay) - np.minimum(m, 0), axis=0, dtype=np.float64)


def _logistic_curvatures(residuals: Singles, changes: Singles) -> Floats:
    pull = np.abs(residuals)
    return np.sum(pull * (1 - pull) * changes**2, axis=0, dtype=np.float64)


LOGISTIC = Loss(_logistic_losses, _logistic_curvatures, 0.25)
# Looked up when called, so that importing this module does not load Numba.
SQUARED_HINGE = Loss(lambda *arrays: _kernels.hinge_losses(*arrays), lambda *a: _kernels.hinge_curvatures(*a), 2.0)


@dataclass(frozen=True)
class Fit:
    """Weights (features, columns), each column's objective, the number of iterations, and K w (n, columns)."""

    weights: Floats
    objective: Floats
    n_iter: int
    values: Singles


class Classifiers:
    """Features, loss and penalty of classifiers of points in memory, prepared before their signs are known.

    chunks: Yields the rows of K (n, k), in float32 for speed: where columns nearly coincide, the objective then stays
        up to some thousandths above its minimum, because the rounding error of K'K exceeds its smallest eigenvalues.
        See `Chunks`.
    K0 (k, k): Positive semi-definite matrix of the penalty.
    penalty: The paper's eta; 1 / (2 C) in terms of LIBLINEAR's C, with K0 = I.
    """

    def __init__(self, chunks: Chunks, K0: Floats, penalty: float, loss: Loss, workers: Workers) -> None:
        self.chunks, self.K0, self.penalty, self.loss, self.workers = chunks, K0, penalty, loss, workers
        bound = 2 * penalty * K0
        for _, _, K in chunks():
            bound += loss.max_curvature * (K.T @ K)
        self._scaling = scaling_by(bound)

    def solve(self, signs: Signs, *, start: Fit | None = None, **options: Any) -> Fit:
        """Return one classifier per column of ``signs``.

        start: The result of another call, to start from; by default zeros.
        options: ``tol``, ``max_iter`` and ``on_done`` of `descend`.
        """
        n_columns = signs.shape[1]
        if start is None:
            weights, values = np.zeros((len(self.K0), n_columns)), np.zeros(signs.shape, np.float32)
            start = Fit(weights, np.zeros(n_columns), 0, values)
        points = _PointsInMemory(self, signs, start.values)
        columns = Columns(start.weights, points.loss, self.K0, self.penalty)
        return Fit(*descend(columns, points, self._scaling, **options), points.values)


class _PointsInMemory:
    """Points whose margins are kept: step lengths are tried without any product."""

    def __init__(self, problem: Classifiers, signs: Signs, values: Singles) -> None:
        self.problem, self.signs, self.margins = problem, signs, values
        self.values, self.index = np.empty_like(values), np.arange(signs.shape[1])
        self.residuals, self.loss = self._losses(values)

    def gradient(self, penalty_gradient: Floats) -> Floats:
        for first, last, K in self.problem.chunks():
            penalty_gradient -= K.T @ self.residuals[first:last]
        return penalty_gradient

    def move(self, line: Line) -> tuple[Floats, Floats, Mask]:
        """Move every column along its step by a Newton length, halved until the objective decreases enough."""
        changes = np.empty_like(self.margins)
        single = line.step.astype(np.float32)
        for first, last, K in self.problem.chunks():
            changes[first:last] = K @ single

        def curvatures(start: int, stop: int) -> Floats:
            return self.problem.loss.curvatures(self.residuals[start:stop], changes[start:stop])

        curvature = np.sum(self.problem.workers.map_blocks(curvatures, len(changes), _ROWS), axis=0)
        length = np.minimum(-line.slope * inverse(curvature + 2 * line.quadratic), 1e3)
        while True:
            margins = self.margins + length.astype(np.float32) * changes
            residuals, loss = self._losses(margins)
            objective = line.objective(loss, length)
            worse = line.is_worse(objective, length)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        self.margins, self.residuals = margins, residuals
        return length, objective, ~worse

    def _losses(self, margins: Singles) -> tuple[Singles, Floats]:
        residuals = np.empty_like(margins)

        def losses(start: int, stop: int) -> Floats:
            return self.problem.loss.losses(margins[start:stop], self.signs[start:stop], residuals[start:stop])

        return residuals, np.sum(self.problem.workers.map_blocks(losses, len(margins), _ROWS), axis=0)

    def drop(self, done: Mask) -> None:
        self.values[:, self.index[done]] = self.margins[:, done]
        self.index = self.index[~done]
        self.signs = np.ascontiguousarray(self.signs[:, ~done])
        self.margins = np.ascontiguousarray(self.margins[:, ~done])
        self.residuals = np.ascontiguousarray(self.residuals[:, ~done])


def loss_sums(
    loss: Loss, rows: Iterable[tuple[Singles, Signs]], weights: Floats, columns: Integers, workers: Workers
) -> Floats:
    """Return the loss of each column over some points, followed by its gradient with respect to the weights.

    rows (m, k): Features and signs.
    columns (c,): The columns of the signs that the weights belong to.
    """
    total = np.zeros((len(weights) + 1, len(columns)))
    for K, all_signs in rows:
        signs = all_signs if len(columns) == all_signs.shape[1] else all_signs[:, columns]
        # The weights of smooth kernels are large and cancel. In single precision, the rounding error of K w would
        # exceed the improvement of a step, because here K w is not accumulated from ever smaller changes.
        values = (K.astype(np.float64) @ weights).astype(np.float32)
        residuals = np.empty_like(values)

        def losses(start: int, stop: int, arrays: Any = (values, signs, residuals)) -> Floats:
            return loss.losses(*(array[start:stop] for array in arrays))

        total[0] += np.sum(workers.map_blocks(losses, len(values), _SUMMED_ROWS), axis=0)
        total[1:] -= K.T @ residuals
    return total


def solve_by_sums(
    sums: Sums, gram: Floats, n_columns: int, K0: Floats, penalty: float, loss: Loss, **options: Any
) -> tuple[Floats, Floats, int]:
    """Return weights (k, columns), objectives, and the number of iterations, each of which called ``sums`` once.

    sums: See `Sums`. It is called once before the first iteration.
    gram (k, k): K'K over all points.
    K0, penalty, loss, options: As for `Classifiers`.
    """
    weights = np.zeros((len(K0), n_columns))
    points = _SummedPoints(sums, weights)
    columns = Columns(weights, points.loss, K0, penalty)
    scaling = scaling_by(2 * penalty * K0 + loss.max_curvature * gram)
    # A step of length 1 can be much too short where Newton's would not be, so one more small step is required.
    return descend(columns, points, scaling, patience=3, **options)


class _SummedPoints:
    """Points without stored margins: the last sums at the columns' positions, and the step lengths to try next."""

    def __init__(self, sums: Sums, weights: Floats) -> None:
        self.sums, self.index, self.length = sums, np.arange(weights.shape[1]), np.ones(weights.shape[1])
        found = sums(weights, self.index)
        self.loss, self.loss_gradient = found[0], found[1:]

    def gradient(self, penalty_gradient: Floats) -> Floats:
        return penalty_gradient + self.loss_gradient

    def move(self, line: Line) -> tuple[Floats, Floats, Mask]:
        length = self.length
        found = self.sums(line.columns.weights + length * line.step, self.index)
        objective = line.objective(found[0], length)
        moved = ~line.is_worse(objective, length)
        self.loss_gradient = np.where(moved, found[1:], self.loss_gradient)
        self.length = np.where(moved, 1.0, length / 2)
        return length, objective, moved

    def drop(self, done: Mask) -> None:
        self.index, self.length = self.index[~done], self.length[~done]
        self.loss_gradient = self.loss_gradient[:, ~done]
