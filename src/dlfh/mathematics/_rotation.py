"""Rotations that bring points close to the corners of a cube, so that their signs lose little (ITQ)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dlfh._parallel import blas_threads

__all__ = ["closest_rotation", "iterative_quantization", "random_rotation", "signs"]

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


def iterative_quantization(points: Floats, rotation: Floats, n_iter: int) -> tuple[Floats, Floats]:
    """Rotate points towards their own signs: minimise |B - E R|^2 over B in {-1, +1} and rotations R.

    Parameters
    ----------
    points : ndarray of float64 (n, c)
        E, centred.
    rotation : ndarray of float64 (c, c)
        Where to start.
    n_iter : int

    Returns
    -------
    rotation : ndarray of float64 (c, c)
    errors : ndarray of float64 (n_iter + 1,)
        The objective before each step, and of the result; it never rises.
    """
    errors = []
    for _ in range(n_iter):
        rotated = points @ rotation
        B = signs(rotated)
        errors.append(float(np.sum((B - rotated) ** 2)))
        rotation = closest_rotation(points.T @ B)
    rotated = points @ rotation
    errors.append(float(np.sum((signs(rotated) - rotated) ** 2)))
    return rotation, np.array(errors)
