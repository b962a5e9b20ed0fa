"""Sums over the data that a ridge regression needs, in one or two passes over chunks of rows.

Sums of two parts of the data add up to those of the whole, to rounding: data that arrives later, or that does not fit,
is a part.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import Features, raise_if_not_finite
from dlfh.errors import InputError

Floats = npt.NDArray[np.float64]

#: Bytes of a chunk of dense rows: a few times smaller than a processor's last cache.
_CHUNK_BYTES = 8 << 20

#: Features of which a Gram matrix is made by blocks, at most: it takes 2 GiB, wherever a block is worked on.
_MOST_FEATURES = 16384


@dataclass(frozen=True)
class Moments:
    """What a ridge regression needs to know of some points.

    Attributes
    ----------
    n_points : int
    mean, target_mean : ndarray of float64 (d,) and (n_bits,)
    gram : ndarray of float64 (d, d)
        X'X of the centred features.
    cross : ndarray of float64 (d, n_bits)
        X'U of the centred features and the target codes.
    rounding : float
        Relative error of the features' sums of squares.
    after_products : bool
        Whether features were centred after they were multiplied, as sparse ones are; then the error is relative to what
        they were before.

    Examples
    --------
    >>> X, U = np.array([[0.0], [2.0], [7.0]]), np.array([[1.0], [-1.0], [1.0]])
    >>> whole, first, rest = (Moments.of_rows(X[own], U[own]) for own in (slice(3), slice(1), slice(1, 3)))
    >>> (first + rest).gram == whole.gram, (first + rest).mean == whole.mean
    (array([[ True]]), array([ True]))
    """

    n_points: int
    mean: Floats
    gram: Floats
    cross: Floats
    target_mean: Floats
    rounding: float = float(np.finfo(np.float64).eps)
    after_products: bool = False

    @classmethod
    def of_rows(cls, rows: Floats, targets: npt.NDArray[Any]) -> Moments:
        """Return the moments of a few dense rows."""
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred, centred.T @ targets, targets.mean(axis=0, dtype=np.float64))

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of these points and others."""
        n = self.n_points + other.n_points
        apart, targets_apart = other.mean - self.mean, other.target_mean - self.target_mean
        share, weight = other.n_points / n, self.n_points * other.n_points / n
        gram, cross = self.gram + other.gram, self.cross + other.cross
        gram += np.outer(weight * apart, apart)
        cross += np.outer(weight * apart, targets_apart)
        return Moments(
            n,
            self.mean + share * apart,
            gram,
            cross,
            self.target_mean + share * targets_apart,
            max(self.rounding, other.rounding),
            self.after_products or other.after_products,
        )

    @property
    def variances(self) -> Floats:
        """Each feature's sum of centred squares."""
        return np.diag(self.gram)

    @property
    def floor(self) -> float:
        """The least ridge that is more than the rounding error of the Gram matrix."""
        total = float(self.variances.sum())
        if self.after_products:
            return 16 * self.rounding * (total + self.n_points * float(self.mean @ self.mean))
        return self.rounding * total

    def divided(self, divisors: Floats) -> Moments:
        """Return the moments of the features divided by something each."""
        gram, cross = self.gram / divisors[:, None] / divisors, self.cross / divisors[:, None]
        return replace(self, mean=self.mean / divisors, gram=gram, cross=cross)

    def without_constants(self) -> Moments:
        """Return the same with nothing left of features that vary by rounding alone: it must not be fitted."""
        if self.after_products:
            constant = self.variances <= 1e-12 * (self.variances + self.n_points * self.mean**2)
        else:
            constant = is_constant(self.variances, self.n_points, self.mean, self.rounding)
        if not constant.any():
            return self
        gram, cross = self.gram.copy(), self.cross.copy()
        gram[constant] = gram[:, constant] = cross[constant] = 0
        return replace(self, gram=gram, cross=cross)


def check_gram_fits(modality: str, n_features: int) -> None:
    """Raise InputError for a modality by blocks that is too wide for a Gram matrix of each block."""
    if n_features > _MOST_FEATURES:
        raise InputError(
            f"modality {modality!r} has {n_features} features, and by blocks at most {_MOST_FEATURES} are "
            "learned from: pass a sparse matrix in memory"
        )


def rounding_of(dtype: npt.DTypeLike) -> float:
    """Return the relative rounding error of a floating type."""
    return float(np.finfo(dtype).eps)


def compute_dtype(dtype: np.dtype) -> npt.DTypeLike:
    """Return the floating type to compute in: that of the data, or one that holds its integers."""
    if dtype.kind == "f":
        return np.float32 if dtype.itemsize <= 4 else np.float64
    return np.float32 if dtype.itemsize <= 2 else np.float64


def row_chunks(features: Features, extra_columns: int = 0, chunk_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of chunks of rows that, dense, take so many bytes; fit in a cache by default."""
    width = extra_columns if sp.issparse(features) else features.shape[1] + extra_columns
    row_bytes = width * np.dtype(compute_dtype(features.dtype)).itemsize
    rows = max(64, (chunk_bytes or _CHUNK_BYTES) // row_bytes)
    for start in range(0, features.shape[0], rows):
        yield start, min(start + rows, features.shape[0])


def moments(features: Features, targets: Targets, modality: str, workers: Workers) -> Moments:
    """Return what ridge regression of the target codes on the features needs."""
    sparse = sp.issparse(features)
    parts = (_sparse_moments if sparse else _dense_moments)(features, targets, modality, workers)
    rounding = rounding_of(np.float64 if sparse else compute_dtype(features.dtype))
    return Moments(features.shape[0], *parts, targets.mean(), rounding, sparse).without_constants()


def _dense_moments(
    features: npt.NDArray[np.generic], targets: Targets, modality: str, workers: Workers
) -> tuple[Floats, Floats, Floats]:
    n, n_features = features.shape
    dtype = compute_dtype(features.dtype)
    # Few distinct codes: X'U is a sum over them of (sum of their points' features) x code.
    grouped = 8 * len(targets.codes) <= n
    sums = np.zeros((len(targets.codes) if grouped else 1, n_features))
    group_of_point = targets.row_of_point if grouped else np.zeros(n, np.int64)
    # Features that must be converted are so once: each chunk is centred by its own mean in the same pass.
    gram = np.zeros((n_features, n_features)) if grouped and features.dtype != dtype else None
    apart: list[Floats] = []
    for start, stop in row_chunks(features):
        chunk = _converted(features[start:stop], dtype, workers)
        add_columns = functools.partial(_kernels.sum_rows_by_group, chunk, group_of_point[start:stop], sums)
        workers.map_blocks(add_columns, n_features, workers.even_block(n_features, stop - start))
        if gram is not None:
            apart.append(chunk.mean(axis=0, dtype=np.float64))
            chunk -= apart[-1].astype(dtype)
            gram += chunk.T @ chunk
    if not np.isfinite(sums).all():
        raise_if_not_finite(features, modality)
    mean = sums.sum(axis=0) / n

    if gram is not None:
        lengths = np.array([stop - start for start, stop in row_chunks(features)])
        moved = np.sqrt(lengths)[:, None] * (np.array(apart) - mean)
        gram += moved.T @ moved
    if grouped:
        gram = dense_gram(features, mean, dtype) if gram is None else gram
        counts = np.bincount(group_of_point, minlength=len(sums))
        cross = (sums - np.outer(counts, mean)).T @ targets.rows(0, len(sums))
    else:
        cross = np.zeros((n_features, targets.n_bits))
        gram = dense_gram(features, mean, dtype, targets, cross)
    return mean, gram, cross


def _converted(rows: npt.NDArray[np.generic], dtype: npt.DTypeLike, workers: Workers) -> npt.NDArray[Any]:
    """Return rows in the type to compute in; as they are, if that is their own."""
    if rows.dtype == dtype:
        return rows
    converted = np.empty(rows.shape, dtype)

    def convert(start: int, stop: int) -> None:
        converted[start:stop] = rows[start:stop]

    workers.map_blocks(convert, len(rows), workers.even_block(len(rows), 2 * rows.shape[1]))
    return converted


def dense_gram(
    features: npt.NDArray[np.generic],
    mean: Floats,
    dtype: npt.DTypeLike,
    targets: Targets | None = None,
    cross: Floats | None = None,
) -> Floats:
    """Return X'X of the centred features; add X'U to ``cross``, if asked for, in the same pass."""
    gram = np.zeros((features.shape[1], features.shape[1]))
    centre = mean.astype(dtype)
    for start, stop in row_chunks(features):
        chunk = np.subtract(features[start:stop], centre, dtype=dtype)
        gram += chunk.T @ chunk
        if targets is not None and cross is not None:
            cross += chunk.T @ targets.points(start, stop).astype(dtype)
    return gram


def sparse_gram(features: sp.csr_array, mean: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return X'X of the centred features, and which features are constant."""
    n, n_features = features.shape
    gram = np.zeros((n_features, n_features))
    _kernels.add_sparse_gram(features.indptr, features.indices, features.data, gram)
    gram += np.triu(gram, 1).T
    second_moments = np.diag(gram).copy()
    gram -= n * np.outer(mean, mean)
    return gram, np.diag(gram) <= 1e-12 * second_moments  # the rounding of that difference


def is_constant(squares: npt.NDArray[Any], n: int, mean: Floats, rounding: float) -> npt.NDArray[np.bool_]:
    """Tell features whose sum of centred squares is rounding: what is left of them must not be fitted."""
    return np.isfinite(squares) & (squares <= n * (8 * rounding * np.abs(mean)) ** 2)


def _sparse_moments(
    features: sp.csr_array, targets: Targets, modality: str, workers: Workers
) -> tuple[Floats, Floats, Floats]:
    if not np.isfinite(features.data).all():
        raise_if_not_finite(features, modality)
    n, n_features = features.shape
    membership = sp.csr_array((np.ones(n), targets.row_of_point, np.arange(n + 1)), shape=(n, len(targets.codes)))
    sums = (membership.T @ features).tocsr()
    mean = np.asarray(sums.sum(axis=0)).ravel() / n
    cross = np.zeros((n_features, targets.n_bits))
    total = np.zeros(targets.n_bits)
    counts = np.bincount(targets.row_of_point, minlength=len(targets.codes))
    for start in range(0, sums.shape[0], 65536):
        codes = targets.rows(start, start + 65536)
        cross += sums[start : start + 65536].T @ codes
        total += counts[start : start + 65536] @ codes
    cross -= np.outer(mean, total)
    gram, _ = sparse_gram(features, mean)
    return mean, gram, cross
