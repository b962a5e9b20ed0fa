"""Rotations that move points close to their signs, so that quantization loses little (ITQ)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from dlfh._arrays import Floats
from dlfh._parallel import blas_threads
from dlfh.blocks.base import Blocks


def signs(values: Floats) -> Floats:
    """Return -1.0 and +1.0; +1 for positive values only, as in codes."""
    return np.where(values > 0, 1.0, -1.0)


def random_rotation(n: int, rng: np.random.Generator) -> Floats:
    """Return a uniformly distributed random orthogonal matrix."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def closest_rotation(matrix: Floats) -> Floats:
    """Return the orthogonal R that maximises tr(R'M): P Q' of M's SVD P S Q' (orthogonal Procrustes)."""
    # NumPy's SVD, because alternating calls to NumPy's and SciPy's BLAS slow each other down. On one thread, because
    # with a few hundred rows, several threads spend their time waiting for each other.
    with blas_threads(1):
        left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


def uncorrelated(Z: Floats, weights: Floats | None = None, rng: np.random.Generator | None = None) -> Floats:
    """Return the balanced and uncorrelated V closest to Z: the largest tr(V'W Z) with V'W V = n I and V'W 1 = 0.

    V is sqrt(n) P Q' of the SVD P S Q' of the centred Z. If its rank is less than the number of columns, random
    directions orthogonal to the others and to 1 fill up the rest, unless ``rng`` is None or there are too few rows.

    weights (rows,): The diagonal of W: the number of points that each row represents; 1 by default.
    """
    weights = np.ones(len(Z)) if weights is None else weights
    n, roots = float(weights.sum()), np.sqrt(weights)[:, None]
    # The SVD of the rows, not of their Gram matrix, which would lose the small directions.
    left, sizes, right = np.linalg.svd(roots * (Z - weights @ Z / n), full_matrices=False)
    n_kept = int(np.count_nonzero(sizes > max(Z.shape) * np.finfo(np.float64).eps * sizes[0]))
    left = left[:, :n_kept]
    left = left - roots * (roots.T @ left / n)  # columns of different sizes leave rounding errors
    n_free = min(len(right), len(Z) - 1) - n_kept
    if rng is not None and n_free > 0:
        taken = np.column_stack([left, roots / np.sqrt(n)])
        others = rng.standard_normal((len(Z), n_free))
        for _ in range(2):  # the second time removes rounding errors
            others -= taken @ (taken.T @ others)
        left = np.column_stack([left, np.linalg.qr(others)[0]])
    return np.sqrt(n) * (left / roots) @ right[: left.shape[1]]


def iterative_quantization(points: Sequence[Blocks], rotation: Floats, n_iter: int) -> tuple[Floats, Floats]:
    """Rotate points towards their signs: minimise |B - E R|^2 over B in {-1, +1} and rotations R.

    points (n, c): The rows of E, centred. They are read once for each step and once before.
    rotation (c, c): Initial rotation.
    Returns: The objective before each step, and at the end; it never increases.
    """
    # |B - E R|^2 = |B|^2 + |E R|^2 - 2 tr(R'E'B), and a rotation does not change |E R|: steps need only E'B.
    constant = sum(float(blocks.map_reduce(_size_and_squares, operator.add)) for blocks in points)

    def products_with_signs(rotation: Floats) -> Floats:
        on_block = functools.partial(_products_with_signs, rotation)
        return np.sum([blocks.map_reduce(on_block, operator.add) for blocks in points], axis=0)

    errors = []
    for _ in range(n_iter):
        products = products_with_signs(rotation)
        errors.append(constant - 2 * float(np.vdot(rotation, products)))
        rotation = closest_rotation(products)
    errors.append(constant - 2 * float(np.vdot(rotation, products_with_signs(rotation))))
    return rotation, np.array(errors)


#: Rows whose rotation and signs fit in a processor's cache.
_ROWS = 4096


def _products_with_signs(rotation: Floats, _: int, points: Floats) -> Floats:
    """Return E'B for B = signs(E R), a few rows at a time."""
    products = np.zeros_like(rotation)
    for start in range(0, len(points), _ROWS):
        rows = points[start : start + _ROWS]
        products += rows.T @ signs(rows @ rotation)
    return products


def _size_and_squares(_: int, points: Floats) -> float:
    return points.size + float(np.vdot(points, points))
