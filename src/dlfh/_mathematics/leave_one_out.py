"""Leave-one-out predictions of a ridge regression, exactly, from one factorisation.

For a point with residual e and leverage h, the regression without it predicts y - e / (1 - h). The ridge and the means
of the features remain those of all points; they do not depend on the codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._mathematics.ridge import solve_ridge
from dlfh._mathematics.targets import Targets
from dlfh._validation import Features

_CHUNK_ROWS = 4096
#: Lower bound of 1 - h, which is 0 for a point that determines its own prediction.
_MIN_FREEDOM = 1e-9


@dataclass(frozen=True)
class RidgeSolution:
    """A solved ridge regression, with the matrix that its leave-one-out predictions need.

    mean (d,): Means of the features.
    matrix (d, d): X'X + ridge I, for centred features.
    weights (d, k), offset (k,): The prediction for x is ``(x - mean) @ weights + offset``.
    intercept: Whether the offset was fitted.
    """

    n_points: int
    mean: Floats
    matrix: Floats
    weights: Floats
    offset: Floats
    intercept: bool = True

    def columns(self, columns: slice) -> RidgeSolution:
        """Return the solution for some of the targets."""
        return replace(self, weights=self.weights[:, columns], offset=self.offset[columns])

    def leave_one_out(
        self,
        rows: Callable[[int, int], Array],
        targets: Callable[[int, int], Array],
        n: int,
        own_feature: Callable[[Array], Integers] | None = None,
    ) -> Singles:
        """Return the leave-one-out predictions of n of the points.

        rows, targets: Return the dense features and the targets of the points in a range.
        own_feature: Returns, for the features of some points, the number of the feature that derives from the point
            itself (a kernel base at the point) and is left out with it; -1 for points without one.
        """
        import scipy.linalg

        factor, inverse = _cholesky(self.matrix), None
        # Single precision is enough for leverages, which lie between 0 and 1, unless a pivot vanishes in it.
        is_safe = np.diag(factor).min() > np.finfo(np.float32).tiny
        pivots = factor.astype(np.float32) if is_safe else factor
        if own_feature is not None:
            lower, _ = scipy.linalg.lapack.dpotri(factor, lower=True)
            inverse = np.tril(lower) + np.tril(lower, -1).T
        values = np.empty((n, self.weights.shape[1]), np.float32)
        for start, stop in _bounds(n):
            features = rows(start, stop)
            centred = features - self.mean
            half = scipy.linalg.solve_triangular(pivots, centred.T.astype(pivots.dtype), lower=True, check_finite=False)
            leverages = np.einsum("di,di->i", half, half, dtype=np.float64)
            freedom = np.maximum(1 - leverages - self.intercept / self.n_points, _MIN_FREEDOM)
            actual = targets(start, stop)
            errors = (actual - centred @ self.weights - self.offset) / freedom[:, None]
            if own_feature is not None and inverse is not None:
                errors += _of_own_features(own_feature(features), centred, self.weights, inverse, errors, freedom)
            values[start:stop] = actual - errors
        return values


def leave_one_out_by_features(
    rows: Callable[[int, int], Array],
    targets: Targets,
    ridge: Callable[[Floats], float | Floats],
    *,
    intercept: bool = True,
    own_feature: Callable[[Array], Integers] | None = None,
) -> Singles:
    """Return leave-one-out predictions of all points, from the (features x features) matrix.

    rows, own_feature: See `RidgeSolution.leave_one_out`.
    ridge: Returns the ridge, a number or a matrix, from the sums of squares of the centred features.
    intercept: Whether the regression has one.
    """
    n = len(targets.row_of_point)
    mean = sum(rows(*bound).sum(axis=0, dtype=np.float64) for bound in _bounds(n)) / n
    offset = targets.mean() if intercept else np.zeros(targets.n_bits)
    gram, cross = np.zeros((len(mean), len(mean))), np.zeros((len(mean), targets.n_bits))
    for start, stop in _bounds(n):
        centred = rows(start, stop) - mean
        gram += centred.T @ centred
        cross += centred.T @ (targets.points(start, stop) - offset)
    weights = solve_ridge(gram, ridge(np.diag(gram).copy()), cross)  # adds the ridge to the matrix
    solution = RidgeSolution(n, mean, gram, weights, offset, intercept)
    return solution.leave_one_out(rows, targets.points, n, own_feature)


def _cholesky(matrix: Floats) -> Floats:
    try:
        factor: Array = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:  # rounding made it indefinite
        factor = np.linalg.cholesky(matrix + 1e-10 * np.trace(matrix) / len(matrix) * np.eye(len(matrix)))
    return factor


def _bounds(n: int) -> list[tuple[int, int]]:
    return [(start, min(start + _CHUNK_ROWS, n)) for start in range(0, n, _CHUNK_ROWS)]


def leave_one_out_by_points(features: Features, targets: Targets, ridge: float, *, intercept: bool = True) -> Singles:
    """Return leave-one-out predictions from the (points x points) matrix, for more features than points."""
    n = len(targets.row_of_point)
    codes = targets.points(0, n).astype(np.float64)
    offset = codes.mean(axis=0) if intercept else np.zeros(targets.n_bits)
    if sp.issparse(features):
        products = (features.astype(np.float64) @ features.astype(np.float64).T).toarray()
        products -= products.mean(axis=0)
        products -= products.mean(axis=1)[:, None]
    else:
        centred = features - features.mean(axis=0, dtype=np.float64)
        products = centred @ centred.T
    hat = np.linalg.solve(products + ridge * np.eye(n), products)  # the two matrices commute
    freedom = np.maximum(1 - np.diag(hat) - intercept / n, _MIN_FREEDOM)
    values: Singles = (codes - (codes - hat @ (codes - offset) - offset) / freedom[:, None]).astype(np.float32)
    return values


def _of_own_features(
    columns: Integers, centred: Floats, weights: Floats, inverse: Floats, errors: Floats, freedom: Floats
) -> Floats:
    """Return the additional error of each point when its own feature is left out too, by fixing its weight at 0.

    Without the point, the inverse B becomes B + uu'/(1 - h) with u = Bz, and the weights w become w - u e/(1 - h).
    Fixing weight c at 0 then subtracts B_c w_c / B_cc from them.
    """
    more = np.zeros_like(errors)
    having = np.flatnonzero(columns >= 0)
    c = columns[having]
    u = np.einsum("ij,ij->i", centred[having], inverse[c])
    weight = weights[c] - u[:, None] * errors[having]
    share = u / freedom[having] / (inverse[c, c] + u**2 / freedom[having])
    more[having] = share[:, None] * weight
    return more
