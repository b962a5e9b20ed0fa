"""Linear functions of rows scaled to length 1, with negative values split off, as matrix factorization needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Singles
from dlfh._mathematics.moments import compute_dtype
from dlfh._parallel import Workers
from dlfh._validation import Features, raise_for_overflow
from dlfh.hashing.base import HashFunction, check_array
from dlfh.hashing.linear import LinearHash

_CHUNK_ROWS = 8192


def unit_rows(features: Features, *, split: bool) -> Features:
    """Return rows scaled to length 1; with ``split``, each feature x becomes two, max(x, 0) and max(-x, 0).

    Rows of zeros are unchanged.
    """
    matrix = features.astype(compute_dtype(features.dtype))
    if sp.issparse(matrix):
        largest = np.asarray(abs(matrix).max(axis=1).toarray()).ravel()
    else:
        largest = np.abs(matrix).max(axis=1, initial=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # Scaled twice, so that squares neither overflow nor underflow.
        matrix = _divide(matrix, largest)
        squares = matrix.power(2).sum(axis=1) if sp.issparse(matrix) else np.einsum("nd,nd->n", matrix, matrix)
        matrix = _divide(matrix, np.sqrt(np.asarray(squares)).ravel())
    if not split:
        return matrix
    if sp.issparse(matrix):
        return sp.csr_array(sp.hstack([matrix.maximum(0), (-matrix).maximum(0)], format="csr"))
    return np.concatenate([np.maximum(matrix, 0), np.maximum(-matrix, 0)], axis=1)


def _divide(matrix: Features, lengths: Array) -> Features:
    scale = 1 / np.where(lengths == 0, 1, lengths).astype(matrix.dtype)
    if sp.issparse(matrix):
        data = matrix.data * np.repeat(scale, np.diff(matrix.indptr))
        return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return matrix * scale[:, None]


class UnitLinearHash(HashFunction):
    """``code(x) = sign(unit(x) @ weights + intercept)``, with unit(x) by `unit_rows`.

    function: The function of the unit rows.
    split: Whether features are split into their positive and negative parts.
    """

    kind = "unit-linear"

    def __init__(self, function: LinearHash, *, split: bool) -> None:
        self.function = function
        self.split = split
        self.n_features, self.n_bits = function.n_features // (2 if split else 1), function.n_bits

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        for start in range(0, features.shape[0], _CHUNK_ROWS):
            rows = unit_rows(features[start : start + _CHUNK_ROWS], split=self.split)
            if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
                raise_for_overflow(features, modality)
            projections[start : start + _CHUNK_ROWS] = self.function.project(rows, modality, workers)
        return projections

    def to_arrays(self) -> dict[str, Array]:
        return self.function.to_arrays() | {"split": np.array([self.split])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> UnitLinearHash:
        split = bool(check_array(arrays, "split", np.bool_, (1,))[0])
        function = LinearHash.from_arrays(arrays)
        if split and function.n_features % 2:
            raise ValueError(f"its number of split features must be even, got {function.n_features}")
        return cls(function, split=split)
