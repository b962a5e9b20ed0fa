"""Canonical correlations: the most correlated directions of two modalities, by one SVD.

With whitening factors Cxx = Lx Lx' and Cyy = Ly Ly', the singular vectors of Lx^-1 Cxy Ly^-T give the directions,
wx = Lx^-T u and wy = Ly^-T v, and its singular values are the correlations. There is no division by a correlation, so
uncorrelated directions come out as zero, not as noise. Cxy can be any cross matrix, such as SCM's X'SY.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dlfh._arrays import Floats

#: Correlations below this are rounding errors.
NO_CORRELATION = 1e-6


class Whitening:
    """The Cholesky factor L of a covariance, C + ridge I = L L', with a ridge of at least its rounding error."""

    def __init__(self, covariance: Floats, ridge: float) -> None:
        rounding = 4 * np.finfo(np.float64).eps * float(np.trace(covariance))
        self.ridge = max(ridge, rounding, float(np.finfo(np.float64).tiny))
        while True:
            regular = covariance.copy()
            regular.flat[:: len(covariance) + 1] += self.ridge
            try:
                self.factor: Floats = scipy.linalg.cholesky(regular, lower=True, check_finite=False)
                break
            except np.linalg.LinAlgError:
                self.ridge *= 10

    def whiten(self, matrix: Floats) -> Floats:
        """Return L^-1 A."""
        return scipy.linalg.solve_triangular(self.factor, matrix, lower=True, check_finite=False)

    def directions(self, vectors: Floats) -> Floats:
        """Return L^-T A: whitened directions as weights of the features."""
        return scipy.linalg.solve_triangular(self.factor, vectors, lower=True, trans="T", check_finite=False)


@dataclass(frozen=True)
class CanonicalDirections:
    """Pairs of directions in order of descending correlation, with wx' Cxx wx = wy' Cyy wy = 1."""

    x: Floats
    y: Floats
    correlations: Floats

    def first(self, k: int, threshold: float = NO_CORRELATION) -> CanonicalDirections:
        """Return exactly k directions, padded with zeros after the last correlated one."""
        n_kept = min(k, int(np.count_nonzero(self.correlations > threshold)))
        x, y, r = np.zeros((len(self.x), k)), np.zeros((len(self.y), k)), np.zeros(k)
        x[:, :n_kept], y[:, :n_kept] = self.x[:, :n_kept], self.y[:, :n_kept]
        r[:n_kept] = self.correlations[:n_kept]
        return CanonicalDirections(x, y, r)


def canonical_directions(x: Whitening, y: Whitening, cross: Floats) -> CanonicalDirections:
    """Return all canonical directions of two whitened modalities with the cross matrix ``cross``."""
    whitened = y.whiten(x.whiten(cross).T).T
    left, correlations, right = scipy.linalg.svd(whitened, full_matrices=False, check_finite=False)
    return CanonicalDirections(x.directions(left), y.directions(right.T), correlations)


def oriented(vectors: Floats) -> Floats:
    """Return the sign of each column's largest entry, a choice of sign that does not depend on rounding."""
    largest = np.argmax(np.abs(vectors), axis=0)
    return np.where(np.take_along_axis(vectors, largest[None], axis=0)[0] < 0, -1.0, 1.0)


def principal_directions(gram: Floats, k: int) -> Floats:
    """Return the k directions of largest variance, in descending order, padded with zeros."""
    d = len(gram)
    _, vectors = scipy.linalg.eigh(gram, subset_by_index=(max(d - k, 0), d - 1), check_finite=False)
    found = np.zeros((d, k))
    found[:, : vectors.shape[1]] = (vectors * oriented(vectors))[:, ::-1]
    return found


def top_pair(matrix: Floats) -> tuple[Floats, Floats, float]:
    """Return the first singular vectors and value, from the smaller of M M' and M'M.

    The largest entry of the left vector is positive. If M = 0 the vectors are zero.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    M = matrix if wide else matrix.T
    last = len(M) - 1
    _, vector = scipy.linalg.eigh(M @ M.T, subset_by_index=(last, last), check_finite=False)
    left = vector[:, 0]
    right = M.T @ left
    value = float(np.linalg.norm(right))
    if value == 0:
        return np.zeros(matrix.shape[0]), np.zeros(matrix.shape[1]), 0.0
    left, right = (left, right / value) if wide else (right / value, left)
    sign = oriented(left[:, None])[0]
    return sign * left, sign * right, value
