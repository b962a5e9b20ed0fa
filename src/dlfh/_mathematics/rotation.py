"""Rotations that bring points close to the corners of a cube, so that their signs lose little (ITQ)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dlfh._parallel import blas_threads
from dlfh.blocks import Blocks

__all__ = ["closest_rotation", "iterative_quantization", "random_rotation", "signs", "uncorrelated"]

Floats = npt.NDArray[np.float64]


def signs(values: Floats) -> Floats:
    """Return -1.0 and +1.0, +1 for positive values only, as codes have it."""
    return np.where(values > 0, 1.0, -1.0)


def random_rotation(n: int, rng: np.random.Generator) -> Floats:
    """Return a random orthogonal matrix, all alike probable.

    Examples
    --------
    >>> R = random_rotation(3, np.random.default_rng(0))
    >>> bool(np.allclose(R.T @ R, np.eye(3)))
    True
    """
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def closest_rotation(matrix: Floats) -> Floats:
    """Return the orthogonal R that maximises tr(R'M): P Q' of M's SVD P S Q' (orthogonal Procrustes)."""
    # NumPy's, as products are: its BLAS and SciPy's are in each other's way where calls alternate.
    # On one thread: a matrix of a few hundred rows is too small for two, which wait for each other in a loop.
    with blas_threads(1):
        left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


def uncorrelated(Z: Floats, weights: Floats | None = None, rng: np.random.Generator | None = None) -> Floats:
    """Return the balanced and uncorrelated V closest to Z: the largest tr(V'W Z) with V'W V = n I and V'W 1 = 0.

    V is sqrt(n) P Q' of the SVD P S Q' of the centred Z. Where that has fewer directions than columns, others that are
    orthogonal to them and to 1 take their place, at random; without ``rng``, or where there are too few rows for
    them, none does.

    Parameters
    ----------
    Z : ndarray of float64 (rows, c)
    weights : ndarray of float64 (rows,), optional
        How many of the n points each row stands for, the diagonal of W; 1 by default.
    rng : numpy Generator, optional

    Returns
    -------
    ndarray of float64 (rows, c)

    Examples
    --------
    >>> V = uncorrelated(np.array([[3.0, 1.0], [1.0, 2.0], [-4.0, 0.5], [0.5, 0.5]]))
    >>> bool(np.allclose(V.T @ V, 4 * np.eye(2))), bool(np.allclose(V.sum(axis=0), 0))
    (True, True)
    """
    weights = np.ones(len(Z)) if weights is None else weights
    n, roots = float(weights.sum()), np.sqrt(weights)[:, None]
    # The SVD of the rows themselves: squaring them first would lose the small directions.
    left, sizes, right = np.linalg.svd(roots * (Z - weights @ Z / n), full_matrices=False)
    n_kept = int(np.count_nonzero(sizes > max(Z.shape) * np.finfo(np.float64).eps * sizes[0]))
    left = left[:, :n_kept]
    left = left - roots * (roots.T @ left / n)  # where columns are of other sizes, centring left rounding
    n_free = min(len(right), len(Z) - 1) - n_kept
    if rng is not None and n_free > 0:
        taken = np.column_stack([left, roots / np.sqrt(n)])
        others = rng.standard_normal((len(Z), n_free))
        for _ in range(2):  # once leaves rounding
            others -= taken @ (taken.T @ others)
        left = np.column_stack([left, np.linalg.qr(others)[0]])
    return np.sqrt(n) * (left / roots) @ right[: left.shape[1]]


def iterative_quantization(points: Floats | Sequence[Blocks], rotation: Floats, n_iter: int) -> tuple[Floats, Floats]:
    """Rotate points towards their own signs: minimise |B - E R|^2 over B in {-1, +1} and rotations R.

    Parameters
    ----------
    points : ndarray of float64 (n, c), or sequence of Blocks
        E, centred. Blocks are read in each step, and once before: they should be where they are worked on.
    rotation : ndarray of float64 (c, c)
        Where to start.
    n_iter : int

    Returns
    -------
    rotation : ndarray of float64 (c, c)
    errors : ndarray of float64 (n_iter + 1,)
        The objective before each step, and of the result; it never rises.
    """
    # |B - E R|^2 = |B|^2 + |E R|^2 - 2 tr(R'E'B), and a rotation leaves |E R| as it is: E'B is all that steps need.
    if isinstance(points, np.ndarray):
        constant = points.size + float(np.vdot(points, points))
        products_with_signs = functools.partial(_products_with_signs, points)
    else:
        constant = sum(float(own.map_reduce(_size_and_squares, operator.add)) for own in points)
        products_with_signs = functools.partial(_products_by_blocks, points)
    errors = []
    for _ in range(n_iter):
        products = products_with_signs(rotation)
        errors.append(constant - 2 * float(np.vdot(rotation, products)))
        rotation = closest_rotation(products)
    errors.append(constant - 2 * float(np.vdot(rotation, products_with_signs(rotation))))
    return rotation, np.array(errors)


#: Rows whose rotation and signs stay in a processor's cache.
_ROWS = 4096


def _products_with_signs(points: Floats, rotation: Floats) -> Floats:
    """Return E'B for B = signs(E R), block after block of rows, so that neither is ever in memory as a whole."""
    products = np.zeros_like(rotation)
    for start in range(0, len(points), _ROWS):
        block = points[start : start + _ROWS]
        products += block.T @ signs(block @ rotation)
    return products


def _products_by_blocks(points: Sequence[Blocks], rotation: Floats) -> Floats:
    on_block = functools.partial(_products_of_block, rotation)
    return np.sum([own.map_reduce(on_block, operator.add) for own in points], axis=0)


def _products_of_block(rotation: Floats, _: int, block: Floats) -> Floats:
    return _products_with_signs(block, rotation)


def _size_and_squares(_: int, block: Floats) -> float:
    return block.size + float(np.vdot(block, block))
