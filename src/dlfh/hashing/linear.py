"""Linear hash functions: ridge regression of the codes on the features (the paper's section 3.3).

Unlike the paper's, the regression has an intercept by default: features are centred but codes are not, and the
threshold of a bit that is +1 for 80 % of the points would otherwise be misplaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Singles
from dlfh._mathematics.centred import CentredBlocks, CentredRows
from dlfh._mathematics.moments import Moments, check_gram_fits, compute_dtype, moments
from dlfh._mathematics.ridge import (
    Ridge,
    RidgeSolution,
    check_ridge,
    is_wide,
    leave_one_out_by_points,
    ridge_of_moments,
    solve_without_gram,
    solves_without_gram,
)
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers, row_chunks
from dlfh._validation import Features, check_choice, check_flag, check_positive, raise_for_overflow
from dlfh.blocks.base import Blocks
from dlfh.codes import n_bytes
from dlfh.hashing.base import ChunkedFunction, FitContext, HashFunction, SummedLearner, check_array
from dlfh.hashing.feature_maps import SCALINGS, UNSCALED, Scaling, Survey

#: Size of a chunk of dense rows to encode, in bytes, which the processor's cache still holds after their product.
_ENCODE_BYTES = 4 << 20


class LinearHash(HashFunction):
    """``code(x) = sign((x - mean) @ weights + intercept)``, of scaled points x.

    ridge: The ridge of the regression.
    offset (n_bits,): ``intercept - mean @ weights``, so that ``code(x) = sign(x @ weights + offset)``.
    """

    kind = "linear"

    def __init__(
        self,
        mean: Floats,
        weights: Singles,
        intercept: Floats,
        ridge: float,
        offset: Floats | None = None,
        scaling: Scaling = UNSCALED,
    ) -> None:
        self.mean, self.intercept, self.ridge, self.scaling = mean, intercept, ridge, scaling
        # By rows, as in a file: BLAS may round differently for another layout.
        self.weights = weights = np.ascontiguousarray(weights)
        self.n_features, self.n_bits = weights.shape
        # Computed from the rounded weights, so that a large mean cancels exactly.
        self.offset = intercept - np.matmul(mean, weights, dtype=np.float64) if offset is None else offset
        self._terms: dict[tuple[float, np.dtype[Any]], Array] = {}  # see _bit_terms

    @classmethod
    def of_centred(
        cls, X: CentredBlocks | CentredRows, weights: Floats, intercept: Floats | float = 0.0, ridge: float = 0.0
    ) -> LinearHash:
        """Return ``code(x) = sign((x - m) @ weights + intercept)`` for features centred by their mean m.

        Constant features get the weight 0.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            single = np.where(X.is_constant[:, None], 0.0, weights).astype(np.float32)
        if not np.isfinite(single).all():
            raise_for_overflow(X.whole, X.modality)
        offsets = np.broadcast_to(np.asarray(intercept, np.float64), (weights.shape[1],)).copy()
        return cls(X.mean, single, offsets, ridge)

    def columns(self, columns: slice) -> LinearHash:
        part = copy.copy(self)
        part.weights = np.ascontiguousarray(self.weights[:, columns])
        part.intercept, part.offset = self.intercept[columns], self.offset[columns]
        part.n_bits, part._terms = len(part.offset), {}
        return part

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        projections = np.empty((features.shape[0], self.n_bits), np.float32)
        self._compute(features, modality, workers, projections)
        return projections

    def encode(self, features: Features, modality: str, workers: Workers) -> Codes:
        return self._compute(features, modality, workers, None)

    def _compute(self, features: Features, modality: str, workers: Workers, projections: Singles | None) -> Codes:
        """Return codes whose bits are unaffected by rounding; fill ``projections``, ``x @ weights + offset``."""
        n, is_sparse = features.shape[0], sp.issparse(features)
        codes = np.empty((n, n_bytes(self.n_bits)), np.uint8)
        compute = self._compute_sparse if is_sparse else self._compute_dense

        def fill(start: int, stop: int) -> bool:
            part = None if projections is None else projections[start:stop]
            with np.errstate(over="ignore", invalid="ignore"):
                return compute(features, start, stop, part, codes[start:stop])

        chunk_rows = next((stop for _, stop in row_chunks(features, self.n_bits, _ENCODE_BYTES)), 1)
        if is_sparse:
            chunk_rows = workers.even_block(n, self.n_bits * (2 + features.nnz / max(n, 1)))
        # NaN or infinity in a row makes all of its values NaN or infinite, so x itself need not be checked.
        if not all(workers.each_block(fill, n, chunk_rows)):
            raise_for_overflow(features, modality)
        return codes

    def _compute_dense(self, features: Array, start: int, stop: int, projections: Singles | None, codes: Codes) -> bool:
        """Fill the codes and projections of a range of rows; return whether they are finite."""
        dtype = compute_dtype(features.dtype)
        rounding = (self.n_features + 8) * float(np.finfo(dtype).eps)
        rows = np.ascontiguousarray(self.scaling(features[start:stop]), dtype)
        in_place = projections is not None and projections.dtype == dtype
        values = np.matmul(rows, self.weights.astype(dtype, copy=False), out=projections if in_place else None)
        terms = self._bit_terms(rounding, dtype)
        # A scalar of the same type, or everything would be computed in double precision.
        scalar = terms.dtype.type(rounding)
        found = _kernels.finish_products(rows, self.weights, self.offset, terms, scalar, values, codes, 0, len(rows))
        if projections is not None and not in_place:
            projections[:] = values
        return bool(found)

    def _compute_sparse(
        self, features: sp.csr_array, start: int, stop: int, projections: Singles | None, codes: Codes
    ) -> bool:
        if self.scaling.kind != "none":
            whole = stop - start == features.shape[0]  # slicing a sparse matrix takes longer than encoding a point
            features, start, stop = self.scaling(features if whole else features[start:stop]), 0, stop - start
        arrays = features.indptr[start : stop + 1], features.indices, features.data
        values = np.empty((0, self.n_bits), np.float32) if projections is None else projections
        terms = self._bit_terms(8 * float(np.finfo(np.float32).eps), np.float32)
        return bool(_kernels.sparse_products(*arrays, self.weights, self.offset, terms, values, codes, 0, stop - start))

    def _bit_terms(self, rounding: float, dtype: npt.DTypeLike) -> Array:
        """Return, for each bit, the offset, |w| and the rounding of the offset."""
        key = rounding, np.dtype(dtype)
        if key not in self._terms:
            norms = np.sqrt(np.einsum("dk,dk->k", self.weights, self.weights, dtype=np.float64))
            with np.errstate(over="ignore"):  # infinite values are reported later
                self._terms[key] = np.array([self.offset, norms, rounding * np.abs(self.offset)]).astype(dtype)
        return self._terms[key]

    def to_arrays(self) -> dict[str, Array]:
        arrays = {name: getattr(self, name) for name in ("mean", "weights", "intercept", "offset")}
        return arrays | {"ridge": np.array([self.ridge])} | self.scaling.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LinearHash:
        weights = check_array(arrays, "weights", np.float32, (None, None))
        n_features, n_bits = weights.shape
        mean = check_array(arrays, "mean", np.float64, (n_features,))
        intercept, offset = (check_array(arrays, name, np.float64, (n_bits,)) for name in ("intercept", "offset"))
        ridge = float(check_array(arrays, "ridge", np.float64, (1,))[0])
        return cls(mean, weights, intercept, ridge, offset, Scaling.from_arrays(arrays, n_features))


class UnitLinearHash(ChunkedFunction):
    """A linear function of rows scaled to length 1 by `unit_rows`, as matrix factorization needs."""

    kind = "unit-linear"
    chunk_rows = 8192
    is_logistic = False

    def __init__(self, function: LinearHash, *, split: bool) -> None:
        self.function, self.split = function, split
        self.n_features, self.n_bits = function.n_features // (2 if split else 1), function.n_bits

    def _values(self, rows: Features, modality: str, workers: Workers) -> Singles:
        unit = unit_rows(rows, split=self.split)
        if not np.isfinite(unit.data if sp.issparse(unit) else unit).all():
            return np.full((rows.shape[0], self.n_bits), np.nan, np.float32)  # `project` finds the row
        return self.function.project(unit, modality, workers)

    def to_arrays(self) -> dict[str, Array]:
        return self.function.to_arrays() | {"split": np.array([self.split])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> UnitLinearHash:
        split = bool(check_array(arrays, "split", np.bool_, (1,))[0])
        function = LinearHash.from_arrays(arrays)
        if split and function.n_features % 2:
            raise ValueError(f"its number of split features must be even, got {function.n_features}")
        return cls(function, split=split)


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


@dataclass(eq=False, repr=False)
class LinearRidge(SummedLearner):
    """Linear hash functions by ridge regression.

    Parameters
    ----------
    ridge : float or "auto", default "auto"
        The ridge, the paper's gamma; "auto" is ``shrinkage`` x the mean of the features' variances (times the number of
        points), each capped at 100 x their median. It is at least the rounding error of the Gram matrix, which for
        float32 data is 1e-7 x its trace.
    shrinkage : float, default 0.01
    fit_intercept : bool, default True
    scaling : {"none", "root", "standard"}, default "none"
        Scaling of the features: none; signed square roots and points of length 1, which suits histograms and counts; or
        division by their standard deviations.
    """

    kind = "linear-ridge"

    ridge: float | str = "auto"
    _: KW_ONLY
    shrinkage: float = 0.01
    fit_intercept: bool = True
    scaling: Literal["none", "root", "standard"] = "none"

    def check_parameters(self) -> None:
        check_ridge(self.ridge)
        check_positive(self.shrinkage, "shrinkage", allow_zero=True)
        check_flag(self.fit_intercept, "fit_intercept")
        check_choice(self.scaling, "scaling", SCALINGS)

    def fit_blocks(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> LinearHash:
        scaling, whole = Scaling(self.scaling), features.whole
        if whole is None:
            check_gram_fits(modality, features.shape[1])
        if self.scaling == "standard":
            # Fitting the scaling to blocks would take another pass: their sums are divided instead, see `function`.
            scaling = UNSCALED if whole is None else Survey.of(features, modality, context).scaling("standard")
        if whole is None or not solves_without_gram(whole):
            sums = self.sum_blocks(scaling, features, targets, modality, context)
            function, context.solutions[modality] = self._solve(scaling, sums, modality, keep=False)
            return function
        with np.errstate(over="ignore", invalid="ignore"):
            ridge = Ridge(self.ridge, self.shrinkage)
            mean, weights, gamma = solve_without_gram(scaling(whole), targets.whole, ridge, modality, context.workers)
        if not np.isfinite(mean).all():
            raise_for_overflow(whole, modality)
        return self._hash(mean, weights, targets.whole.mean(), gamma, scaling, modality)

    def map_of(self, function: HashFunction) -> Scaling:
        """Return the scaling to apply before summing points; for "standard", the sums are divided afterwards."""
        assert isinstance(function, LinearHash)
        return UNSCALED if self.scaling == "standard" else function.scaling

    def sums(
        self, feature_map: Scaling, features: Features, targets: Targets, modality: str, workers: Workers
    ) -> Moments:
        with np.errstate(over="ignore", invalid="ignore"):
            found = moments(feature_map(features), targets, modality, workers)
        if not np.isfinite(found.gram).all():
            raise_for_overflow(features, modality)
        return found

    def function(self, feature_map: Scaling, sums: Moments, modality: str) -> LinearHash:
        return self._solve(feature_map, sums, modality, keep=True)[0]

    def _solve(self, scaling: Scaling, sums: Moments, modality: str, *, keep: bool) -> tuple[LinearHash, RidgeSolution]:
        if self.scaling == "standard" and scaling.kind != "standard":
            mean_squares = sums.variances / sums.n_points + sums.mean**2
            scaling = Scaling.by_deviations(np.sqrt(sums.variances / sums.n_points), mean_squares)
            sums = sums.divided(scaling.divisors)
        with np.errstate(over="ignore", invalid="ignore"):
            weights, ridge, factor = ridge_of_moments(sums, Ridge(self.ridge, self.shrinkage), keep=keep)
        function = self._hash(sums.mean, weights, sums.target_mean, ridge, scaling, modality)
        intercept = function.intercept, bool(self.fit_intercept)
        return function, RidgeSolution(sums.n_points, sums.mean, factor, weights, *intercept)

    def _hash(
        self, mean: Floats, weights: Array, target_mean: Floats, ridge: float, scaling: Scaling, modality: str
    ) -> LinearHash:
        with np.errstate(over="ignore"):
            single = weights.astype(np.float32, copy=False)
        if not (np.isfinite(single).all() and np.isfinite(ridge)):
            raise_for_overflow(None, modality)
        intercept = target_mean if self.fit_intercept else np.zeros_like(target_mean)
        return LinearHash(mean, single, intercept, ridge, scaling=scaling)

    def leave_one_out(
        self, function: HashFunction, features: Features, targets: Targets, solution: RidgeSolution | None = None
    ) -> Singles | None:
        assert isinstance(function, LinearHash)
        if solution is None and is_wide(features):
            return None  # leverages would need the Gram matrix, which is too large
        scaled, ridge = function.scaling(features), function.ridge
        if solution is None and scaled.shape[1] > scaled.shape[0]:
            return leave_one_out_by_points(scaled, targets, ridge, intercept=self.fit_intercept)

        def rows(chunk: slice) -> Array:
            return scaled[chunk].toarray() if sp.issparse(scaled) else scaled[chunk]

        if solution is None:
            solution = RidgeSolution.of_rows(rows, targets, lambda _: ridge, intercept=self.fit_intercept)
        return solution.leave_one_out(rows, targets)
