"""Sufficient statistics of a ridge regression, in one pass over chunks of rows.

The statistics are additive over parts of the data, up to rounding, so data can arrive in parts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers, blas_threads, row_chunks
from dlfh._validation import Features, raise_if_not_finite
from dlfh.errors import InputError

#: Maximum number of features of a Gram matrix that is kept or computed in blocks: it takes 2 GiB.
MAX_GRAM_FEATURES = 16384
#: Number of rows whose mean centres dense rows before products, which are then corrected for the mean of all.
_SAMPLE = 4096
#: Size of a chunk of rows, which are read again from the cache after they were centred.
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Moments:
    """Sufficient statistics of a ridge regression.

    gram (d, d): X'X of the centred features.
    cross (d, n_bits): X'U of the centred features and the target codes.
    rounding: Relative rounding error of the features' sums of squares.
    after_products: Whether features were centred after the multiplication, as sparse ones are; then the error is
        relative to the uncentred sums.
    """

    n_points: int
    mean: Floats
    gram: Floats
    cross: Floats
    target_mean: Floats
    rounding: float = float(np.finfo(np.float64).eps)
    after_products: bool = False

    @classmethod
    def of_rows(cls, rows: Array, targets: Targets, start: int = 0) -> Moments:
        """Return the moments of a few dense rows, which are overwritten, with products in the precision of the rows.

        start: Number of the first row among the points of the targets.
        """
        ones = np.ones(len(rows), rows.dtype)
        centre = ones @ rows / len(rows)
        rows -= centre
        mean = centre + (ones @ rows).astype(np.float64) / len(rows)  # corrected for the rounding error of the centre
        return cls(len(rows), mean, rows.T @ rows, *targets.cross(rows, start, start + len(rows)))

    @classmethod
    def total(cls, parts: Iterable[Moments]) -> Moments:
        """Return the sum of parts, in double precision, with one part in memory at a time."""
        gram = cross = np.zeros(())
        known: list[tuple[int, Floats, Floats, float, bool]] = []
        for part in parts:
            gram = part.gram.astype(np.float64) if not known else np.add(gram, part.gram, out=gram)
            cross = part.cross.astype(np.float64) if not known else np.add(cross, part.cross, out=cross)
            known.append((part.n_points, part.mean, part.target_mean, part.rounding, part.after_products))
        counts, means, target_means, roundings, after_products = map(np.array, zip(*known, strict=True))
        n, roots = int(counts.sum()), np.sqrt(counts)[:, None]
        mean, target_mean = counts @ means / n, counts @ target_means / n
        shifts = roots * (means - mean)
        gram += shifts.T @ shifts
        cross += shifts.T @ (roots * (target_means - target_mean))
        return cls(n, mean, gram, cross, target_mean, float(roundings.max()), bool(after_products.any()))

    def __add__(self, other: Moments) -> Moments:
        return Moments.total((self, other))

    @property
    def variances(self) -> Floats:
        """Each feature's sum of centred squares."""
        return np.diag(self.gram)

    @property
    def floor(self) -> float:
        """The rounding error of the Gram matrix, a lower bound for the ridge."""
        return rounding_error(self.variances, self.n_points, self.mean, self.rounding, self.after_products)

    def with_targets(self, n_targets: int) -> Moments:
        """Return the moments with additional targets, which are 0 for all points so far."""
        more = n_targets - len(self.target_mean)
        cross, target_mean = np.pad(self.cross, ((0, 0), (0, more))), np.pad(self.target_mean, (0, more))
        return replace(self, cross=cross, target_mean=target_mean)

    def divided(self, divisors: Floats) -> Moments:
        """Return the moments of the features, each divided by its divisor."""
        gram, cross = self.gram / divisors[:, None] / divisors, self.cross / divisors[:, None]
        return replace(self, mean=self.mean / divisors, gram=gram, cross=cross)

    @property
    def is_constant(self) -> Mask:
        """Mask of features that vary only by rounding."""
        if self.after_products:
            return self.variances <= 1e-12 * (self.variances + self.n_points * self.mean**2)
        return is_constant(self.variances, self.n_points, self.mean, self.rounding)

    def without_constants(self) -> Moments:
        """Return the moments with constant features set to 0, so that noise is not fitted."""
        constant = self.is_constant
        if not constant.any():
            return self
        gram, cross = self.gram.copy(), self.cross.copy()
        gram[constant] = gram[:, constant] = cross[constant] = 0
        return replace(self, gram=gram, cross=cross)


def check_gram_fits(modality: str, n_features: int) -> None:
    """Raise InputError for a modality in blocks that is too wide for a Gram matrix of each block."""
    if n_features > MAX_GRAM_FEATURES:
        raise InputError(
            f"modality {modality!r} has {n_features} features, but data in blocks can have at most "
            f"{MAX_GRAM_FEATURES}: pass a sparse matrix in memory"
        )


def rounding_of(dtype: npt.DTypeLike) -> float:
    """Return the relative rounding error of a floating-point type."""
    return float(np.finfo(dtype).eps)


def rounding_error(variances: Floats, n: int, mean: Floats, rounding: float, after_products: bool) -> float:
    """Return the rounding error of a Gram matrix; it is larger if features were centred after the multiplication."""
    total = float(variances.sum())
    return 16 * rounding * (total + n * float(mean @ mean)) if after_products else rounding * total


def compute_dtype(dtype: np.dtype) -> npt.DTypeLike:
    """Return the floating-point type to compute in: the data's type, or one that represents its integers."""
    if dtype.kind == "f":
        return np.float32 if dtype.itemsize <= 4 else np.float64
    return np.float32 if dtype.itemsize <= 2 else np.float64


def moments(features: Features, targets: Targets, modality: str, workers: Workers) -> Moments:
    """Return the moments of features and target codes."""
    sparse = sp.issparse(features)
    parts = (_sparse_moments if sparse else _dense_moments)(features, targets, modality, workers)
    rounding = rounding_of(np.float64 if sparse else compute_dtype(features.dtype))
    return Moments(features.shape[0], *parts, targets.mean(), rounding, sparse).without_constants()


def _dense_moments(features: Array, targets: Targets, modality: str, workers: Workers) -> tuple[Floats, Floats, Floats]:
    """Return the mean, X'X and X'U in one pass over rows that are centred by the mean of a sample."""
    n, n_features = features.shape
    dtype = compute_dtype(features.dtype)
    # With few distinct codes, X'U is the sum over codes of (sum of the features of their points) x code.
    grouped = 8 * len(targets.codes) <= n
    sums = np.zeros((len(targets.codes) if grouped else 1, n_features))
    group_of_point = targets.row_of_point if grouped else np.zeros(n, np.int64)
    gram, cross = np.zeros((n_features, n_features)), np.zeros((n_features, targets.n_bits))
    with np.errstate(over="ignore", invalid="ignore"):
        centre = features[:: n // _SAMPLE + 1].mean(axis=0, dtype=np.float64).astype(dtype)
    chunk_rows = next((stop for _, stop in row_chunks(features, chunk_bytes=_CHUNK_BYTES)), 1)
    batch_rows = min(chunk_rows * workers.n_jobs, n)
    buffer = np.empty((batch_rows, n_features), dtype)
    for first in range(0, n, batch_rows):
        groups = group_of_point[first : first + batch_rows]
        rows, centred = _converted(features[first : first + batch_rows], dtype, workers), buffer[: len(groups)]
        centre_columns = functools.partial(_kernels.centre_rows, rows, centre, groups, centred, sums)
        workers.map_blocks(centre_columns, n_features, workers.even_block(n_features, 2 * len(rows)))

        def products(start: int, stop: int, first: int = first, centred: Array = centred) -> tuple[Array, Any]:
            with np.errstate(over="ignore", invalid="ignore"):  # the caller's setting does not apply to other threads
                chunk = centred[start:stop]
                return chunk.T @ chunk, 0.0 if grouped else targets.cross(chunk, first + start, first + stop)[0]

        with blas_threads(1):  # also for a single chunk, so that results do not depend on the number of threads
            for own, with_targets in workers.each_block(products, len(rows), chunk_rows):
                gram += own
                cross += with_targets
    if not np.isfinite(sums).all():
        raise_if_not_finite(features, modality)
    shift = sums.sum(axis=0) / n  # from the mean of the sample to that of all points
    gram -= n * np.outer(shift, shift)
    if grouped:
        counts = np.bincount(group_of_point, minlength=len(sums))
        cross = (sums - np.outer(counts, shift)).T @ targets.rows(0, len(sums))
    else:
        cross -= n * np.outer(shift, targets.mean())
    return centre + shift, gram, cross


def _converted(rows: Array, dtype: npt.DTypeLike, workers: Workers) -> Array:
    if rows.dtype == dtype:
        return rows
    converted = np.empty(rows.shape, dtype)

    def convert(start: int, stop: int) -> None:
        converted[start:stop] = rows[start:stop]

    workers.map_blocks(convert, len(rows), workers.even_block(len(rows), 2 * rows.shape[1]))
    return converted


def dense_gram(features: Array, mean: Floats, dtype: npt.DTypeLike) -> Floats:
    """Return X'X of the centred features."""
    n_features = features.shape[1]
    gram, centre = np.zeros((n_features, n_features)), mean.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for start, stop in row_chunks(features):
            chunk = np.subtract(features[start:stop], centre, dtype=dtype)
            gram += chunk.T @ chunk
    return gram


def sparse_gram(features: sp.csr_array, mean: Floats) -> Floats:
    """Return X'X of the centred features."""
    n, n_features = features.shape
    gram = np.zeros((n_features, n_features))
    _kernels.add_sparse_gram(features.indptr, features.indices, features.data, gram)
    gram += np.triu(gram, 1).T
    gram -= n * np.outer(mean, mean)
    return gram


def is_constant(squares: Array, n: int, mean: Floats, rounding: float) -> Mask:
    """Return a mask of features whose sum of centred squares is a rounding error."""
    return np.isfinite(squares) & (squares <= n * (8 * rounding * np.abs(mean)) ** 2)


def _sums_by_group(features: sp.csr_array, group_of_point: Integers, n_groups: int) -> Features:
    """Return the sum of the features of each group's points."""
    n, n_features = features.shape
    if n_groups * n_features <= features.nnz:  # as a dense matrix, which takes a fraction of the time
        sums = np.zeros((n_groups, n_features))
        arrays = features.indptr, features.indices, features.data
        _kernels.sum_sparse_rows_by_group(*arrays, group_of_point, sums)
        return sums
    membership = sp.csr_array((np.ones(n), group_of_point, np.arange(n + 1)), shape=(n, n_groups))
    return (membership.T @ features).tocsr()


def _sparse_moments(
    features: sp.csr_array, targets: Targets, modality: str, workers: Workers
) -> tuple[Floats, Floats, Floats]:
    if not np.isfinite(features.data).all():
        raise_if_not_finite(features, modality)
    n, n_features = features.shape
    sums = _sums_by_group(features, targets.row_of_point, len(targets.codes))
    mean = np.asarray(sums.sum(axis=0)).ravel() / n
    cross, total = np.zeros((n_features, targets.n_bits)), np.zeros(targets.n_bits)
    counts = np.bincount(targets.row_of_point, minlength=len(targets.codes))
    for start in range(0, sums.shape[0], 65536):
        codes = targets.rows(start, start + 65536)
        cross += sums[start : start + 65536].T @ codes
        total += counts[start : start + 65536] @ codes
    cross -= np.outer(mean, total)
    return mean, sparse_gram(features, mean), cross
