"""Ridge regression on wide sparse features without a (features x features) matrix, by conjugate gradients.

(X'X + gamma I) W = X'U for centred X is solved for all bits from products with X alone, which stays sparse: a column of
ones takes the mean away. Each feature is divided by its length (Jacobi's preconditioner): a few words are in every
second text and most are in two or three, and without it the few decide how long all others take.

Every bit has steps of its own, so what a bit gets depends on no other bit; bits go together in groups of a fixed size,
one thread a group, so that sums are the same on any number of threads. Weights are linear in what is to be predicted:
with fewer distinct codes than bits, who has which code is predicted, and the codes are put together from that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._parallel import Workers
from dlfh.mathematics._targets import Targets

__all__ = ["solve_by_conjugate_gradients"]

Floats = npt.NDArray[np.float64]

#: A bit is done when its residual is so small, relative to where it began (in the preconditioner's norm).
_TOLERANCE = 1e-7

#: Without a ridge to speak of, convergence has no end; what is left by then are directions that hardly matter.
_MAX_ITERATIONS = 1000

#: Bits that go through the data together: a row of eight doubles is a line of a processor's cache.
_GROUP_BITS = 8

_CHUNK_ROWS = 8192


def solve_by_conjugate_gradients(
    features: sp.csr_array,
    mean: Floats,
    squares: Floats,
    targets: Targets,
    ridge: float,
    workers: Workers,
) -> npt.NDArray[np.float32]:
    """Return W, shape (features, n_bits), to single precision's worth of digits.

    Parameters
    ----------
    features : csr_array (n, d)
    mean, squares : ndarray of float64 (d,)
        Each feature's mean, and sum of squares about it: 0 for constant features, which get no weight.
    targets : Targets
    ridge : float
    workers : Workers
    """
    varying = np.flatnonzero(squares)
    X = features[:, varying] if len(varying) < features.shape[1] else features
    X = sp.csr_array(X, dtype=np.float64)
    transposed = sp.csr_array(X.T)
    inverse = 1 / (squares[varying] + ridge)
    every = varying if len(varying) < features.shape[1] else slice(None)
    groups, of_group = np.unique(targets.row_of_point, return_inverse=True)
    by_group = len(groups) < targets.n_bits
    weights = np.zeros((features.shape[1], len(groups) if by_group else targets.n_bits), np.float32)

    def solve(start: int, stop: int) -> None:
        wanted = np.empty((X.shape[0], stop - start))
        for rows in _slices(len(wanted)):
            if by_group:
                wanted[rows] = of_group[rows, None] == np.arange(start, stop)
            else:
                wanted[rows] = targets.points(rows.start, rows.stop)[:, start:stop]
        wanted -= wanted.mean(axis=0)
        weights[every, start:stop] = _solve(X, transposed, mean[varying], inverse, ridge, wanted)

    workers.map_blocks(solve, weights.shape[1], _GROUP_BITS)
    if not by_group:
        return weights
    codes = np.concatenate([targets.rows(group, group + 1) for group in groups.tolist()]).astype(np.float32)
    combined = np.empty((len(weights), targets.n_bits), np.float32)
    for rows in _slices(len(weights)):
        combined[rows] = weights[rows] @ codes
    return combined


def _solve(
    X: sp.csr_array, transposed: sp.csr_array, mean: Floats, inverse: Floats, ridge: float, codes: Floats
) -> Floats:
    """Return the weights of a few bits."""
    residual: Floats = transposed @ codes  # codes are centred, so X need not be
    weights = np.zeros_like(residual)
    directions = residual * inverse[:, None]
    size = np.einsum("dk,dk->k", residual, directions)
    first = size.copy()
    for _ in range(_MAX_ITERATIONS):
        # A bit without anything to explain, or with everything explained, stands still.
        active = size > _TOLERANCE**2 * first
        if not active.any():
            break
        values = X @ directions
        values -= mean @ directions
        products = transposed @ values  # values sum to 0
        curvature = np.einsum("dk,dk->k", products, directions) + ridge * np.einsum("dk,dk->k", directions, directions)
        step = np.where(active, size / np.where(active, curvature, 1), 0)
        grown = np.zeros_like(size)
        for rows in _slices(len(weights)):
            own = directions[rows]
            weights[rows] += step * own
            residual[rows] -= step * (products[rows] + ridge * own)
            scaled = residual[rows] * inverse[rows, None]
            grown += np.einsum("dk,dk->k", residual[rows], scaled)
            products[rows] = scaled
        turn = np.where(active, grown / np.where(active, size, 1), 0)
        for rows in _slices(len(weights)):
            directions[rows] *= turn
            directions[rows] += products[rows]
        size = np.where(active, grown, size)
    return weights


def _slices(n_rows: int) -> Iterator[slice]:
    """Yield slices of rows that stay in a processor's cache."""
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(start + _CHUNK_ROWS, n_rows))
