"""What a ridge regression would say of each of its points had it not seen it: exactly, from one factorisation.

Of a point with the residual e and the leverage h, the regression without it predicts y - e / (1 - h). The ridge and the
means of the features stay those of all points, which know nothing of any code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._mathematics.targets import Targets
from dlfh._validation import Features

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32]

_CHUNK_ROWS = 4096
#: A point that alone decides what is said of it has leverage 1: without it, nothing would be known.
_LEAST_FREEDOM = 1e-9


def left_out_by_features(
    block: Callable[[int, int], npt.NDArray[Any]],
    targets: Targets,
    ridge: Callable[[Floats], float],
    *,
    intercept: bool = True,
    own_feature: Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]] | None = None,
) -> Values:
    """Return what each point's values would be, from the (features x features) matrix.

    Parameters
    ----------
    block : callable
        Returns the dense features of the points from one number up to another.
    targets : Targets
    ridge : callable
        Returns the ridge, from the sums of squares of the centred features.
    intercept : bool
        Whether the regression has one.
    own_feature : callable, optional
        Returns, for some points' features, the number of the feature that is there because of the point (a base of
        kernels at its place) and is left out with it; -1 for points without.

    Returns
    -------
    ndarray of float32 (points, n_bits)
    """
    import scipy.linalg

    n = len(targets.row_of_point)
    bounds = [(start, min(start + _CHUNK_ROWS, n)) for start in range(0, n, _CHUNK_ROWS)]
    mean = sum(block(*own).sum(axis=0, dtype=np.float64) for own in bounds) / n
    offset = targets.mean() if intercept else np.zeros(targets.n_bits)
    gram, cross = np.zeros((len(mean), len(mean))), np.zeros((len(mean), targets.n_bits))
    for start, stop in bounds:
        centred = block(start, stop) - mean
        gram += centred.T @ centred
        cross += centred.T @ (targets.points(start, stop) - offset)
    gram.flat[:: len(gram) + 1] += ridge(np.diag(gram).copy())
    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:  # rounding made it indefinite
        gram.flat[:: len(gram) + 1] += 1e-10 * np.trace(gram) / len(gram)
        factor = np.linalg.cholesky(gram)
    weights = scipy.linalg.cho_solve((factor, True), cross, check_finite=False)
    inverse = None if own_feature is None else scipy.linalg.cho_solve((factor, True), np.eye(len(mean)))
    values = np.empty((n, targets.n_bits), np.float32)
    for start, stop in bounds:
        rows = block(start, stop)
        centred = rows - mean
        leverages = (scipy.linalg.solve_triangular(factor, centred.T, lower=True, check_finite=False) ** 2).sum(axis=0)
        freedom = np.maximum(1 - leverages - intercept / n, _LEAST_FREEDOM)
        codes = targets.points(start, stop)
        errors = (codes - centred @ weights - offset) / freedom[:, None]
        if own_feature is not None and inverse is not None:
            errors += _of_own_features(own_feature(rows), centred, weights, inverse, errors, freedom)
        values[start:stop] = codes - errors
    return values


def left_out_by_points(features: Features, targets: Targets, ridge: float, *, intercept: bool = True) -> Values:
    """Return the same from the (points x points) matrix, for more features than points; sparse ones stay sparse."""
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
    hat = np.linalg.solve(products + ridge * np.eye(n), products)  # of two matrices that commute
    freedom = np.maximum(1 - np.diag(hat) - intercept / n, _LEAST_FREEDOM)
    values: Values = (codes - (codes - hat @ (codes - offset) - offset) / freedom[:, None]).astype(np.float32)
    return values


def _of_own_features(
    columns: npt.NDArray[np.int64],
    centred: Floats,
    weights: Floats,
    inverse: Floats,
    errors: Floats,
    freedom: Floats,
) -> Floats:
    """Return how much more a point is mistaken when its own feature is left out too: its weight held at 0.

    Without the point, the inverse B is B + uu'/(1 - h) with u = Bz, and the weights w are w - u e/(1 - h). Holding
    weight c at 0 then takes B_c w_c / B_cc from them.
    """
    more = np.zeros_like(errors)
    having = np.flatnonzero(columns >= 0)
    own = columns[having]
    u = np.einsum("ij,ij->i", centred[having], inverse[own])
    weight = weights[own] - u[:, None] * errors[having]
    share = u / freedom[having] / (inverse[own, own] + u**2 / freedom[having])
    more[having] = share[:, None] * weight
    return more
