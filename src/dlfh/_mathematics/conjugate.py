"""Ridge regression on wide sparse features without a (features x features) matrix, by conjugate gradients.

(X'X + gamma I) W = X'U for centred X is solved for all bits using only products with the sparse X; the mean is
subtracted from the products. Each feature is divided by its length (Jacobi preconditioning): without it, the few words
that occur in half of the texts would slow down convergence for the many that occur in two or three.

Every bit has its own step lengths; groups of bits share the passes over the data. Threads share the rows of products,
and rows are added up in chunks of a fixed size, so results do not depend on the number of threads. Weights are linear
in the targets: if there are fewer distinct codes than bits, membership indicators of the codes are predicted instead,
and the weights of the bits are combined from theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Singles
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers

#: Relative residual, in the norm of the preconditioner, at which a bit has converged.
_TOLERANCE = 1e-7

#: Without a significant ridge, convergence is slow, and the remaining directions hardly matter.
_MAX_ITERATIONS = 1000

#: Maximum number of bits that share a pass over the data: one row of them fills two cache lines, and five matrices of
#: words x bits are in memory.
_GROUP_BITS = 16

_CHUNK_ROWS = 8192

#: Number of pieces into which the rows of a matrix are split, with about equal work each.
_PIECES = 32


def solve_by_conjugate_gradients(
    features: sp.csr_array, mean: Floats, squares: Floats, targets: Targets, ridge: float, workers: Workers
) -> Singles:
    """Return W, shape (features, n_bits), to single precision.

    mean, squares (d,): Each feature's mean, and the sum of squares about it: 0 for constant features, which get the
        weight 0.
    """
    varying = np.flatnonzero(squares)
    every = varying if len(varying) < features.shape[1] else slice(None)
    X = sp.csr_array(features if isinstance(every, slice) else features[:, every], dtype=np.float64)
    system = _System(X, mean[varying], 1 / (squares[varying] + ridge), ridge, workers)
    groups, of_group = np.unique(targets.row_of_point, return_inverse=True)
    by_group = len(groups) < targets.n_bits
    n_columns = len(groups) if by_group else targets.n_bits
    weights = np.zeros((features.shape[1], n_columns), np.float32)
    for columns in np.array_split(np.arange(n_columns), -(-n_columns // _GROUP_BITS)):
        U = np.empty((X.shape[0], len(columns)))
        for rows in _slices(len(U)):
            chosen = of_group[rows, None] == columns if by_group else targets.points(rows.start, rows.stop)[:, columns]
            U[rows] = chosen
        U -= U.mean(axis=0)
        weights[every, columns[0] : columns[-1] + 1] = system.solve(U)
    if not by_group:
        return weights
    codes = targets.values(groups).astype(np.float32)
    combined = np.empty((len(weights), targets.n_bits), np.float32)
    for rows in _slices(len(weights)):
        combined[rows] = weights[rows] @ codes
    return combined


class _Pieces:
    """A sparse matrix split into pieces of rows, so that threads share a product."""

    def __init__(self, matrix: sp.csr_array, workers: Workers) -> None:
        self.shape, self.workers = matrix.shape, workers
        starts = matrix.indptr
        inner = np.searchsorted(starts, np.linspace(0, starts[-1], _PIECES + 1)[1:-1])
        self.bounds = np.unique([0, *inner, len(starts) - 1]).tolist()
        self.pieces = []
        for first, last in itertools.pairwise(self.bounds):
            entries = slice(starts[first], starts[last])
            parts = matrix.data[entries], matrix.indices[entries], starts[first : last + 1] - starts[first]
            self.pieces.append(sp.csr_array(parts, shape=(last - first, self.shape[1])))

    def times(self, values: Floats) -> Floats:
        product = np.empty((self.shape[0], values.shape[1]))

        def multiply(number: int, _: int) -> None:
            product[self.bounds[number] : self.bounds[number + 1]] = self.pieces[number] @ values

        self.workers.map_blocks(multiply, len(self.pieces), 1)
        return product


class _System:
    """The linear system, for any right-hand side."""

    def __init__(self, X: sp.csr_array, mean: Floats, inverse: Floats, ridge: float, workers: Workers) -> None:
        self.points, self.words = _Pieces(X, workers), _Pieces(sp.csr_array(X.T), workers)
        self.mean, self.inverse, self.ridge, self.workers = mean, inverse[:, None], ridge, workers

    def solve(self, codes: Floats) -> Floats:
        """Return the weights of a few bits."""
        residual = self.words.times(codes)  # codes are centred, so X need not be
        weights, directions = np.zeros_like(residual), residual * self.inverse
        size = self._total(lambda rows: _dots(residual[rows], directions[rows]))
        first = size.copy()
        for _ in range(_MAX_ITERATIONS):
            # Constant and converged bits do not move.
            active = size > _TOLERANCE**2 * first
            if not active.any():
                break
            values = self.points.times(directions)
            values -= self._total(lambda rows: np.einsum("d,dk->k", self.mean[rows], directions[rows]))
            products = self.words.times(values)  # values sum to 0
            del values

            def curved(rows: slice, products: Floats = products) -> Floats:
                products[rows] += self.ridge * directions[rows]
                return _dots(products[rows], directions[rows])

            step = np.where(active, size / np.where(active, self._total(curved), 1), 0)

            def moved(rows: slice, products: Floats = products, step: Floats = step) -> Floats:
                weights[rows] += step * directions[rows]
                residual[rows] -= step * products[rows]
                products[rows] = residual[rows] * self.inverse[rows]
                return _dots(residual[rows], products[rows])

            grown = self._total(moved)
            turn = np.where(active, grown / np.where(active, size, 1), 0)

            def turned(rows: slice, products: Floats = products, turn: Floats = turn) -> None:
                directions[rows] *= turn
                directions[rows] += products[rows]

            self._each(turned)
            size = np.where(active, grown, size)
        return weights

    def _total(self, function: Callable[[slice], Floats]) -> Floats:
        return np.sum(self._each(function), axis=0)

    def _each(self, function: Callable[[slice], Any]) -> list[Any]:
        n = self.words.shape[0]
        return self.workers.map_blocks(lambda start, stop: function(slice(start, stop)), n, _CHUNK_ROWS)


def _dots(a: Floats, b: Floats) -> Floats:
    return np.einsum("dk,dk->k", a, b)


def _slices(n_rows: int) -> Iterator[slice]:
    """Yield slices of rows that fit in a processor's cache."""
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(start + _CHUNK_ROWS, n_rows))
