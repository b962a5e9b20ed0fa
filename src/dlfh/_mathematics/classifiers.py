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
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._mathematics.descent import Columns, Line, descend, inverse, scaling_by
from dlfh._parallel import Workers

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Yields the bounds and the rows of K, block after block, each time it is called. Rows are an array, or anything that
#: has products: ``K @ weights``, ``K.T @ values``, and ``K.T @ K``.
Blocks = Callable[[], Iterator[tuple[int, int, Any]]]


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
        bound = 2 * penalty * K0
        for _, _, K in blocks():
            bound += loss.most_curvature * (K.T @ K)
        self._scaling = scaling_by(bound)

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
        tol, max_iter, on_done
            As for `descend`.
        """
        n_columns = signs.shape[1]
        if start is None:
            weights, values = np.zeros((len(self.K0), n_columns)), np.zeros(signs.shape, np.float32)
            start = Fit(weights, np.zeros(n_columns), 0, values)
        points = _PointsInMemory(self, signs, start.values)
        columns = Columns.at(start.weights, points.start(), self.K0, self.penalty)
        found = descend(columns, points, self._scaling, tol=tol, max_iter=max_iter, on_done=on_done)
        return Fit(*found, points.values)


class _PointsInMemory:
    """Margins are linear in w: with those of a step at hand, its lengths are tried without any product."""

    def __init__(self, problem: Classifiers, signs: npt.NDArray[np.int8], values: Singles) -> None:
        self.problem = problem
        self.values = np.empty_like(values)
        self.index = np.arange(signs.shape[1])
        self.signs, self.margins = signs, values

    def start(self) -> Floats:
        """Return the loss of each column before the first step."""
        self.residuals, loss = self._losses(self.margins)
        return loss

    def gradient(self, of_penalty: Floats) -> Floats:
        gradient = of_penalty
        for first, last, K in self.problem.blocks():
            gradient -= K.T @ self.residuals[first:last]
        return gradient

    def move(self, line: Line) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Move every column along its step, by a Newton length that is halved until it improves enough."""
        changes = np.empty_like(self.margins)
        single = line.step.astype(np.float32)
        for first, last, K in self.problem.blocks():
            changes[first:last] = K @ single

        def curvature_block(start: int, stop: int) -> Floats:
            return self.problem.loss.curvatures(self.residuals[start:stop], changes[start:stop])

        curvature = np.sum(self.problem.workers.map_blocks(curvature_block, len(changes), _BLOCK), axis=0)
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
        """Return minus the derivatives of the loss by K w, and the loss of each column."""
        residuals = np.empty_like(margins)

        def block(start: int, stop: int) -> Floats:
            return self.problem.loss.losses(margins[start:stop], self.signs[start:stop], residuals[start:stop])

        return residuals, np.sum(self.problem.workers.map_blocks(block, len(margins), _BLOCK), axis=0)

    def drop(self, done: npt.NDArray[np.bool_]) -> None:
        self.values[:, self.index[done]] = self.margins[:, done]
        self.index = self.index[~done]
        self.signs = np.ascontiguousarray(self.signs[:, ~done])
        self.margins = np.ascontiguousarray(self.margins[:, ~done])
        self.residuals = np.ascontiguousarray(self.residuals[:, ~done])


def solve_logistic(
    blocks: Blocks, signs: npt.NDArray[np.int8], K0: Floats, penalty: float, workers: Workers, **options: Any
) -> Fit:
    """Solve one logistic regression per column of ``signs``; options as for `Classifiers.solve`."""
    return Classifiers(blocks, K0, penalty, LOGISTIC, workers).solve(signs, **options)


#: Rows per block of elementwise work: fixed, so that sums do not depend on the number of threads.
_BLOCK = 8192
