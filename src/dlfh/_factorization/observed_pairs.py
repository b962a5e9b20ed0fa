"""Supervision by pairwise similarities, some of them unobserved: eq. (3) to (6) over the observed entries of S.

S_ij = 1 if point i in one modality and point j in another are similar; S need not be symmetric. The cost of every
operation is proportional to the number of observed entries.
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
from dlfh._arrays import Codes, Integers, Mask
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import PairWeights, Sample, pair_weight
from dlfh._parallel import Workers
from dlfh._sparse import checked_sparse
from dlfh.errors import InputError


@dataclass(frozen=True)
class ObservedPairs:
    """Observed pairwise similarities, with one code row per point and the same methods as `LabelRows`.

    S (n, n): Stored entries are the observed ones, 1 for similar and 0 for dissimilar. Row i is point i in one
        modality, column j point j in a later modality.
    """

    S: Any
    present: tuple[Mask, ...] | None = None
    pair_weights: PairWeights = None

    @classmethod
    def from_matrix(
        cls, similarity: Any, n_points: int, present: tuple[Mask, ...] | None = None, pair_weights: PairWeights = None
    ) -> ObservedPairs:
        """Read S: a dense matrix with NaN for unobserved entries, or a sparse one whose stored entries are observed."""
        given = similarity if sp.issparse(similarity) else np.asarray(similarity)
        if given.shape != (n_points, n_points):
            raise InputError(f"similarity must have shape {(n_points,) * 2} (points x points), got {given.shape}")
        if sp.issparse(given):
            matrix = sp.coo_array(checked_sparse(given, "similarity"))
            values, rows, columns = matrix.data, matrix.coords[0], matrix.coords[1]
        elif given.dtype.kind not in "fiub":
            raise InputError(
                f"similarity must hold 0 or 1 for observed pairs and NaN for all others, got type {given.dtype}"
            )
        else:
            rows, columns = np.nonzero(~np.isnan(given))
            values = given[rows, columns]
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if len(wrong):
            at = wrong[0]
            raise InputError(
                f"similarity must hold only 0 and 1 for observed pairs, found {values[at].item()!r} "
                f"in row {rows[at]}, column {columns[at]}"
            )
        keys = rows.astype(np.int64) * n_points + columns
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        if len(keys) == 0:
            raise InputError("similarity has no observed entry: it must hold at least one 0 or 1")
        repeated = keys[1:][keys[1:] == keys[:-1]]
        if len(repeated):
            row, column = divmod(int(repeated[0]), n_points)
            raise InputError(f"similarity has duplicate entries for row {row}, column {column}")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_points))])
        S = sp.csr_array((values[order].astype(np.uint8), columns[order], starts), shape=(n_points, n_points))
        return cls(S, present, pair_weights)

    @property
    def row_of_point(self) -> Integers:
        return np.arange(self.S.shape[0])

    def __len__(self) -> int:
        return int(self.S.shape[0])

    def check(self, modalities: tuple[str, ...]) -> None:
        """Raise InputError if two modalities have no observed pair."""
        for (a, first), (b, second) in itertools.combinations(enumerate(modalities), 2):
            if self.between(a, b).nnz == 0:
                raise InputError(f"similarity has no observed entry for modalities {first!r} and {second!r}")

    def between(self, a: int, b: int) -> sp.csr_array:
        """Return the observed similarities of points that have modality a (rows) and b (columns)."""
        S = self._directed(a, b)
        if self.present is None:
            return S
        keep = self.present[b][S.indices] & np.repeat(self.present[a], np.diff(S.indptr))
        n_kept = np.concatenate([[0], np.cumsum(keep)])
        return sp.csr_array((S.data[keep], S.indices[keep], n_kept[S.indptr]), shape=S.shape)  # with stored zeros

    def similar_share(self, n_modalities: int) -> float:
        """Return the weighted share p of similar pairs among the observed ones."""
        similar = total = 0
        for a, b in itertools.combinations(range(n_modalities), 2):
            observed = self.between(a, b).data
            weight = pair_weight(self.pair_weights, a, b)
            similar += weight * int(observed.sum(dtype=np.int64))
            total += weight * len(observed)
        return similar / max(total, 1)

    def step(
        self, model: LatentFactorModel, modality: int, codes: list[Codes], sample: Sample | None, workers: Workers
    ) -> int:
        blocks, columns, weights = [], [], []
        for b in range(len(codes)):
            if b != modality:
                chosen = self._choose(b, sample)
                # Sampled columns are rows of the transposed matrix; only these are transposed back.
                whole = len(chosen) == len(self)
                block = self._directed(modality, b) if whole else self._directed(b, modality)[chosen].T.tocsr()
                blocks.append(block)
                columns.append(codes[b] if whole else codes[b][chosen])
                weights.append(np.full(len(chosen), pair_weight(self.pair_weights, modality, b), np.int32))
        S = sp.csr_array(blocks[0] if len(blocks) == 1 else sp.hstack(blocks, format="csr"))
        own, others = codes[modality], np.concatenate(columns)
        rows = own, own.view(np.uint64), _pairs(S), np.concatenate(weights), others, others.view(np.uint64)
        update = functools.partial(_kernels.update_observed_rows, *rows, model.tables, 0, model.n_bits)
        cost = max(S.nnz, 1) / len(self) * model.n_bits
        return sum(workers.map_blocks(update, len(self), workers.even_block(len(self), cost)))

    def _choose(self, modality: int, sample: Sample | None) -> Integers:
        points = np.arange(len(self)) if self.present is None else np.flatnonzero(self.present[modality])
        if sample is None:
            return points
        return np.sort(points[sample.rng.choice(len(points), min(sample.size, len(points)), replace=False)])

    def _directed(self, a: int, b: int) -> sp.csr_array:
        return self.S if a < b else self._transposed

    @functools.cached_property
    def _transposed(self) -> sp.csr_array:
        return sp.csr_array(self.S.T.tocsr())

    def count_pairs(self, n_bits: int, modalities: tuple[int, int], codes: list[Codes], workers: Workers) -> Integers:
        a, b = modalities
        S = self.between(a, b)
        words = codes[a].view(np.uint64), codes[b].view(np.uint64)
        count = functools.partial(_kernels.count_observed_pairs, words[0], _pairs(S), words[1], n_bits)
        block = workers.even_block(len(self), max(S.nnz, 1) / len(self))
        counts = np.sum(workers.map_blocks(count, len(self), block), axis=0)
        return pair_weight(self.pair_weights, a, b) * counts


def _pairs(S: sp.csr_array) -> tuple[Integers, npt.NDArray[np.int32], Codes]:
    return S.indptr.astype(np.int64, copy=False), S.indices.astype(np.int32, copy=False), S.data
