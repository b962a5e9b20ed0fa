"""Supervision by similarities of single pairs: the paper's own setting, with elements that may be missing.

S_ij says whether point i in one modality and point j in another are similar; it need not be symmetric, and
most of it may be unobserved. Everything costs as much as there are observed entries.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.supervision import Sample
from dlfh._parallel import Workers
from dlfh._sparse import checked_sparse
from dlfh.codes import Codes
from dlfh.errors import InputError

__all__ = ["ObservedPairs"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ObservedPairs:
    """Observed similarities, one row of the codes per point.

    Attributes
    ----------
    S : csr_array of uint8 (n, n)
        Its stored entries are the observed ones, 1 for similar and 0 for dissimilar: row i is point i in a
        modality, column j point j in a later one.
    present : tuple of ndarray of bool (n,), optional
        By modality: which points have it.
    pair_weights : ndarray of int64 (modalities, modalities), optional
        What a pair of two modalities' points counts for; 1 by default.

    Examples
    --------
    >>> pairs = ObservedPairs.from_matrix(np.array([[1.0, np.nan], [0.0, 1.0]]), n_points=2)
    >>> pairs.n_observed
    3
    """

    S: Any
    present: tuple[npt.NDArray[np.bool_], ...] | None = None
    pair_weights: Integers | None = None

    @classmethod
    def from_matrix(
        cls,
        similarity: Any,
        n_points: int,
        present: tuple[npt.NDArray[np.bool_], ...] | None = None,
        pair_weights: Integers | None = None,
    ) -> ObservedPairs:
        """Read S: dense, with NaN for what is unobserved, or sparse, with the stored entries observed."""
        return cls(_read(similarity, n_points), present, pair_weights)

    @property
    def n_observed(self) -> int:
        return int(self.S.nnz)

    @property
    def row_of_point(self) -> Integers:
        return np.arange(self.S.shape[0])

    def __len__(self) -> int:
        return int(self.S.shape[0])

    def check(self, modalities: tuple[str, ...]) -> None:
        """Raise InputError for two modalities of which no pair was observed."""
        for b, name in enumerate(modalities):
            for a in range(b):
                if self.between(a, b).nnz == 0:
                    raise InputError(f"similarity has no observed entry for modalities {modalities[a]!r} and {name!r}")

    def between(self, a: int, b: int) -> sp.csr_array:
        """Return the observed similarities of points that have modality a (rows) and b (columns)."""
        S = self._directed[a, b]
        if self.present is None:
            return S
        return _with_entries(S, self.present[b][S.indices] & np.repeat(self.present[a], np.diff(S.indptr)))

    def similar_share(self, n_modalities: int) -> float:
        """Return the share p of similar pairs among the observed ones, each as often as it counts."""
        similar = total = 0
        for a, b in itertools.combinations(range(n_modalities), 2):
            observed = self.between(a, b).data
            similar += self._weight(a, b) * int(observed.sum(dtype=np.int64))
            total += self._weight(a, b) * len(observed)
        return similar / max(total, 1)

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        """Update one modality's codes in place against the others', all or sampled; return the flips."""
        blocks, columns, weights = [], [], []
        for b in range(len(codes)):
            if b != modality:
                chosen = self._choose(b, sample)
                # Rows of the transposed matrix are at hand; so much of it is turned back as was chosen.
                whole = len(chosen) == len(self)
                block = self._directed[modality, b] if whole else self._directed[b, modality][chosen].T.tocsr()
                blocks.append(block)
                columns.append(codes[b] if whole else codes[b][chosen])
                weights.append(np.full(len(chosen), self._weight(modality, b), np.int32))
        S = sp.csr_array(blocks[0] if len(blocks) == 1 else sp.hstack(blocks, format="csr"))
        column_codes = np.concatenate(columns)
        update = functools.partial(
            _kernels.update_observed_rows,
            codes[modality],
            codes[modality].view(np.uint64),
            S.indptr.astype(np.int64, copy=False),
            S.indices.astype(np.int32, copy=False),
            S.data,
            np.concatenate(weights),
            column_codes,
            column_codes.view(np.uint64),
            *model.tables,
            0,
            model.n_bits,
        )
        cost = max(S.nnz, 1) / len(self) * model.n_bits
        return sum(workers.map_blocks(update, len(self), workers.even_block(len(self), cost)))

    def _choose(self, modality: int, sample: Sample | None) -> Integers:
        """Return points that have a modality, all or sampled, in rising order."""
        points = np.arange(len(self)) if self.present is None else np.flatnonzero(self.present[modality])
        if sample is None:
            return points
        return np.sort(points[sample.rng.choice(len(points), min(sample.size, len(points)), replace=False)])

    def _weight(self, a: int, b: int) -> int:
        return 1 if self.pair_weights is None else int(self.pair_weights[a, b])

    @functools.cached_property
    def _directed(self) -> _Directed:
        return _Directed(self.S)

    def count_pairs(
        self, model: LatentFactorModel, modalities: tuple[int, int], codes: list[Codes], workers: Workers
    ) -> Integers:
        """Count the observed pairs of two modalities' points by (similar or not, Hamming distance)."""
        a, b = modalities
        S = self.between(a, b)
        count = functools.partial(
            _kernels.count_observed_pairs,
            codes[a].view(np.uint64),
            S.indptr.astype(np.int64, copy=False),
            S.indices.astype(np.int32, copy=False),
            S.data,
            codes[b].view(np.uint64),
            model.n_bits,
        )
        block = workers.even_block(len(self), max(S.nnz, 1) / len(self))
        return self._weight(a, b) * np.sum(workers.map_blocks(count, len(self), block), axis=0)


class _Directed:
    """S from an earlier modality to a later one, and its transpose the other way round, made when first needed."""

    def __init__(self, S: sp.csr_array) -> None:
        self.S = S

    @functools.cached_property
    def transposed(self) -> sp.csr_array:
        return sp.csr_array(self.S.T.tocsr())

    def __getitem__(self, modalities: tuple[int, int]) -> sp.csr_array:
        a, b = modalities
        return self.S if a < b else self.transposed


def _with_entries(S: sp.csr_array, keep: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return a matrix with some of the stored entries, zeros among them."""
    running = np.concatenate([[0], np.cumsum(keep)])
    return sp.csr_array((S.data[keep], S.indices[keep], running[S.indptr]), shape=S.shape)


def _read(similarity: Any, n_points: int) -> sp.csr_array:
    """Return S as a CSR matrix of 0 and 1 whose stored entries are the observed ones."""
    expected = f"similarity must have shape {(n_points, n_points)} (points x points)"
    if sp.issparse(similarity):
        if similarity.shape != (n_points, n_points):
            raise InputError(f"{expected}, got {similarity.shape}")
        matrix = sp.coo_array(checked_sparse(similarity, "similarity"))
        values, rows, columns = matrix.data, matrix.coords[0], matrix.coords[1]
    else:
        dense = np.asarray(similarity)
        if dense.shape != (n_points, n_points):
            raise InputError(f"{expected}, got {dense.shape}")
        if dense.dtype.kind not in "fiub":
            raise InputError(f"similarity must hold 0, 1 and NaN for what is unobserved, got type {dense.dtype}")
        rows, columns = np.nonzero(~np.isnan(dense))
        values = dense[rows, columns]
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        at = wrong[0]
        raise InputError(
            f"similarity must hold 0, 1 and nothing for what is unobserved, found {values[at].item()!r} "
            f"in row {rows[at]}, column {columns[at]}"
        )
    keys = rows.astype(np.int64) * n_points + columns
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if len(keys) == 0:
        raise InputError("similarity has no observed entry, so nothing is known of any pair")
    if np.any(keys[1:] == keys[:-1]):
        twice = keys[1:][keys[1:] == keys[:-1]][0]
        raise InputError(f"similarity has row {twice // n_points}, column {twice % n_points} more than once")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_points))])
    return sp.csr_array((values[order].astype(np.uint8), columns[order], starts), shape=(n_points, n_points))
