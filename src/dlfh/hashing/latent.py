"""MLBE's hash function: the most probable bits given a point's kernel values at the training points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Floats, Singles
from dlfh._parallel import Workers
from dlfh._validation import Features, raise_for_overflow
from dlfh.hashing.base import HashFunction, check_array, expected_bits
from dlfh.hashing.rbf import RBFMap

_CHUNK_ROWS = 1024


class LatentBinaryHash(HashFunction):
    """One sweep of MLBE's bit rule over a new point, with the training points' codes fixed.

    Bit k is +1 where ``log_prior + 2 precision (k(x) a_k - sum_(l != k) u_l a_k'a_l) > 0``, a_k the k-th
    column of ``embedded``.

    kernel: Its bases are the training points.
    embedded (n_bases, n_bits): The training points' codes times the model's weights.
    start (n_bits,): Initial code of the sweep, the same for all points, so that a code depends only on its point.
    """

    kind = "latent-binary"

    def __init__(
        self, kernel: RBFMap, embedded: Floats, start: npt.NDArray[np.int8], precision: float, log_prior: float
    ) -> None:
        self.kernel = kernel
        self.embedded = embedded
        self.start = start
        self.precision = precision
        self.log_prior = log_prior
        self.n_features, self.n_bits = kernel.bases.shape[1], embedded.shape[1]

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        """Return the values whose signs are the code, shape (n, n_bits): the bits' expected values."""
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        gram = self.embedded.T @ self.embedded
        np.fill_diagonal(gram, 0)
        for first in range(0, features.shape[0], _CHUNK_ROWS):
            attraction = self.kernel(features[first : first + _CHUNK_ROWS]) @ self.embedded
            if not np.isfinite(attraction).all():
                raise_for_overflow(features, modality)
            u = np.tile(self.start.astype(np.float64), (len(attraction), 1))
            log_odds = np.empty_like(u)
            for k in range(self.n_bits):
                log_odds[:, k] = self.log_prior + 2 * self.precision * (attraction[:, k] - u @ gram[:, k])
                u[:, k] = np.where(log_odds[:, k] > 0, 1.0, -1.0)
            projections[first : first + _CHUNK_ROWS] = expected_bits(log_odds)
        return projections

    def to_arrays(self) -> dict[str, Array]:
        return self.kernel.to_arrays() | {
            "embedded": self.embedded,
            "start": self.start,
            "rule": np.array([self.precision, self.log_prior]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LatentBinaryHash:
        kernel = RBFMap.from_arrays(arrays)
        _, n_bits = check_array(arrays, "embedded", np.float64, (len(kernel.bases), None)).shape
        check_array(arrays, "start", np.int8, (n_bits,))
        precision, log_prior = check_array(arrays, "rule", np.float64, (2,)).tolist()
        return cls(kernel, arrays["embedded"], arrays["start"], precision, log_prior)
