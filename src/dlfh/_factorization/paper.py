"""Algorithm 1 exactly as printed in the paper: column by column, in plain NumPy, with S as a matrix.

A reference only, since it takes n x n memory and c passes over it. The library runs `solver`, and tests check that it
gives the same codes from the same start and samples. `dlfh._factorization` explains the letters.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dlfh._arrays import Floats, Integers


def log_likelihood(U: Floats, V: Floats, S: Floats, scale: float) -> float:
    """Return L = sum_ij [S_ij Theta_ij - log(1 + exp(Theta_ij))], eq. (1)."""
    Theta = scale / U.shape[1] * (U @ V.T)
    return float((S * Theta - np.logaddexp(0, Theta)).sum())


def update(U: Floats, V: Floats, S: Floats, scale: float) -> None:
    """Update each column of U in turn, in place, with V fixed.

    With all columns of S this is eq. (3), the maximiser of the lower bound of L in eq. (2), so L does not decrease.
    With m sampled columns and their rows of V it is eq. (5); with S transposed, U and V swapped, eq. (4) or (6).
    """
    c, m = U.shape[1], V.shape[0]
    for k in range(c):
        Theta = scale / c * (U @ V.T)
        A = 1 / (1 + np.exp(-Theta))
        gradient = scale / c * ((S - A) @ V[:, k])
        curvature = m * scale**2 / (4 * c**2)  # -H of section 3.2.1: A (1 - A) is at most 1/4
        U[:, k] = np.where(gradient + curvature * U[:, k] >= 0, 1, -1)


def learn(U: Floats, V: Floats, S: Floats, scale: float, samples: Iterable[tuple[Integers, Integers]]) -> None:
    """Learn U and V in place by Algorithm 1, starting from their current codes.

    U, V (n, c): Entries -1 and +1.
    S (n, n): Entries 0 and 1.
    scale: The paper's lambda.
    samples (columns, rows): For each of T iterations, the sampled columns of S for eq. (5) and rows for eq. (6). With
        all of them in every iteration this is full DLFH.
    """
    for columns, rows in samples:
        update(U, V[columns], S[:, columns], scale)
        update(V, U[rows], S[rows].T, scale)
