"""Classifiers of points that are elsewhere, or too many: an iteration gives all points weights, and gets one sum back.

The problem, the scaling and the directions are those of `_classifiers`. There, a step's margins are at hand, and its
lengths are tried one after another. Here each try is a sum over all points, so it brings the gradient, too: a column
tries L-BFGS's own length, 1, and the next direction follows at once; a column that got worse tries half of it beside
the others' next steps. Points keep nothing between sums, so that a part of them can be summed again anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.classifiers import Loss
from dlfh._mathematics.descent import Columns, Line, descend, scaling_by
from dlfh._parallel import Workers

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]

#: Of weights (k, c) of some columns, and their numbers, the sums over all points that `loss_sums` gives of some.
Sums = Callable[[Floats, Integers], Floats]

#: Rows per block of elementwise work.
_BLOCK = 1024


def loss_sums(
    loss: Loss,
    rows: Iterable[tuple[npt.NDArray[np.float32], Signs]],
    weights: Floats,
    columns: Integers,
    workers: Workers,
) -> Floats:
    """Return the loss of each column, and below it the gradient by its weights, over some points.

    Parameters
    ----------
    rows : iterable of (ndarray of float32 (m, k), ndarray of int8 (m, all columns))
        Features and signs.
    weights : ndarray of float64 (k, c)
    columns : ndarray of int64 (c,)
        Which columns of the signs the weights are for.

    Returns
    -------
    ndarray of float64 (k + 1, c)
    """
    total = np.zeros((len(weights) + 1, len(columns)))
    for K, all_signs in rows:
        signs = all_signs if len(columns) == all_signs.shape[1] else all_signs[:, columns]
        # Weights of smooth kernels are large and cancel: in single precision the rounding of K w would drown what a
        # step improves, since here K w is not the sum of ever smaller changes.
        values = (K.astype(np.float64) @ weights).astype(np.float32)
        residuals = np.empty_like(values)

        def block(start: int, stop: int, parts: Any = (values, signs, residuals)) -> Floats:
            return loss.losses(*(part[start:stop] for part in parts))

        total[0] += np.sum(workers.map_blocks(block, len(values), _BLOCK), axis=0)
        total[1:] -= K.T @ residuals
    return total


def solve_by_sums(
    sums: Sums,
    gram: Floats,
    n_columns: int,
    K0: Floats,
    penalty: float,
    loss: Loss,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    on_done: Callable[[int], None] = lambda n_columns: None,
) -> tuple[Floats, Floats, int]:
    """Return weights (k, columns), objectives, and the number of iterations, each of which was one call of ``sums``.

    Parameters
    ----------
    sums : callable
        See `Sums`. It is called once before the first iteration.
    gram : ndarray of float64 (k, k)
        K'K, over all points.
    K0, penalty, loss
        As for `Classifiers`.
    tol, max_iter, on_done
        As for `descend`.
    """
    weights = np.zeros((len(K0), n_columns))
    points = _PointsElsewhere(sums, weights)
    columns = Columns.at(weights, points.loss, K0, penalty)
    scaling = scaling_by(2 * penalty * K0 + loss.most_curvature * gram)
    # A length of 1 may be much too short once, where Newton's is not: one more step is waited for.
    return descend(columns, points, scaling, tol=tol, max_iter=max_iter, patience=3, on_done=on_done)


class _PointsElsewhere:
    """What the last sums said of where columns are, and the lengths of the steps that they try next."""

    def __init__(self, sums: Sums, weights: Floats) -> None:
        self.sums = sums
        self.index = np.arange(weights.shape[1])
        self.length = np.ones(weights.shape[1])
        found = sums(weights, self.index)
        self.loss, self.loss_gradient = found[0], found[1:]

    def gradient(self, of_penalty: Floats) -> Floats:
        return of_penalty + self.loss_gradient

    def move(self, line: Line) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        length = self.length
        found = self.sums(line.columns.weights + length * line.step, self.index)
        objective = line.objective(found[0], length)
        moved = ~line.is_worse(objective, length)
        self.loss_gradient = np.where(moved, found[1:], self.loss_gradient)
        self.length = np.where(moved, 1.0, length / 2)
        return length, objective, moved

    def drop(self, done: npt.NDArray[np.bool_]) -> None:
        self.index, self.length = self.index[~done], self.length[~done]
        self.loss_gradient = self.loss_gradient[:, ~done]
